"""Applies a previewed amendment: publishes its changes of files and records as a run does.

If an act withdraws the rows of only some work units of a file, the rest of the file is written next
to the copies that the act keeps, and replaces the whole file in the act's commit. If the act breaks
off before its commit, the rest and the copies stay there, and no run reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dil.errors import StateError
from dil.model.closed_labels import ClosedLabelChanges
from dil.model.dataset import Commit, Move, PublishedFile, source_name
from dil.model.json import JsonObject
from dil.operator.amendments.files import FileChange
from dil.operator.amendments.preview import Preview
from dil.operator.session import OperatorSession
from dil.publishing import leftovers, set_aside, withdrawal
from dil.publishing.closed_labels import keeps_registry, settle_registry
from dil.publishing.moves import shared_moves
from dil.publishing.run_commit import recorded_schema
from dil.publishing.shared_files import refuse_misfit
from dil.reshaping.shared_files import SharedFileWriter, rest_of
from dil.run import event_time

# Late rows of other actions stay visible, so that these are judged again as they were before.
_LOSING = frozenset({"drop", "fail"})


def require_applicable(session: OperatorSession, preview: Preview) -> None:
    """Raise the errors that ``apply`` would raise for files that are to be deleted for good.

    Raises:
        StateError: the state of the chain or the dataset allows no deletion.
        WriteError: a file does not belong to the job.
        CommitConflictError: another program removed a file.
    """
    if not preview.files.is_final:
        return
    withdrawal.require_recorded(session.store)
    commit = _commit_of(session, preview, session.act_id or preview.proposal.verb, "")
    session.publisher.refuse_unpublishable(commit)


def apply(session: OperatorSession, preview: Preview, reason: str = "") -> JsonObject | None:
    """Commit the changes of a preview of this session, and publish them as a run does.

    Args:
        session: The session that the preview was made in.
        preview: The previewed amendment.
        reason: The reason that the chain keeps, by default the verb.

    Returns:
        The last block of the amendment; None if the amendment adds no block.

    Raises:
        StateError: the operator has not decided about published files, or a file differs from the
            published one.
        CommitConflictError: another writer changed the same work units or files meanwhile.
        LeaseLostError: the lease was taken over.
    """
    lease, job, files = session.require_lease(), session.job, preview.files
    if preview.has_no_act:
        leftovers.delete(session.filesystem, job.publishing, preview.leftovers)
        return None
    if files.refusal is not None:
        raise files.refusal
    act_id, filesystem = lease.holder.run_id, session.filesystem
    withdrawn: Sequence[PublishedFile] = files.withdrawn
    rests: Sequence[Move] = ()
    if files.withdrawn and not files.only_records:
        withdrawal.require_recorded(session.store)
        withdrawn = _whole_files(session, files)
        if not files.is_final:
            withdrawal.withdraw(filesystem, job.publishing, act_id, withdrawn)
        rests = _staged_remainders(session, act_id, files.withdrawn, withdrawn)
    commit = _commit_of(session, preview, act_id, reason)
    commit = replace(commit, moves=(*files.moves, *rests), removes=tuple(withdrawn))
    publisher = session.publisher
    if files.only_records:
        sequence = publisher.append_block(lease, commit)
        block = None if sequence is None else session.store.head()
    else:
        block = publisher.publish(lease, commit)
    if commit.closed_labels is not None:
        settle_registry(publisher, lease)
    if commit.act is not None:
        session.drop_page_logs(commit.act)
    for move in rests:
        filesystem.delete_empty_folder(move.source.rpartition("/")[0])
    if not files.only_records:
        withdrawal.sweep(filesystem, files.moves)
    set_aside.sweep(filesystem, job.publishing, files.quarantine)
    leftovers.delete(filesystem, job.publishing, preview.leftovers)
    return block


def _commit_of(session: OperatorSession, preview: Preview, act_id: str, reason: str) -> Commit:
    now, proposal, events = session.clock(), preview.proposal, session.job.events
    changes = None
    if proposal.closes or proposal.reopens:
        changes = ClosedLabelChanges(
            reopens=proposal.reopens,
            closes=proposal.closes,
            forced=True,
            marks=keeps_registry(session.job),
            reason=reason or proposal.verb,
        )
    return Commit(
        run_id=act_id,
        config_digest=session.job.digest,
        source_name=source_name(session.job.name),
        moves=preview.files.moves,
        removes=preview.files.withdrawn,
        schema="",
        system_time=now,
        horizon=max(now, session.now_ms),
        act=proposal.act(reason or proposal.verb, session.partition_ends()),
        quarantine=preview.files.quarantine,
        late_dir=set_aside.late_dir_of(
            session.filesystem, session.job.publishing, preview.files.quarantine
        ),
        checkpoints=event_time.checkpoints_with_forgotten(session.store, proposal.forgotten)
        if events is not None and events.late_action in _LOSING
        else {},
        closed_labels=changes,
    )


def _whole_files(session: OperatorSession, files: FileChange) -> tuple[PublishedFile, ...]:
    """Return the withdrawn files with the rows of all their work units.

    Raises:
        StateError: a file is not live any more, or has rows without a work unit. Such rows may only
            be deleted for good.
    """
    live = {file.uri: file for file in session.live_files()}
    gone = [file.uri for file in files.withdrawn if file.uri not in live]
    if gone:
        raise StateError(
            f"{gone[0]} is not in the dataset any more",
            "Another program removed it since. Nothing was changed; try again.",
        )
    whole = tuple(live[file.uri] for file in files.withdrawn)
    if not files.is_final:
        for file in whole:
            refuse_misfit(file)
    return whole


def _staged_remainders(
    session: OperatorSession,
    act_id: str,
    leaving: Sequence[PublishedFile],
    whole: Sequence[PublishedFile],
) -> tuple[Move, ...]:
    """Write the rest of files, and return the moves that publish it.

    Args:
        session: The session of the act.
        act_id: The act.
        leaving: The files, each with only the rows that are withdrawn from it.
        whole: The same files with all their rows.

    Raises:
        ConversionError: a file does not hold the published rows.
        WriteError: the file system refused.
    """
    parts = [
        (narrowed, file)
        for narrowed, file in zip(leaving, whole, strict=True)
        if narrowed.signatures != file.signatures
    ]
    if not parts:
        return ()
    job, filesystem = session.job, session.filesystem
    folder = withdrawal.act_folder(job.publishing, act_id)
    write = SharedFileWriter.of(job, folder, recorded_schema(session.store))
    found = (
        rest_of(file, filesystem.path_of(file.uri), narrowed.signatures, f"rest-{number}")
        for number, (narrowed, file) in enumerate(parts)
    )
    rests = [write(plan) for plan in found if plan is not None]
    return tuple(shared_moves(job, act_id, rests, session.publisher.destination.uri))
