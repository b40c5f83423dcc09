"""The ``newData`` of a commit: its files with their offsets, and the files that it removes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate

from dil.model.dataset import Commit, Move, PublishedFile
from dil.model.on_demand import OnDemand
from dil.state.blocks.canonical import SHA2_256, hash_of_pieces, key_hash
from dil.state.blocks.events import (
    DATA_KINDS,
    Changelog,
    DataEvent,
    SideFile,
    SideFiles,
    Slice,
    SliceFile,
)
from dil.state.chain.chain_rows import read_stored
from dil.state.databases import sql
from dil.state.databases.database import Transaction


def slice_of(tx: Transaction, job: str, commit: Commit, prev_offset: int | None) -> Slice | None:
    """Return the ``newData`` of a commit, None if it neither adds nor removes a file.

    Offsets follow ``prev_offset``, the chain's last offset; if it is None, they begin at 0.
    """
    if not commit.moves and not commit.removes:
        return None
    start = 0 if prev_offset is None else prev_offset + 1
    moves = commit.moves
    *starts, end = accumulate((move.target.rows for move in moves), initial=start)
    offsets, rows = array("q", starts), end - start
    parts = OnDemand(lambda place: _part(moves[place].target, offsets[place]), range(len(moves)))
    return Slice(
        logical_hash=None,
        physical_hash=_joint_hash(parts),
        start=start if rows else None,
        end=end - 1 if rows else None,
        size=sum(part.size for part in parts),
        parts=parts,
        removes=tuple(_removed(tx, job, file) for file in commit.removes),
    )


def late_of(commit: Commit) -> SideFiles | None:
    """Return a commit's files of late rows, None if it changes none."""
    if not commit.touches_late_rows:
        return None
    return SideFiles(_side_files(commit.late_moves), commit.late_removes)


def changelog_of(commit: Commit) -> Changelog | None:
    """Return the rows that a commit changed, None if it does not record them."""
    if not commit.changelog_dir:
        return None
    return Changelog(_side_files(commit.changelog_moves), commit.begins_changelog)


def _side_files(moves: Iterable[Move]) -> tuple[SideFile, ...]:
    files = (move.target for move in moves)
    return tuple(
        SideFile(file.uri, file.rows, SHA2_256 + file.sha256, file.bytes) for file in files
    )


def own_of(tx: Transaction, job: str, files: Iterable[PublishedFile]) -> frozenset[str]:
    """Return the URIs of the job's own files: a recorded run published them, or the chain has them.

    There are few runs and many files: each run is looked up once. The row of a run may be pruned;
    then the chain still has the files of the run.
    """
    is_known: dict[str, bool] = {}
    own: set[str] = set()
    for file in files:
        if file.run_id not in is_known:
            is_known[file.run_id] = tx.row(sql.COMMITTED, job, file.run_id) is not None
        if is_known[file.run_id] or is_live(tx, job, file.uri):
            own.add(file.uri)
    return frozenset(own)


def keep_offsets(tx: Transaction, job: str, new_data: Slice) -> None:
    """Save the first offset of each new file, which a later block that removes the file needs."""
    forget_offsets(tx, job, (part.path for part in new_data.removes))
    for part in new_data.parts or ():
        key = key_hash(part.path)
        tx.change(sql.REMOVE_FILE, job, key)
        tx.change(sql.ADD_FILE, job, key, part.path, part.start)


def forget_offsets(tx: Transaction, job: str, uris: Iterable[str]) -> None:
    """Delete the first offsets of files that left the dataset."""
    for uri in uris:
        tx.change(sql.REMOVE_FILE, job, key_hash(uri))


def is_live(tx: Transaction, job: str, uri: str) -> bool:
    """Return whether a file that a block added is live: no later block removed it."""
    return tx.row(sql.FILE_OFFSET, job, key_hash(uri)) is not None


def last_offset_at(tx: Transaction, job: str, sequence: int) -> int:
    """Return the last offset used by the blocks up to a sequence, -1 if none is used.

    Raises:
        StateError: the newest data block among these is damaged.
    """
    found = (tx.row(sql.DATA_BLOCK_UP_TO, job, kind, sequence) for kind in sorted(DATA_KINDS))
    row = next(filter(None, found), None)  # a dataset holds one of the kinds (V08)
    if row is None:
        return -1
    event = read_stored(job, *row).event
    last = event.last_offset if isinstance(event, DataEvent) else None
    return -1 if last is None else last


def _part(file: PublishedFile, start: int | None) -> SliceFile:
    end = None if start is None else start + file.rows - 1
    return SliceFile(
        file.uri, file.rows, start, end, SHA2_256 + file.sha256, file.bytes, file.timelabel
    )


def _removed(tx: Transaction, job: str, file: PublishedFile) -> SliceFile:
    row = tx.row(sql.FILE_OFFSET, job, key_hash(file.uri))
    return _part(file, None if row is None else row[0])


def _joint_hash(parts: Sequence[SliceFile]) -> str | None:
    """Return the hash of the only part, else the hash of the parts' hashes, one a line."""
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0].physical_hash
    lines = (f"{chr(10) * (place > 0)}{part.physical_hash}" for place, part in enumerate(parts))
    return hash_of_pieces(line.encode() for line in lines)
