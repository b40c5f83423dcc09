"""A publish that cannot be finished as it was decided, because staged files are gone.

An operator may let it be finished without the work units that lost files (spec README 27). They
count as failed then, and are read again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace

from dil.errors import WriteError
from dil.model.dataset import Commit, Intent, Lease, Move, OperatorAct, PublishedFile
from dil.model.destination import TableFormat
from dil.model.job import PublishingSpec, PublishMode
from dil.model.work_unit import unit_hash
from dil.publishing.bounds import refuse_strange_intent, strays
from dil.publishing.compacted import is_compaction
from dil.publishing.destination import destination_for
from dil.publishing.dumps import is_in_place
from dil.publishing.publisher import carry_out, lost_moves, refuse_other_destination
from dil.spi.state_store import StateStore
from dil.storage import Filesystem

log = logging.getLogger(__name__)


def finish_without_lost(
    store: StateStore, lease: Lease, intent: Intent, spec: PublishingSpec, filesystem: Filesystem
) -> Intent:
    """Finish a publish without the work units that lost files; return what was published.

    Their other files are deleted, staged or moved, so that no driver that wakes up later can
    bring them in. A dumped file that took the place of an earlier one stays and is listed, because
    the earlier one is no more; the next reading replaces it. A replace or merge takes all or
    nothing, and so does a compaction, so it is given up as a whole: the files that it was to
    replace are still there, because they go only after all moves.

    Raises:
        LeaseLostError: another run took over.
        CommitUnknownError: it goes elsewhere, or names files that are not the job's.
    """
    refuse_other_destination(intent, spec, filesystem)
    refuse_strange_intent(intent, spec, lease.job, filesystem)
    lost = {move.target.signature for move in lost_moves(intent, spec, filesystem)}
    if not lost:
        carry_out(intent, spec, filesystem)
        store.commit(lease, intent.commit)
        return intent
    rest = _without(intent, lost, spec.mode, _overwriting(intent.commit, lost, filesystem))
    kept = {move.source for move in rest.commit.all_moves}
    # Before the intent changes: cut off here, this finds the same work units lost once more.
    for move in intent.commit.all_moves:
        if move.source not in kept:
            # A name that was dumped before still holds what an earlier run put there.
            is_new = not move.target.is_dump or is_in_place(move, filesystem)
            filesystem.delete_file(move.source)
            if is_new and spec.warehouse is None:  # a database has all of a commit or nothing
                filesystem.delete_file(filesystem.path_of(move.target.uri))
    store.replace_intent(lease, rest)
    carry_out(rest, spec, filesystem)
    store.commit(lease, rest.commit)
    return rest


def abandon(
    store: StateStore, lease: Lease, intent: Intent, spec: PublishingSpec, filesystem: Filesystem
) -> Intent:
    """Give a begun publish up, whatever keeps it from being finished; return what is left of it.

    Where readers see its files already, it is committed, and the files that they replaced are
    deleted. Else its work units count as failed and are read again; its files are deleted, staged
    or moved. Files outside of the job's folders are not touched at all.

    Raises:
        LeaseLostError: another run took over.
        CommitUnknownError: the job publishes elsewhere now, so nobody can tell what readers see.
    """
    refuse_other_destination(intent, spec, filesystem)
    commit = intent.commit
    strange = {each.uri for each in strays(commit, spec, lease.job, filesystem)}
    own = replace(
        commit,
        moves=tuple(move for move in commit.moves if not {move.source, move.target.uri} & strange),
        removes=(),
        quarantine=(),
        quarantine_removes=(),
    )
    if own.moves and _has_landed(replace(intent, commit=own), spec, filesystem):
        rest = replace(intent, commit=own)
        store.replace_intent(lease, rest)
        if spec.warehouse is None and spec.table.format is TableFormat.FILES:
            _delete_replaced([each for each in commit.removes if each.uri not in strange],
                             spec, filesystem)  # fmt: skip
    else:
        lost = {"", *(each.signature for each in commit.run.outcomes)}
        lost.update(move.target.signature for move in commit.all_moves)
        kept = _overwriting(replace(own, removes=commit.removes), lost, filesystem)
        for move in own.moves:
            if move.target.uri not in kept:
                _forget(move, spec, filesystem)
        rest = _without(replace(intent, commit=own), lost, spec.mode, kept)
        rest = replace(rest, commit=replace(rest.commit, act=None))
        store.replace_intent(lease, rest)
        if rest.commit.moves:
            carry_out(rest, spec, filesystem)
    store.commit(lease, rest.commit)
    return rest


def _has_landed(intent: Intent, spec: PublishingSpec, filesystem: Filesystem) -> bool:
    """Return whether readers see the rows of an intent."""
    destination, moves = destination_for(spec, filesystem), intent.commit.moves
    if spec.warehouse is None:
        live = {file.uri for file in destination.live()}
        return all(move.target.uri in live for move in moves)
    # A database tells by what it says of files that are gone.
    gone = tuple(replace(move, source=f"{intent.dataset_dir}/_gone") for move in moves)
    return not destination.lost(replace(intent, commit=replace(intent.commit, moves=gone)))


def _forget(move: Move, spec: PublishingSpec, filesystem: Filesystem) -> None:
    """Delete a file of a publish that is given up; one that cannot be deleted is told."""
    try:
        # A name that was dumped before still holds what an earlier run put there.
        is_new = not move.target.is_dump or is_in_place(move, filesystem)
        filesystem.delete_file(move.source)
        if is_new and spec.warehouse is None:
            filesystem.delete_file(filesystem.path_of(move.target.uri))
    except (OSError, ValueError, RecursionError, WriteError) as error:
        log.warning("%s stays: %s", move.target.uri, error)


def _delete_replaced(
    files: Sequence[PublishedFile], spec: PublishingSpec, filesystem: Filesystem
) -> None:
    """Delete files that are live no more: who reads the folder would find their rows twice."""
    live = {file.uri for file in destination_for(spec, filesystem).live()}
    for file in files:
        try:
            if file.uri not in live:
                filesystem.delete_file(filesystem.path_of(file.uri))
        except (OSError, ValueError, WriteError) as error:
            log.warning("%s stays, although its rows were replaced: %s", file.uri, error)


def _overwriting(commit: Commit, lost: set[str], filesystem: Filesystem) -> frozenset[str]:
    """Return the URIs at which dumped files of lost work units took the places of live ones."""
    replaced = {file.uri for file in commit.removes}
    return frozenset(
        move.target.uri
        for move in commit.moves
        if move.target.signature in lost
        and move.target.uri in replaced
        and is_in_place(move, filesystem)
    )


def _without(
    intent: Intent, lost: set[str], mode: PublishMode, overwriting: frozenset[str]
) -> Intent:
    commit = intent.commit
    is_whole = mode is PublishMode.MERGE or (mode is PublishMode.REPLACE and commit.act is None)
    gives_up = is_whole or is_compaction(commit)
    if gives_up:
        # Files of rewritten rows belong to no work unit.
        moved = (move.target.signature for move in commit.all_moves)
        lost = {"", *(outcome.signature for outcome in commit.run.outcomes), *moved}
    outcomes = tuple(
        replace(outcome, high=None, error="its staged files were lost")
        if outcome.signature in lost
        else outcome
        for outcome in commit.run.outcomes
    )
    dumped = {
        move.target.uri
        for move in commit.moves
        if move.target.is_dump and move.target.signature in lost
    }
    starts = [outcome.low for outcome in outcomes if outcome.signature in lost]
    if commit.run.left_low is not None:
        starts.append(commit.run.left_low)
    return replace(
        intent,
        commit=replace(
            commit,
            moves=tuple(
                move
                for move in commit.moves
                if move.target.signature not in lost or move.target.uri in overwriting
            ),
            # The old files of what was lost stay, unless their names hold others by now.
            removes=tuple(
                file
                for file in commit.removes
                if file.uri in overwriting
                or (not gives_up and not _is_of(file, lost) and file.uri not in dumped)
            ),
            quarantine=tuple(
                move for move in commit.quarantine if move.target.signature not in lost
            ),
            # They tell their work unit by name only; the next run of the same window takes them.
            quarantine_removes=(),
            run=replace(commit.run, outcomes=outcomes, left_low=min(starts, default=None)),
            act=None if commit.act is None else _act_without(commit.act, lost),
        ),
    )


def _is_of(file: PublishedFile, lost: Collection[str]) -> bool:
    """Return whether a published file is of one of these work units.

    A file that no manifest knows has no signature; its name tells its work unit.
    """
    if file.signature:
        return file.signature in lost
    name = file.uri.rpartition("/")[2]
    return any(f"-{unit_hash(signature)}-" in name for signature in lost)


def _act_without(act: OperatorAct, lost: set[str]) -> OperatorAct:
    """Return an operator's act that leaves the rows of lost work units as they are."""
    return replace(act, changed=tuple(row for row in act.changed if row.signature not in lost))
