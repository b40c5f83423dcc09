"""Gives up or shortens a publish that cannot be finished as decided, because files are gone.

An operator may finish such a publish without the work units that lost files (rule C26). Those work
units then count as failed and are read again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from dil.errors import WriteError
from dil.model.dataset import Commit, Intent, Lease, Move, OperatorAct, PublishedFile, RunWork
from dil.model.job import PublishingSpec, PublishMode
from dil.model.stream import STREAM
from dil.model.work_unit import unit_hash
from dil.publishing import set_aside, withdrawal
from dil.publishing.destination import place_files
from dil.publishing.dumps import is_in_place, is_lost
from dil.publishing.layout import backfills_dir, dataset_dir, unit_hash_in
from dil.publishing.own_folders import is_inside, outside_files, refuse_outside_intent
from dil.publishing.publisher import Publisher
from dil.spi.destination import Destination
from dil.spi.state_store import StateStore
from dil.storage import Filesystem

log = logging.getLogger(__name__)


def finish_without_lost(publisher: Publisher, lease: Lease, recorded: Intent) -> Intent:
    """Finish a publish without the work units that lost files; return the intent of the rest.

    The other files of these work units are deleted, in staging and in their final places, so that
    no driver that wakes up later can publish them. The work units are read again. Files that an
    operator's act should publish are not deleted: copies of withdrawn files, files of a backfill,
    and rows that were put aside go back to their earlier places. A dumped file that already
    replaced an earlier file stays published, because the earlier file is gone; the next reading
    replaces the dumped file. A replace, a merge or a compaction that lost a file is given up as a
    whole, because it needs all its files. The files to be replaced still exist, because they are
    deleted only after all moves but those that take rows away; a lost file that was to be taken
    away holds nothing back. If no work unit of an act remains, the act is not recorded, so that it
    can be requested again.

    Raises:
        LeaseLostError: another run took over.
        CommitUnknownError: the publish has another destination, or names files outside of the job's
            folders.
    """
    job, store, filesystem = publisher.job, publisher.store, publisher.filesystem
    spec = job.publishing
    publisher.refuse_other_destination(recorded)
    refuse_outside_intent(recorded, spec, job.name, filesystem)
    files = _Files(spec, filesystem)
    intent = replace(recorded, commit=files.without_lost_aside(recorded.commit))
    rest = _rest_of(intent, publisher.lost_moves(intent), files)
    if rest is intent:
        publisher.refuse_given_up(intent)
        store.replace_intent(lease, intent)
        publisher.carry_out(intent)
        store.commit(lease, intent.commit)
        return intent
    if not (rest.commit.moves or rest.commit.removes):
        _fence(intent, publisher.destination)
    rest = _with_event_time_of_before(rest, store)
    # This comes before the intent changes, so that a repeat after a crash here finds the same lost
    # work units.
    for move in withdrawal.keep_copies(filesystem, spec, _dropped(intent, rest)):
        if files.is_kept(move, intent.commit):
            files.bring_back(move)
        else:
            files.delete(move)
    store.replace_intent(lease, rest)
    publisher.carry_out(rest)
    store.commit(lease, rest.commit)
    return rest


@dataclass(frozen=True, slots=True)
class OmittedFromPublish:
    """The work units and files that ``finish_without_lost`` would leave out of a publish.

    ``work_units`` lost a file, or share a file with work units that lost one. ``kept`` are files of
    these work units that would go back to their places from before the publish; ``deleted`` are
    files of these work units that would be deleted. Lost files are in neither of them. If
    ``is_all`` is true, no part of the publish remains, and no act is recorded.
    """

    work_units: tuple[str, ...]
    kept: tuple[PublishedFile, ...]
    deleted: tuple[PublishedFile, ...]
    is_all: bool


def left_out(publisher: Publisher, intent: Intent, lost: Sequence[Move]) -> OmittedFromPublish:
    """Return the work units and files that the publish leaves out if these moves are lost."""
    files = _Files(publisher.job.publishing, publisher.filesystem)
    intent = replace(intent, commit=files.without_lost_aside(intent.commit))
    rest = _rest_of(intent, [move for move in lost if move in intent.commit.all_moves], files)
    dropped = _dropped(intent, rest)
    gone = {move.source for move in lost}
    units = _all_units(move.target for move in dropped)
    found: dict[bool, list[PublishedFile]] = {True: [], False: []}
    for move in dropped:
        if move.source not in gone:
            found[files.is_kept(move, intent.commit)].append(move.target)
    commit = rest.commit
    is_all = not (commit.moves or commit.removes or commit.quarantine) and commit.act is None
    return OmittedFromPublish(
        tuple(sorted(units - {""})), tuple(found[True]), tuple(found[False]), is_all
    )


def abandon(publisher: Publisher, lease: Lease, recorded: Intent) -> Intent:
    """Give up a publish that has begun and cannot be finished; return the intent of the rest.

    If readers see the publish's files already, the publish is committed, and the files that it
    replaced are deleted. Otherwise its work units count as failed and are read again; its files are
    deleted, in staging and in their final places. Copies of withdrawn files and files of a backfill
    stay, so that the act can be repeated. Files outside of the job's folders are not touched.

    Raises:
        LeaseLostError: another run took over.
        CommitUnknownError: the job's destination was changed, so DIL cannot know which files
            readers see.
    """
    job, store, filesystem = publisher.job, publisher.store, publisher.filesystem
    spec = job.publishing
    publisher.refuse_other_destination(recorded)
    # The record may name another folder; only files in the job's own folder are given up.
    intent = replace(recorded, dataset_dir=dataset_dir(spec))
    commit = intent.commit
    files = _Files(spec, filesystem)
    strange = {each.uri for each in outside_files(commit, spec, job.name, filesystem)}
    own = replace(
        commit,
        moves=tuple(move for move in commit.moves if not {move.source, move.target.uri} & strange),
        removes=tuple(file for file in commit.removes if file.uri not in strange),
        quarantine=tuple(
            each for each in commit.quarantine if not {each.source, each.target.uri} & strange
        ),
        quarantine_removes=tuple(uri for uri in commit.quarantine_removes if uri not in strange),
    )
    _fence(intent, publisher.destination)
    if publisher.destination.has_landed(intent):
        files.take_aside(own)
        own = files.without_lost_aside(own)
        rest = replace(intent, commit=_as_visible(own, commit, filesystem))
        store.replace_intent(lease, rest)
        if publisher.destination.keeps_versions:
            # This also records which files belong to which work unit.
            publisher.carry_out(rest)
        elif spec.keeps_files:
            # A reader of the folder would find the rows of replaced files twice.
            live = {file.uri for file in publisher.destination.live()}
            replaced = (file.uri for file in own.removes if file.uri not in live)
            files.try_to_delete(replaced, "remains, although its rows were replaced")
        files.try_to_delete(own.quarantine_removes)
    else:
        rest = _with_event_time_of_before(_give_up(intent, own, files), store)
        store.replace_intent(lease, rest)
        if rest.commit.moves:
            publisher.carry_out(rest)
    store.commit(lease, rest.commit)
    return rest


def _as_visible(own: Commit, decided: Commit, filesystem: Filesystem) -> Commit:
    """Return a commit that readers see already, with the rows beside the dataset that are there.

    The chain records the late rows that came and went.
    """
    placed = tuple(
        each for each in own.quarantine if filesystem.exists(filesystem.path_of(each.target.uri))
    )
    if set(decided.changelog_moves) <= set(placed):
        return replace(own, quarantine=placed)
    return replace(own, quarantine=placed, changelog_dir="", begins_changelog=False)


def _give_up(intent: Intent, own: Commit, files: _Files) -> Intent:
    """Delete or bring back the files of a publish that readers do not see; return the rest of it.

    The rest are files that replaced their predecessors under the same name. ``own`` is the part of
    the publish in the job's own folders.
    """
    commit, filesystem = intent.commit, files.filesystem
    lost = {"", *(each.signature for each in commit.run.outcomes)}
    lost.update(_all_units(move.target for move in commit.all_moves))
    kept = files.overwriting(own, lost)
    given_up = (move for move in own.moves if move.target.uri not in kept)
    for move in withdrawal.keep_copies(filesystem, files.spec, given_up):
        if files.is_kept(move, commit):
            files.bring_back(move)
        else:
            files.forget(move)
    # Late and changed rows of work units that are read again.
    beside = {*commit.late_moves, *commit.changelog_moves}
    for move in own.quarantine:
        if commit.act is not None:
            files.put_back(move)
        elif move in beside:
            files.try_to_delete((filesystem.uri(move.source), move.target.uri))
    left = tuple(file for file in own.removes if file.uri in kept)
    # A publish of only put-aside rows may have deleted their older files.
    gone = tuple(
        uri for uri in own.quarantine_removes if not filesystem.exists(filesystem.path_of(uri))
    )
    part = replace(own, removes=left, quarantine=(), quarantine_removes=())
    rest = _without(replace(intent, commit=part), lost, files.spec.mode, kept)
    return replace(rest, commit=replace(rest.commit, act=None, quarantine_removes=gone))


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of a publish that is given up, in whole or in part."""

    spec: PublishingSpec
    filesystem: Filesystem

    def is_kept(self, move: Move, commit: Commit) -> bool:
        """Return whether a file that is not published goes back to its earlier place.

        No run reads the files of an operator's act again: files of a backfill, copies of withdrawn
        files, and rows that were put aside.
        """
        if commit.act is None:
            return False
        folders = (backfills_dir(self.spec), withdrawal.act_folder(self.spec, "").rstrip("/"))
        return move in commit.quarantine or any(
            is_inside(move.source, folder, self.filesystem) for folder in folders
        )

    def overwriting(self, commit: Commit, lost: set[str]) -> frozenset[str]:
        """Return the URIs at which dumped files of lost work units replaced live files."""
        replaced = {file.uri for file in commit.removes}
        return frozenset(
            move.target.uri
            for move in commit.moves
            if not _units(move.target).isdisjoint(lost)
            and move.target.uri in replaced
            and is_in_place(move, self.filesystem)
        )

    def delete(self, move: Move) -> None:
        """Delete a staged or moved file."""
        # At a dumped file's name there may still be the file of an earlier run.
        is_new = not move.target.is_dump or is_in_place(move, self.filesystem)
        self.filesystem.delete_file(move.source)
        if is_new and self.spec.keeps_files:  # A database has all of a commit or no part of it.
            self.filesystem.delete_file(self.filesystem.path_of(move.target.uri))

    def forget(self, move: Move) -> None:
        """Delete a staged or moved file; log the file if it cannot be deleted."""
        try:
            self.delete(move)
        except (OSError, ValueError, RecursionError, WriteError) as error:
            log.warning("%s cannot be deleted and remains: %s", move.target.uri, error)

    def try_to_delete(
        self, uris: Iterable[str], otherwise: str = "cannot be deleted and remains"
    ) -> None:
        """Delete files by their URIs; log the files that cannot be deleted."""
        for uri in uris:
            try:
                self.filesystem.delete_file(self.filesystem.path_of(uri))
            except (OSError, ValueError, WriteError) as error:
                log.warning("%s %s: %s", uri, otherwise, error)

    def take_aside(self, commit: Commit) -> None:
        """Move the rows that an act takes away; log the files that cannot be moved."""
        for move in commit.quarantine:
            if self._is_taken(move) and self.filesystem.exists(move.source):
                try:
                    place_files([move], self.spec, self.filesystem)
                except (OSError, ValueError, WriteError) as error:
                    log.warning("%s cannot be moved and remains: %s", move.source, error)

    def without_lost_aside(self, commit: Commit) -> Commit:
        """Return a commit that removes the lost files that it would take away.

        No rows of the dataset depend on them, and without their files they are gone from beside it.
        """
        lost = {
            move.source
            for move in commit.quarantine
            if self._is_taken(move) and is_lost(move, self.filesystem)
        }
        return replace(
            commit,
            quarantine=tuple(move for move in commit.quarantine if move.source not in lost),
            quarantine_removes=(
                *commit.quarantine_removes,
                *map(self.filesystem.uri, sorted(lost)),
            ),
        )

    def _is_taken(self, move: Move) -> bool:
        return set_aside.is_taken(move, self.spec, self.filesystem)

    def bring_back(self, move: Move) -> None:
        """Move a file of a backfill to its earlier place, so that it can be published again."""
        path = self.filesystem.path_of(move.target.uri)
        if self.filesystem.exists(move.source):
            if not move.target.is_dump:
                self.filesystem.delete_file(path)
        elif not is_lost(move, self.filesystem):
            self.filesystem.move(path, move.source)

    def put_back(self, move: Move) -> None:
        """Move rows to their place from before an act put them aside or brought them back."""
        path = self.filesystem.path_of(move.target.uri)
        if not self.filesystem.exists(move.source) and self.filesystem.exists(path):
            self.filesystem.move(path, move.source)


def _with_event_time_of_before(rest: Intent, store: StateStore) -> Intent:
    """Return the rest of a publish with the event-time checkpoints from before the publish.

    The given-up rows have moved the watermark of the new checkpoints. By this watermark the same
    rows would count as late when they are read again.
    """
    checkpoints = {
        kind: members if kind == STREAM else store.checkpoint(kind)
        for kind, members in rest.commit.checkpoints.items()
    }
    return replace(rest, commit=replace(rest.commit, checkpoints=checkpoints))


def _fence(intent: Intent, destination: Destination) -> None:
    """Prevent a driver that wakes up later from publishing files that are given up.

    Some dumped files may stay; then a commit with these files takes the number of the intent. A
    publish of only put-aside rows takes no number, but its files are gone when the driver looks for
    them.
    """
    if not (intent.commit.moves or intent.commit.removes):
        return
    has_dumps = any(move.target.is_dump for move in intent.commit.moves)
    if not has_dumps:
        destination.fence(intent)


def _units(file: PublishedFile) -> frozenset[str]:
    """Return the signatures of a file's work units; one empty text if they are unknown."""
    return file.signatures or frozenset([""])


def _all_units(files: Iterable[PublishedFile]) -> set[str]:
    return {signature for file in files for signature in _units(file)}


def _with_sharers(lost: set[str], commit: Commit) -> set[str]:
    """Return the lost work units and all work units that share a file with them.

    A shared file is published with the rows of all its work units or not at all. In the same way, a
    shared live file that the publish would replace stays if one of its work units is lost.
    """
    files = (*(move.target for move in commit.moves), *commit.removes)
    shared = [file.signatures for file in files if file.is_shared]
    lost = set(lost)
    while joined := [each for each in shared if not each.isdisjoint(lost) and not each <= lost]:
        lost.update(*joined)
    return lost


def _rest_of(intent: Intent, lost: Sequence[Move], files: _Files) -> Intent:
    """Return a publish without the work units of lost moves; unchanged if no move is lost."""
    units = _all_units(move.target for move in lost)
    if not units:
        return intent
    units = _with_sharers(units, intent.commit)
    return _without(intent, units, files.spec.mode, files.overwriting(intent.commit, units))


def _dropped(intent: Intent, rest: Intent) -> list[Move]:
    """Return the moves of a publish that are not in its rest."""
    sources = {move.source for move in rest.commit.all_moves}
    return [move for move in intent.commit.all_moves if move.source not in sources]


def _without(
    intent: Intent, lost: set[str], mode: PublishMode, overwriting: frozenset[str]
) -> Intent:
    commit = intent.commit
    needs_all = mode is PublishMode.MERGE or (mode is PublishMode.REPLACE and commit.act is None)
    # A query's record says that all rows of its inputs were read, so no file can be left out.
    gives_up = needs_all or commit.is_compaction or commit.query is not None
    if gives_up:
        # Files of rewritten rows belong to no work unit.
        moved = _all_units(move.target for move in commit.all_moves)
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
        if move.target.is_dump and not _units(move.target).isdisjoint(lost)
    }
    hashes = set(map(unit_hash, lost))
    starts = [outcome.low for outcome in outcomes if outcome.signature in lost]
    if commit.run.left_low is not None:
        starts.append(commit.run.left_low)
    rest = replace(
        commit,
        moves=tuple(
            move
            for move in commit.moves
            if _units(move.target).isdisjoint(lost) or move.target.uri in overwriting
        ),
        # The old files of lost work units stay, unless other files have their names by now.
        removes=tuple(
            file
            for file in commit.removes
            if file.uri in overwriting
            or (not gives_up and not _is_of(file, lost) and file.uri not in dumped)
        ),
        quarantine=tuple(move for move in commit.quarantine if move.target.signature not in lost),
        # A changelog would name rows that do not exist, so the next merge starts it again.
        changelog_dir="",
        begins_changelog=False,
        quarantine_removes=()
        if gives_up
        else tuple(uri for uri in commit.quarantine_removes if unit_hash_in(uri) not in hashes),
        # Only a replace forgets work units, and it is given up as a whole: their rows stay.
        run=replace(
            commit.run, outcomes=outcomes, left_low=min(starts, default=None), forgotten=()
        ),
    )
    if commit.query is not None:
        # The next run reads the same part of its inputs: their positions and the watermark stay.
        rest = replace(rest, query=None, checkpoints={}, run=RunWork(watermarks=False))
    act = None if commit.act is None or gives_up else _act_without(commit.act, lost)
    has_files = bool(rest.moves or rest.removes or rest.quarantine)
    is_empty = act is None or not (has_files or act.changed or act.removed)
    return replace(intent, commit=replace(rest, act=None if is_empty else act))


def _is_of(file: PublishedFile, lost: Collection[str]) -> bool:
    """Return whether a published file belongs to one of these work units.

    A file that no manifest knows has no signature; its name shows its work unit.
    """
    if file.signatures:
        return not file.signatures.isdisjoint(lost)
    name = file.uri.rpartition("/")[2]
    return any(f"-{unit_hash(signature)}-" in name for signature in lost)


def _act_without(act: OperatorAct, lost: set[str]) -> OperatorAct:
    """Return an operator's act without the rows of lost work units.

    The dataset's watermark must not pass rows that a run still has to read.
    """
    lows = [row.low for row in act.changed if row.signature in lost]
    watermark = act.watermark
    if act.sets_watermark and watermark is not None:
        watermark = min([watermark, *lows])
    changed = tuple(row for row in act.changed if row.signature not in lost)
    return replace(act, changed=changed, watermark=watermark)
