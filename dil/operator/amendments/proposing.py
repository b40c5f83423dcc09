"""Proposes the changes of the operators' verbs forget, rewind, undo and prune."""

from __future__ import annotations

from dataclasses import replace

from dil.config.state import ASIDE, LOG, STATE, StateSection
from dil.errors import StateError
from dil.model.dataset import Move
from dil.observe.progress import counted
from dil.operator.amendments.files import (
    FileChange,
    FileDecision,
    file_change,
    live_files_of,
    with_late_rows,
    withdrawal_of,
)
from dil.operator.amendments.preview import Preview, preview_of
from dil.operator.amendments.refusals import (
    refuse_doubled_rows,
    refuse_superseded_undo,
    refuse_undo_of_files,
)
from dil.operator.amendments.restoring import restore_rows
from dil.operator.session import OperatorSession
from dil.operator.unresolved_failures import unresolved_failures
from dil.publishing import set_aside, withdrawal
from dil.publishing.layout import META, dataset_dir
from dil.publishing.leftovers import Ownership, old_leftovers
from dil.publishing.owner import owning_jobs
from dil.state.amendments import last_act, operations
from dil.state.amendments.last_act import LastAct
from dil.state.amendments.operations import Proposal, Selection
from dil.state.blocks.canonical import system_time_text
from dil.state.work_units.signatures import parts_of_signature


def propose_forget(
    session: OperatorSession, selection: Selection, decision: FileDecision = FileDecision.UNDECIDED
) -> Preview:
    """Propose to forget work units, so that the next run reads them like new ones.

    Raises:
        StateError: the index does not know a named signature.
    """
    proposal = operations.forget(session.store.unit_entries(), selection)
    signatures = _signatures(proposal)
    refuse_doubled_rows(session, signatures, decision)
    live = live_files_of(session, signatures)
    files = file_change(session, live.files, decision)
    files = with_late_rows(session, files, signatures if decision is FileDecision.WITHDRAW else ())
    notes = _quarantine_notes(session, files.quarantine)
    proposal = replace(proposal, notes=(*proposal.notes, *live.notes, *notes))
    if selection.failed_only and proposal.is_empty:
        # `state show` may list failures that have no record to forget.
        lows = (
            (each.signature, parts_of_signature(each.signature))
            for each in unresolved_failures(session.store)
        )
        count = sum(1 for name, parts in lows if parts and selection.takes(name, parts.low))
        if count:
            note = (
                f"{counted(count, 'work unit')} failed in the last run that tried, which "
                "published nothing (job.commit.policy=full). Such a run leaves the records "
                "unchanged; the next run reads the due work units"
            )
            proposal = replace(proposal, notes=(*proposal.notes, note))
    if files.withdrawn:
        # The dataset's watermark falls to the first work unit whose rows are withdrawn.
        reached = session.watermark()
        first = min(change.before.low for change in proposal.changes if change.before)
        if reached is not None and first < reached:
            proposal = replace(proposal, watermark=first, sets_watermark=True)
    return preview_of(session, proposal, files)


def propose_rewind(
    session: OperatorSession, sequence: int, decision: FileDecision = FileDecision.UNDECIDED
) -> Preview:
    """Propose to reset all work units to their state after a block; later readings are due again.

    Files that were removed since then come back, or their rows are read again (``restore_rows``).

    Raises:
        StateError: the chain is damaged, or the block is one of several of an act.
    """
    store = session.store
    act = last_act.blocks_of_act(store.blocks_of_kind("ResetState"), sequence)
    if act is not None:
        raise StateError(
            f"block {sequence} is in the middle of an act, which takes the blocks {act[0]} to "
            f"{act[-1]}",
            f"Name block {act[0] - 1} for the state before the act, or {act[-1]} for the state"
            " after it.",
        )
    proposal = operations.rewind(
        store.unit_entries(),
        store.unit_entries(as_of=sequence),
        session.watermark(),
        last_act.watermark_at(store.blocks(), sequence),
    )
    signatures = _signatures(proposal)
    refuse_doubled_rows(session, signatures, decision, rewinds_to=sequence)
    since = last_act.files_since(store.blocks(), sequence)
    live = live_files_of(session, signatures)
    proposal, files = restore_rows(session, proposal, live, since, decision)
    again = _signatures(proposal) if decision is FileDecision.WITHDRAW else ()
    files = with_late_rows(session, files, again, since.late)
    notes = _quarantine_notes(session, files.quarantine)
    proposal = replace(proposal, notes=(*proposal.notes, *notes))
    return preview_of(session, proposal, files)


def propose_undo(session: OperatorSession) -> Preview:
    """Propose to take back the last act of an operator; a second undo does the act again.

    Raises:
        StateError: there is no act, its files are gone, or runs have committed its work units
            since.
    """
    store = session.store
    last = last_act.last_act(store.blocks_of_kind("ResetState"), store.blocks())
    if last is None:
        raise StateError(
            f"there is nothing to undo: no operator changed the state of {session.job.name}",
            "Use `dil state rewind` to set the records of runs back.",
        )
    refuse_undo_of_files(last)
    then = tuple(store.unit_entries(as_of=last.sequence - 1))
    last = last.settled(then)
    proposal = operations.undo(last, tuple(store.unit_entries()), then, session.watermark())
    title = f"takes back {last.verb} {last.act_id} (reason: {last.reason})"
    files = _undone_files(session, last, proposal)
    if files.refusal is None:
        spec, act_id = session.job.publishing, session.act_id or proposal.verb
        quarantine = set_aside.exchanged(
            session.filesystem, spec, last.act_id, act_id, session.late_files
        )
        files = replace(files, quarantine=quarantine)
    notes = _quarantine_notes(session, files.quarantine)
    proposal = replace(proposal, notes=(title, *notes, *proposal.notes))
    return preview_of(session, proposal, files)


def propose_prune(session: OperatorSession) -> Preview:
    """Propose to delete old records that are out of the job's range, by ``ms.retention``.

    ``state.store``, ``log`` and ``aside`` are periods of ``ms.retention``. Records of work
    units older than ``state.store`` are deleted. Records in the range, records of failures and the
    chain stay. Records of runs older than ``log`` are deleted, too, except the record of the newest
    run. If ``aside`` is set, files that acts and runs put aside are deleted after this period,
    unless undo needs them.

    Raises:
        StateError: the job's range is not known.
    """
    store = session.store
    retention = session.job.properties.section(StateSection).retention
    before = session.now_ms - retention[STATE]
    partition_ends = session.partition_ends()
    if not partition_ends:
        raise StateError(
            f"the range of {session.job.name} holds no partition, or its shape changed since the "
            "last run, so it is unknown which records are outside of it",
            "Run the job first.",
        )
    young = last_act.changed_since(store.blocks(), system_time_text(before))
    range_start, range_end = min(partition_ends), max(partition_ends.values())
    proposal = operations.prune(store.unit_entries(), young, range_start, range_end)
    newest = next(store.runs(limit=1), None)
    runs_before = session.now_ms - retention.get(LOG, retention[STATE])
    if newest is not None:
        runs_before = min(runs_before, newest.started)
    runs = store.count_swept_runs(runs_before)
    preview = preview_of(session, replace(proposal, runs_before=runs_before, runs=runs))
    period = retention.get(ASIDE)
    if period is None:
        return preview
    job, filesystem = session.job, session.filesystem
    acts = last_act.act_ids(store.blocks_of_kind("ResetState"))
    others = owning_jobs(filesystem, dataset_dir(job.publishing))
    owner = Ownership(
        acts=frozenset(acts),
        last_act=acts[0] if acts else "",
        is_alone=others <= {job.name},
        has_audit=not job.audit.directory,
    )
    left = old_leftovers(filesystem, job.publishing, owner, session.now_ms - period)
    return replace(preview, leftovers=left)


def _signatures(proposal: Proposal) -> frozenset[str]:
    return frozenset(each.signature for each in proposal.changes)


def _quarantine_notes(session: OperatorSession, moves: tuple[Move, ...]) -> tuple[str, ...]:
    """Return notes on how many files of quarantined rows are moved aside or brought back."""
    filesystem = session.filesystem
    away = sum(f"/{META}/" in filesystem.path_of(move.target.uri) for move in moves)
    counts = ((away, "taken away, too"), (len(moves) - away, "brought back, too"))
    return tuple(
        f"{counted(count, 'file')} of rows that were put aside: {what}"
        for count, what in counts
        if count
    )


def _undone_files(session: OperatorSession, last: LastAct, proposal: Proposal) -> FileChange:
    """Return the change that brings back files that an act removed, and removes files it added.

    Raises:
        StateError: runs have read or merged the same rows since.
    """
    if last.removed or last.added:
        live = session.live_files()
        gone = tuple(file for file in live if file.uri in last.added)
        spec = session.job.publishing
        moves = withdrawal.bring_back(session.filesystem, spec, last.act_id, last.removed)
        returning = {signature for move in moves for signature in move.target.signatures}
        refuse_superseded_undo(session.job, last, live, returning)
        return replace(withdrawal_of(gone), moves=moves)
    again = {
        each.signature for each in proposal.changes if each.after is None or each.after.high is None
    }
    return file_change(session, live_files_of(session, again).files, FileDecision.KEEP)
