"""Rechecks a file log: entries against the snapshots that replace them, and the chain's files.

Opening a log reads its newest snapshot and the entries after it, and trusts both. The same
transactions wrote the other files, so these files reveal a snapshot or an entry that was changed or
deleted since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from dil.errors import StateError
from dil.state.blocks.canonical import content_hash
from dil.state.databases import sql, tables
from dil.state.filelog.entry import decode
from dil.state.filelog.folder import JobFolder, SnapshotFile, superfluous_until
from dil.state.filelog.replica import Replica

_MAX_READINGS = 3


def log_problems(folder: JobFolder, replica: Replica, job: str) -> Iterator[str]:
    """Yield contradictions in a log.

    If a run that sweeps deletes files during the comparison, they are compared again.

    Args:
        folder: The log's present generation.
        replica: The state after its last entry.
        job: The job of the log.

    Raises:
        StateError: the folder cannot be read.
    """
    problems: list[str] = []
    for _ in range(_MAX_READINGS):
        listed = folder.snapshots()
        problems = list(_file_problems(folder, listed, replica, job))
        if not problems or folder.snapshots() == listed:
            break
    yield from problems
    row = replica.begin().row(sql.LAST_BLOCK, job)
    replica.roll_back()
    last = -1 if row is None or row[0] is None else int(row[0])
    if folder.last_block() > last:
        yield (
            f"the chain's files end at block {folder.last_block()}, but the journal at block"
            f" {last}: entries were deleted, or replaced by an older copy"
        )


def _file_problems(
    folder: JobFolder, listed: Sequence[SnapshotFile], replica: Replica, job: str
) -> Iterator[str]:
    floor = superfluous_until(listed)
    for number in folder.entries():
        if number <= floor:
            continue
        content, known = folder.entry(number), replica.hash_of(number)
        if content is not None and known is not None and content_hash(content) != known:
            yield f"{folder.entry_path(number)} is not the entry that the snapshot was made of"
    for older, newer in pairwise(sorted(each for each in listed if each.number >= floor)):
        problem = _difference(folder, older, newer, job)
        if problem:
            yield problem


def _difference(folder: JobFolder, older: SnapshotFile, newer: SnapshotFile, job: str) -> str:
    """Return why entries do not lead from one snapshot to the next, empty text if they do."""
    began, ends = folder.snapshot(older), folder.snapshot(newer)
    if began is None or ends is None:
        return f"{folder.snapshot_path(newer if ends is None else older)} is damaged"
    replayed = Replica.loaded(began, job, folder.snapshot_path(older))
    expected = Replica.loaded(ends, job, folder.snapshot_path(newer))
    try:
        while replayed.number < newer.number:
            path = folder.entry_path(replayed.number + 1)
            content = folder.entry(replayed.number + 1)
            if content is None:
                return f"{path} is missing"
            replayed.apply(decode(content, path), content_hash(content), path)
        if _rows(replayed) != _rows(expected):
            return f"{folder.snapshot_path(newer)} does not agree with the entries before it"
    except StateError as error:
        return error.message
    finally:
        replayed.close()
        expected.close()
    return ""


def _rows(replica: Replica) -> list[list[tuple[object, ...]]]:
    tx = replica.begin()
    names = tables.names(tables.SQLITE, number=replica.format)
    found = [sorted(tx.rows(f"SELECT * FROM {name}"), key=repr) for name in names]  # noqa: S608
    replica.roll_back()
    return found
