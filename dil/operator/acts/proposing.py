"""The verbs of operators: what each one would change (metadata-chain.md 2.3, D-88)."""

from __future__ import annotations

from dataclasses import replace

from dil.errors import StateError
from dil.model.dataset import Move
from dil.observe.progress import counted
from dil.operator.acts.desk import Desk
from dil.operator.acts.overtaken import refuse_overtaken
from dil.operator.acts.preview import Preview, preview_of
from dil.operator.acts.published import FileChange, FileDecision, file_change, files_of, withdrawn
from dil.operator.acts.put_together import refuse_put_together, refuse_undoing
from dil.operator.acts.settling import settled
from dil.publishing import act_asides, withdrawal
from dil.publishing.layout import META
from dil.state.acts import last_act, operations
from dil.state.acts.last_act import LastAct
from dil.state.acts.operations import Proposal, Selection
from dil.state.blocks.canonical import system_time_text


def propose_forget(
    desk: Desk, selection: Selection, decision: FileDecision = FileDecision.UNDECIDED
) -> Preview:
    """Make work units as if they had never been read: the next run reads them as new.

    Raises:
        StateError: a signature was named that the index does not know.
    """
    proposal = operations.forget(desk.store.unit_entries(), selection)
    refuse_put_together(desk, _signatures(proposal), decision)
    live = files_of(desk, _signatures(proposal))
    files = file_change(desk, live.files, decision)
    proposal = replace(proposal, notes=(*proposal.notes, *live.notes))
    if files.withdrawn:
        proposal = _with_lower_watermark(desk, proposal)
    return preview_of(desk, proposal, files)


def propose_rewind(
    desk: Desk, sequence: int, decision: FileDecision = FileDecision.UNDECIDED
) -> Preview:
    """Make all work units as they were just after a block; what runs did since is due again.

    Rows whose files left the dataset since get them back, or are read again (``settled``).

    Raises:
        StateError: the chain is damaged, or the block is one of several of an act.
    """
    store = desk.store
    act = last_act.blocks_of_act(store.blocks_of_kind("ResetState"), sequence)
    if act is not None:
        raise StateError(
            f"block {sequence} is in the middle of an act, which takes the blocks {act[0]} to "
            f"{act[-1]}",
            f"Name {act[0] - 1}, the state before it, or {act[-1]}, that after it.",
        )
    proposal = operations.rewind(
        store.unit_entries(),
        store.unit_entries(as_of=sequence),
        desk.watermark(),
        last_act.watermark_at(store.blocks(), sequence),
    )
    refuse_put_together(desk, _signatures(proposal), decision)
    since = last_act.files_since(store.blocks(), sequence)
    live = files_of(desk, _signatures(proposal))
    proposal, files = settled(desk, proposal, live, since, decision)
    return preview_of(desk, proposal, files)


def propose_undo(desk: Desk) -> Preview:
    """Take back the last act of an operator; once more, to do it again.

    Raises:
        StateError: there is none, runs committed over it since, or files of it are gone.
    """
    store = desk.store
    last = last_act.last_act(store.blocks_of_kind("ResetState"), store.blocks())
    if last is None:
        raise StateError(
            f"there is nothing to undo: no operator changed the state of {desk.job.name}",
            "What runs recorded is taken back by `dil state rewind`.",
        )
    refuse_undoing(last)
    proposal = operations.undo(
        last,
        tuple(store.unit_entries()),
        store.unit_entries(as_of=last.sequence - 1),
        desk.watermark(),
    )
    title = f"takes back {last.verb} {last.act_id} (reason: {last.reason})"
    files = _undone_files(desk, last, proposal)
    if files.refusal is None:
        spec, act_id = desk.job.publishing, desk.act_id or proposal.verb
        aside = act_asides.exchanged(desk.filesystem(), spec, last.act_id, act_id)
        files = replace(files, aside=aside)
    notes = _aside_notes(desk, files.aside)
    proposal = replace(proposal, notes=(title, *notes, *proposal.notes))
    return preview_of(desk, proposal, files)


def propose_prune(desk: Desk) -> Preview:
    """Delete records that are older than ms.retention's state.store and out of the job's range.

    Records in the range stay, and so do failed ones and the chain. Rows of old runs go as well,
    but that of the newest.

    Raises:
        StateError: it is not known what the job's range is.
    """
    store = desk.store
    before = desk.now_ms - desk.job.properties.typed("ms.retention", dict)["state.store"]
    grid = desk.grid()
    if not grid:
        raise StateError(
            f"the range of {desk.job.name} holds no partition, or its shape changed since the "
            "last run, so that it is not known which records are out of it",
            "Run the job first.",
        )
    young = last_act.changed_since(store.blocks(), system_time_text(before))
    proposal = operations.prune(store.unit_entries(), young, min(grid), max(grid.values()))
    newest = next(store.runs(limit=1), None)
    runs_before = before if newest is None else min(before, newest.started)
    runs = store.count_swept_runs(runs_before)
    return preview_of(desk, replace(proposal, runs_before=runs_before, runs=runs))


def _signatures(proposal: Proposal) -> frozenset[str]:
    return frozenset(each.signature for each in proposal.changes)


def _with_lower_watermark(desk: Desk, proposal: Proposal) -> Proposal:
    """Lower the dataset's watermark to the first work unit whose rows are taken out of it."""
    reached = desk.watermark()
    first = min(change.before.low for change in proposal.changes if change.before)
    if reached is None or first >= reached:
        return proposal
    return replace(proposal, watermark=first, sets_watermark=True)


def _aside_notes(desk: Desk, moves: tuple[Move, ...]) -> tuple[str, ...]:
    kept = f"/{META}/"
    away = sum(kept in desk.filesystem().path_of(move.target.uri) for move in moves)
    told = ((away, "taken away, too"), (len(moves) - away, "brought back, too"))
    return tuple(
        f"{counted(number, 'file')} of rows that were put aside: {what}"
        for number, what in told
        if number
    )


def _undone_files(desk: Desk, last: LastAct, proposal: Proposal) -> FileChange:
    """Return how files that the act took out come back, and those that it brought go again.

    Raises:
        StateError: runs have read or merged the same rows since.
    """
    if last.removed or last.added:
        live = desk.live_files()
        gone = tuple(file for file in live if file.uri in last.added)
        spec = desk.job.publishing
        moves = withdrawal.bring_back(desk.filesystem(), spec, last.act_id, last.removed)
        refuse_overtaken(desk.job, last, live, {move.target.signature for move in moves})
        return replace(withdrawn(gone), moves=moves)
    again = {
        each.signature for each in proposal.changes if each.after is None or each.after.high is None
    }
    return file_change(desk, files_of(desk, again).files, FileDecision.KEEP)
