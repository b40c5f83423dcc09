"""Verbs of ``dil state`` that amend the state: forget, rewind, undo, prune, watermark and more."""

from __future__ import annotations

from pathlib import Path

import click

from dil.cli.arguments import parse_unit
from dil.cli.state.amending import Request, act_command, conclude, operator_session
from dil.cli.state.opening import instant, opened, sequence
from dil.cli.stdout import emit, emit_json, emit_lines
from dil.errors import ConfigError
from dil.observe.event_view import events_json, kept_lines, time_text
from dil.operator import event_watermark
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
from dil.run import event_time
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


@act_command("watermark")
@click.option("--set", "to", metavar="TIME", help="Set it to 2024-03-05T06:00:00Z; forward only.")
@click.option(
    "--undo", is_flag=True, help="Take the last --set back, unless a run has used the watermark."
)
def watermark(request: Request, *, to: str | None, undo: bool) -> int:
    """Show the watermark of event time, set it, or undo the last change.

    The watermark judges the rows of the next run, and can never go back once a run has used it.
    """
    if to is not None and undo:
        raise ConfigError.single("--set", "and --undo exclude each other", "Give one of them.")
    if to is None and not undo:
        return _show_watermark(request)
    with operator_session(request, "watermark") as session:
        if to is None:
            change = event_watermark.propose_undo(session)
        else:
            at = instant(to, "--set", session.job, session.now_ms)
            change = event_watermark.propose_watermark(session, at, request.reason)
        job = session.job
        if not request.call.as_json:
            emit(f"{job.name}  watermark of event time, times in UTC\n")
            emit(f"  now    {time_text(change.before)}\n  then   {time_text(change.after)}\n")
            emit("  rows with earlier times are late from the next run on\n")
        is_agreed = request.has_consent()
        if is_agreed:
            event_watermark.apply_watermark(session, change)
        if request.call.as_json:
            members = {"before": change.before, "after": change.after}
            emit_json({"job": job.name, "applied": is_agreed, **members})
        elif is_agreed:
            emit(
                "done; `dil state watermark JOB.conf --undo` takes it back until a run has "
                "published\n"
            )
        else:
            emit("nothing was changed; --yes does it\n")
    return 0


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


def _show_watermark(request: Request) -> int:
    with opened(request.call) as (job, store):
        event_watermark.event_spec(job)
        found = event_time.current(job, store)
        if found is None:
            raise AssertionError("a job with an event column has a watermark")
        if request.call.as_json:
            emit_json({"job": job.name, "events": events_json(found)})
            return 0
        emit(f"{job.name}  times in UTC\n")
        emit_lines(kept_lines(found))
    return 0
