"""Reads the records of work units: for planning, and as stretches of time for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

from dil.model.history import Coverage, History, UnitRecord, UnitStretches
from dil.model.interval import Interval, joined
from dil.state.blocks.canonical import key_hash
from dil.state.blocks.source_state import COMMITTED, FAILED, PENDING, SKIPPED
from dil.state.databases import sql
from dil.state.databases.database import Row, Transaction
from dil.state.runs.run_rows import read_counters
from dil.state.work_units.unit_rows import as_coverage, read_coverage


class SqlHistory(History):
    """The history of one job that planning needs: indexed queries of one snapshot."""

    def __init__(self, snapshot: Transaction, job: str) -> None:
        self._snapshot = snapshot
        self._job = job
        self._era = read_counters(snapshot, job).era

    def is_empty(self) -> bool:
        """Return whether no work unit of this job was ever recorded."""
        return self._snapshot.row(sql.ANY_UNIT, self._job) is None

    def has_succeeded(self) -> bool:
        """Return whether any work unit of this job succeeded once, even if it failed later."""
        asked = (sql.ANY_COMMITTED, sql.ANY_FAILED_LATER)
        return any(self._snapshot.row(each, self._job) is not None for each in asked)

    def lowest(self) -> int | None:
        """Return the earliest partition start of any unit; pending work units count."""
        row = self._snapshot.row(sql.LOWEST, self._job)
        return None if row is None else int(row[0])

    def coverage(self, unit_key: str) -> Coverage | None:
        """Return the unit's coverage row, None if it has no record."""
        row = read_coverage(self._snapshot, self._job, key_hash(unit_key), self._era)
        return None if row is None else as_coverage(row)

    def records(self, unit_key: str, low: int, high: int) -> Mapping[str, UnitRecord]:
        """Return, by signature, the unit's records whose partition start is in ``[low, high)``.

        A pending row is not a record: an operator reset it as if it had never been read.
        """
        rows = self._snapshot.rows(sql.RECORDS, self._job, key_hash(unit_key), low, high)
        return {row[0]: record_of(*row) for row in rows if row[3] != PENDING}

    def open_records(self, unit_key: str) -> Mapping[str, UnitRecord]:
        """Return, by signature, the unit's records whose last attempt failed."""
        rows = self._snapshot.rows(sql.OPEN_RECORDS, self._job, key_hash(unit_key), FAILED)
        return {row[0]: record_of(*row) for row in rows}


def record_of(
    signature: str, low: int, high: int | None, status: str, attempts: int, expected_high: int
) -> UnitRecord:
    """Return the record that planning reads from a row of the index."""
    failed = status == FAILED
    return UnitRecord(
        signature,
        low,
        high,
        failed=failed,
        attempts=attempts,
        owed=expected_high if failed else None,
        skipped=status == SKIPPED,
    )


def stretches_of(unit_key: str, rows: Sequence[Row]) -> UnitStretches:
    """Return the stretches of one unit that were read, failed, or left out.

    Each row begins with partition start and end, last successful high or None, and status
    (``sql.UNIT_RECORDS``); the rows are sorted by partition start.

    A record counts as read up to its high, whatever its partition is. The time from there to the
    end that it failed to reach counts as failed. A period without a run counts as skipped up to the
    partition's end.
    """
    # Each row is handled by few expressions: there may be a million rows.
    read = [row for row in rows if row[2] is not None and row[2] > row[0]]
    others = [row[:4] for row in rows if row[3] != COMMITTED]
    failed = [
        (low if high is None else max(low, high), end)
        for low, end, high, status in others
        if status == FAILED
    ]
    failed.sort()  # the rest of a partition may begin after the start of the next one
    skipped = [(low, end) for low, end, _, status in others if status == SKIPPED]
    newest = max(read, key=itemgetter(2), default=None)
    return UnitStretches(
        unit_key,
        read=joined(map(itemgetter(0, 2), read)),
        failed=joined(failed),
        skipped=joined(skipped),
        newest=Interval(newest[0], newest[2]) if newest and newest[3] == COMMITTED else None,
    )
