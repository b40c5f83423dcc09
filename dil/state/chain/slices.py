"""The ``newData`` of a commit: its files with their offsets, and those that it takes away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dil.model.dataset import Commit, PublishedFile
from dil.state.blocks.canonical import SHA2_256, content_hash, key_hash
from dil.state.blocks.events import Part, Slice
from dil.state.databases import sql
from dil.state.databases.database import Transaction


def slice_of(tx: Transaction, job: str, commit: Commit, prev_offset: int | None) -> Slice | None:
    """Return the ``newData`` of a commit, None when it neither adds nor takes away a file.

    Offsets follow ``prev_offset``, the last one of the chain; None means that they begin at 0.
    """
    if not commit.moves and not commit.removes:
        return None
    start = 0 if prev_offset is None else prev_offset + 1
    parts = tuple(_parts((move.target for move in commit.moves), start))
    rows = sum(part.rows for part in parts)
    return Slice(
        logical_hash=None,
        physical_hash=_joint_hash(parts),
        start=start if rows else None,
        end=start + rows - 1 if rows else None,
        size=sum(part.size for part in parts),
        parts=parts,
        removes=tuple(_removed(tx, job, file) for file in commit.removes),
    )


def own_of(tx: Transaction, job: str, files: Iterable[PublishedFile]) -> frozenset[str]:
    """Return the URIs of those files that a recorded run of the job published, or its chain holds.

    Runs are few and files are many: a run is looked up once. Its row may be pruned; then the
    chain still knows its files.
    """
    is_known: dict[str, bool] = {}
    own: set[str] = set()
    for file in files:
        if file.run_id not in is_known:
            is_known[file.run_id] = tx.row(sql.COMMITTED, job, file.run_id) is not None
        if is_known[file.run_id] or tx.row(sql.FILE_OFFSET, job, key_hash(file.uri)) is not None:
            own.add(file.uri)
    return frozenset(own)


def keep_offsets(tx: Transaction, job: str, new_data: Slice) -> None:
    """Remember where each new file begins, for the day when a later block takes it away."""
    forget_offsets(tx, job, (part.path for part in new_data.removes))
    for part in new_data.parts or ():
        key = key_hash(part.path)
        tx.change(sql.REMOVE_FILE, job, key)
        tx.change(sql.ADD_FILE, job, key, part.path, part.start)


def forget_offsets(tx: Transaction, job: str, uris: Iterable[str]) -> None:
    """Forget where files began that left the dataset."""
    for uri in uris:
        tx.change(sql.REMOVE_FILE, job, key_hash(uri))


def _parts(files: Iterator[PublishedFile], start: int) -> Iterator[Part]:
    offset = start
    for file in files:
        yield _part(file, offset)
        offset += file.rows


def _part(file: PublishedFile, start: int | None) -> Part:
    end = None if start is None else start + file.rows - 1
    return Part(file.uri, file.rows, start, end, SHA2_256 + file.sha256, file.bytes, file.timelabel)


def _removed(tx: Transaction, job: str, file: PublishedFile) -> Part:
    row = tx.row(sql.FILE_OFFSET, job, key_hash(file.uri))
    return _part(file, None if row is None else row[0])


def _joint_hash(parts: Sequence[Part]) -> str | None:
    """Return the only part's hash, else the hash of the parts' hashes, one a line."""
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0].physical_hash
    return content_hash("\n".join(part.physical_hash for part in parts).encode())
