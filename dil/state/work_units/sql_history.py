"""The history that planning needs, as indexed queries of one point in time."""

from __future__ import annotations

from collections.abc import Mapping

from dil.model.history import Coverage, History, UnitRecord
from dil.state.blocks.canonical import key_hash
from dil.state.blocks.source_state import FAILED, PENDING, SKIPPED
from dil.state.databases import sql
from dil.state.databases.database import Row, Transaction
from dil.state.runs.run_rows import read_counters
from dil.state.work_units.unit_rows import as_coverage, read_coverage


class SqlHistory(History):
    """History of one job, read from one snapshot."""

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
        return {row[0]: _record(row) for row in rows if row[3] != PENDING}

    def open_records(self, unit_key: str) -> Mapping[str, UnitRecord]:
        """Return, by signature, the unit's records whose last attempt failed."""
        rows = self._snapshot.rows(sql.OPEN_RECORDS, self._job, key_hash(unit_key), FAILED)
        return {row[0]: _record(row) for row in rows}


def _record(row: Row) -> UnitRecord:
    signature, low, high, status, attempts, expected_high = row
    failed = status == FAILED
    owed = expected_high if failed else None
    is_skipped = status == SKIPPED
    return UnitRecord(
        signature, low, high, failed=failed, attempts=attempts, owed=owed, skipped=is_skipped
    )
