"""``dil state forget``, ``rewind``, ``undo`` and ``prune``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from dil.cli.state.acting import (
    NO_FILES,
    Desk,
    FileChange,
    Request,
    act_command,
    at_desk,
    conclude,
    decided,
    file_change,
)
from dil.cli.state.opening import instant, sequence
from dil.errors import ConfigError, StateError

if TYPE_CHECKING:
    from dil.state.last_act import LastAct
    from dil.state.operations import Proposal

_DAY_MS = 86_400_000

_keep_option = click.option(
    "--keep-files", "keep", is_flag=True, help="Published files stay, although rows may double."
)
_withdraw_option = click.option(
    "--withdraw-files", "withdraw", is_flag=True, help="Take the published files out as well."
)


@act_command("forget")
@click.option("--signature", "signatures", metavar="S", multiple=True, help="This work unit.")
@click.option("--unit", "units", metavar="JSON", multiple=True, help="All partitions of this unit.")
@click.option("--from", "low", metavar="TIME", help="Partitions that start at or after this.")
@click.option("--to", "high", metavar="TIME", help="Partitions that start before this.")
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
    everything: bool,
    keep: bool,
    withdraw: bool,
) -> int:
    """Make work units as if they had never been read: the next run reads them as new.

    Conditions that are given together must all hold.
    """
    from dil.cli.arguments import parse_unit
    from dil.state import operations
    from dil.state.signatures import encoded

    is_limited = bool(signatures or units or low or high)
    if is_limited == everything:
        raise ConfigError.single(
            "dil state forget",
            "needs to know which work units",
            "Give --signature, --unit, --from, --to, or --all alone.",
        )
    with at_desk(request, "forget") as desk:
        selection = operations.Selection(
            signatures=frozenset(map(encoded, signatures)),
            units=frozenset(map(parse_unit, units)),
            low=None if low is None else instant(low, "--from", desk.job),
            high=None if high is None else instant(high, "--to", desk.job),
        )
        proposal = operations.forget(desk.store.unit_entries(), selection)
        files = file_change(desk, _signatures(proposal), keep=keep, withdraw=withdraw)
        if files.withdrawn:
            proposal = _with_lower_watermark(desk, proposal)
        return conclude(desk, proposal, files)


@act_command("rewind")
@click.option(
    "--to", "target", metavar="BLOCK|TIME", required=True, help="12, or 2024-03-05T06:00:00Z."
)
@_keep_option
@_withdraw_option
def rewind(request: Request, *, target: str, keep: bool, withdraw: bool) -> int:
    """Make all work units as they were at a block; what runs did since is due again."""
    from dil.state import last_act, operations

    with at_desk(request, "rewind") as desk:
        store = desk.store
        at = sequence(target, "--to", desk.job, store)
        proposal = operations.rewind(
            store.unit_entries(),
            store.unit_entries(as_of=at),
            _watermark(desk),
            last_act.watermark_at(store.blocks(), at),
        )
        files = file_change(desk, _signatures(proposal), keep=True, withdraw=False)
        since = last_act.files_since(store.blocks(), at)
        touched = tuple(file for file in files.touched if file.uri in since)
        return conclude(desk, proposal, decided(desk, touched, keep=keep, withdraw=withdraw))


@act_command("undo")
def undo(request: Request) -> int:
    """Take back the last act of an operator; once more, to do it again."""
    from dil.state import last_act, operations

    with at_desk(request, "undo") as desk:
        store = desk.store
        last = last_act.last_act(store.blocks())
        if last is None:
            raise StateError(
                f"there is nothing to undo: no operator changed the state of {desk.job.name}",
                "What runs recorded is taken back by `dil state rewind`.",
            )
        proposal = operations.undo(
            last,
            tuple(store.unit_entries()),
            store.unit_entries(as_of=last.sequence - 1),
            _watermark(desk),
        )
        title = f"takes back {last.verb} {last.act_id} (reason: {last.reason})"
        proposal = replace(proposal, notes=(title, *proposal.notes))
        return conclude(desk, proposal, _undone_files(desk, last, proposal))


@act_command("prune")
def prune(request: Request) -> int:
    """Delete records that are older than ms.retention's state.store and out of the job's range.

    Records in the range stay, and so do failed ones and the chain. Rows of old runs go as well.
    """
    from dil.state import last_act, operations
    from dil.state.canonical import system_time_text

    with at_desk(request, "prune") as desk:
        before = desk.now_ms - desk.job.properties.typed("ms.retention", dict)["state.store"]
        grid = desk.grid()
        if not grid:
            raise StateError(
                f"the range of {desk.job.name} holds no partition, or its shape changed since the "
                "last run, so that it is not known which records are out of it",
                "Run the job first.",
            )
        young = last_act.changed_since(desk.store.blocks(), system_time_text(before))
        proposal = operations.prune(desk.store.unit_entries(), young, min(grid), max(grid.values()))
        proposal = replace(proposal, runs_before=before, runs=desk.store.count_swept_runs(before))
        return conclude(desk, proposal)


def _signatures(proposal: Proposal) -> frozenset[str]:
    return frozenset(each.signature for each in proposal.changes)


def _watermark(desk: Desk) -> int | None:
    from dil.state.last_act import watermark_at

    head = desk.store.head()
    if head is None:
        return None
    return watermark_at(desk.store.blocks(), int(str(head["sequenceNumber"])))


def _with_lower_watermark(desk: Desk, proposal: Proposal) -> Proposal:
    """Lower the dataset's watermark to the first work unit whose rows are taken out of it."""
    reached = _watermark(desk)
    first = min(change.before.low for change in proposal.changes if change.before)
    if reached is None or first >= reached:
        return proposal
    return replace(proposal, watermark=first, sets_watermark=True)


def _undone_files(desk: Desk, last: LastAct, proposal: Proposal) -> FileChange:
    """Return how files that the act took out come back, and those that it brought go again."""
    from dil.publishing import withdrawal

    if last.removed:
        moves = withdrawal.bring_back(
            desk.filesystem(), desk.job.publishing, last.act_id, last.removed
        )
        files = tuple(move.target for move in moves)
        return FileChange(files, "brought back", moves=moves, source=last.act_id)
    if last.added:
        files = tuple(file for file in desk.live_files() if file.uri in last.added)
        return FileChange(files, "withdrawn from the dataset", withdrawn=files)
    again = {
        each.signature for each in proposal.changes if each.after is None or each.after.high is None
    }
    return file_change(desk, again, keep=True, withdraw=False) if again else NO_FILES
