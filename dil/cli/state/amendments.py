"""``dil state forget``, ``rewind``, ``undo``, ``prune``, ``expire``, ``relist`` and ``import``."""

from __future__ import annotations

from pathlib import Path

import click

from dil.cli.arguments import parse_unit
from dil.cli.state.amending import Request, act_command, conclude, operator_session
from dil.cli.state.opening import instant, sequence
from dil.errors import ConfigError
from dil.operator.amendments import (
    FileDecision,
    Selection,
    propose_expiry,
    propose_forget,
    propose_import,
    propose_prune,
    propose_relist,
    propose_rewind,
    propose_undo,
)
from dil.state.work_units.signatures import encoded

_JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
_keep_option = click.option(
    "--keep-files", "keep", is_flag=True, help="Keep published files, although rows may double."
)
_withdraw_option = click.option(
    "--withdraw-files",
    "withdraw",
    is_flag=True,
    help="Also take the published files out of the dataset.",
)


@act_command("forget")
@click.option("--signature", "signatures", metavar="S", multiple=True, help="This work unit.")
@click.option("--unit", "units", metavar="JSON", multiple=True, help="All partitions of this unit.")
@click.option("--from", "low", metavar="TIME", help="Partitions that start at or after this.")
@click.option("--to", "high", metavar="TIME", help="Partitions that start before this.")
@click.option("--failed", is_flag=True, help="Work units that failed, or of which a part is owed.")
@click.option("--all", "everything", is_flag=True, help="Every work unit.")
@_keep_option
@_withdraw_option
def forget(  # noqa: PLR0913 - the options of the command
    request: Request,
    *,
    signatures: tuple[str, ...],
    units: tuple[str, ...],
    low: str | None,
    high: str | None,
    failed: bool,
    everything: bool,
    keep: bool,
    withdraw: bool,
) -> int:
    """Forget that work units were read: the next run reads them as new.

    A work unit must meet all given conditions.
    """
    is_limited = bool(signatures or units or low or high or failed)
    if is_limited == everything:
        raise ConfigError.single(
            "dil state forget",
            "needs to know which work units",
            "Give --signature, --unit, --from, --to, --failed, or --all alone.",
        )
    decision = _decision(keep=keep, withdraw=withdraw)
    with operator_session(request, "forget") as session:
        selection = Selection(
            signatures=frozenset(map(encoded, signatures)),
            units=frozenset(map(parse_unit, units)),
            low=None if low is None else instant(low, "--from", session.job),
            high=None if high is None else instant(high, "--to", session.job),
            failed_only=failed,
        )
        return conclude(request, session, propose_forget(session, selection, decision))


@act_command("rewind")
@click.option(
    "--to", "target", metavar="BLOCK|TIME", required=True, help="12, or 2024-03-05T06:00:00Z."
)
@_keep_option
@_withdraw_option
def rewind(request: Request, *, target: str, keep: bool, withdraw: bool) -> int:
    """Make all work units as they were at a block; what runs did since is due again."""
    decision = _decision(keep=keep, withdraw=withdraw)
    with operator_session(request, "rewind") as session:
        at = sequence(target, "--to", session.job, session.store)
        return conclude(request, session, propose_rewind(session, at, decision))


@act_command("undo")
def undo(request: Request) -> int:
    """Take back the last act of an operator; once more, to do it again."""
    with operator_session(request, "undo") as session:
        return conclude(request, session, propose_undo(session))


@act_command("prune")
def prune(request: Request) -> int:
    """Delete records outside of the job's range that are older than state.store of ms.retention.

    Records in the range, records of failed work units, and the chain stay. Rows of old runs are
    deleted, too, and with the member aside of ms.retention also old copies of withdrawn files, rows
    that were put aside, and audits.
    """
    with operator_session(request, "prune") as session:
        return conclude(request, session, propose_prune(session))


@act_command("expire")
def expire(request: Request) -> int:
    """Delete published files for good that are older than publish.dir of ms.retention.

    A file is as old as the commit that published it. Work units stay committed.
    """
    with operator_session(request, "expire") as session:
        return conclude(request, session, propose_expiry(session))


@act_command("relist")
def relist(request: Request) -> int:
    """Record the live files that the dataset's manifest lists.

    After a restore the chain lacks the files that runs published and replaced since. If the rows
    are loaded into a table, loads that the table lacks are no longer listed.
    """
    with operator_session(request, "relist") as session:
        return conclude(request, session, propose_relist(session))


@act_command("import")
@click.argument("file", metavar="FILE")
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "json"]),
    help="CSV with the header job,signature,high, or one JSON object a line. By the file's name.",
)
@click.option(
    "--replace", "replaces", is_flag=True, help="Allow lower high watermarks than the known ones."
)
def import_highs(request: Request, *, file: str, form: str | None, replaces: bool) -> int:
    """Import high watermarks, so that a job of LinkedIn's DIL does not start again.

    Rows of other jobs are left out. The whole file is imported, or nothing.
    """
    by_name = "json" if Path(file).suffix.lower() in _JSON_SUFFIXES else "csv"
    with operator_session(request, "import") as session:
        preview = propose_import(session, file, form or by_name, replaces=replaces)
        return conclude(request, session, preview)


def _decision(*, keep: bool, withdraw: bool) -> FileDecision:
    """Return the flags' decision about published files.

    Raises:
        ConfigError: both flags are given.
    """
    if keep and withdraw:
        raise ConfigError.single(
            "--keep-files", "and --withdraw-files exclude each other", "Give one of them."
        )
    if withdraw:
        return FileDecision.WITHDRAW
    return FileDecision.KEEP if keep else FileDecision.UNDECIDED
