"""The work-unit index and its coverage rows; a commit's work depends only on its changes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from dil.model.dataset import WorkUnitOutcome
from dil.model.history import Coverage
from dil.model.interval import Interval
from dil.state.blocks.canonical import key_hash
from dil.state.blocks.source_state import (
    COMMITTED,
    FAILED,
    OPEN,
    SKIPPED,
    UnitRow,
    UnitSummary,
    replace_in_digest,
)
from dil.state.databases import sql
from dil.state.databases.database import Transaction
from dil.state.work_units.coverage import Spans, contradicts, cover, uncover


@dataclass(slots=True)
class UnitChanges:
    """A commit's changes to the index: new rows and, by signature, the replaced hashes.

    Signatures of ``removed`` are no longer in the index; their hashes are in ``replaced``.
    """

    rows: dict[str, UnitRow] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)

    def put(self, row: UnitRow, known: StoredRow | None) -> None:
        """Record that a row replaces the known one, or is new."""
        if known is not None:
            self._count(known.row.status, -1)
            if row.signature not in self.rows:
                self.replaced[row.signature] = known.row_hash
        self._count(row.status, +1)
        self.rows[row.signature] = row

    def remove(self, known: StoredRow) -> None:
        """Record that a known row is removed from the index."""
        self._count(known.row.status, -1)
        self.replaced[known.row.signature] = known.row_hash
        self.removed.append(known.row.signature)

    def _count(self, status: str, by: int) -> None:
        self.moved[status] = self.moved.get(status, 0) + by


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A stored row, with values that blocks do not have; ``unit_key`` is the key's hash."""

    row: UnitRow
    row_hash: str
    era: int
    unit_key: str
    timelabel: str | None

    def tile_end(self, era: int) -> int | None:
        """Return the end of the work unit's tile, epoch ms UTC; None if it has none in this era."""
        return tile_end(self.row) if self.era == era else None


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """One unit's coverage of all its partitions; ``lowest`` is the smallest start ever recorded."""

    spans: Spans
    max_high: int | None
    lowest: int
    open_count: int


@dataclass(frozen=True, slots=True)
class _StoredTiles:
    """The successes of one unit, given by its key's hash, under the present shape."""

    tx: Transaction
    job: str
    unit: str
    era: int

    def end_of_tile_at(self, low: int) -> int | None:
        """Return the end of the tile that starts at ``low``."""
        row = self.tx.row(sql.TILE_AT, self.job, self.unit, low, self.era)
        return None if row is None else min(row)

    def start_of_tile_until(self, high: int) -> int | None:
        """Return the start of the tile that ends at ``high``; reads only one row."""
        row = self.tx.row(sql.ROW_BEFORE, self.job, self.unit, high)
        if row is None or row[1] is None or row[3] != self.era:
            return None
        return row[0] if min(row[1], row[2]) == high else None


class UnitIndex:
    """The work units of one job inside one transaction.

    ``era`` counts the shapes that the job's watermark had; only successes of the present shape
    count as covered. ``era`` is raised if a partition shows that the grid changed without a new
    shape.
    """

    def __init__(self, tx: Transaction, job: str, era: int) -> None:
        self._tx = tx
        self._job = job
        self.era = era

    def apply(
        self, outcomes: Iterable[WorkUnitOutcome], sequence: int, *, has_data: bool = True
    ) -> UnitChanges:
        """Record outcomes; a row that does not change is not written.

        Args:
            outcomes: The outcomes of a run, in any order.
            sequence: The sequence of the block that will have the change.
            has_data: Whether the run published any files. If not, a repeated success is no change:
                the number of attempts alone is not worth a block (V23).
        """
        changes = UnitChanges()
        for outcome in sorted(outcomes, key=lambda each: (each.unit_key, each.low)):
            known = read_row(self._tx, self._job, outcome.signature)
            row = _merged(known.row if known else None, outcome)
            if known is not None and self._is_known(row, known, outcome, has_data=has_data):
                continue
            changes.put(row, known)
            self._record(outcome, row, sequence, known)
        return changes

    def leave_out(
        self, skipped: Iterable[WorkUnitOutcome], sequence: int, changes: UnitChanges
    ) -> None:
        """Record work units that no run reads as skipped; a known work unit stays as it is."""
        for outcome in sorted(skipped, key=lambda each: (each.unit_key, each.low)):
            if read_row(self._tx, self._job, outcome.signature) is not None:
                continue
            row = UnitRow(outcome.signature, outcome.low, outcome.expected_high, None, SKIPPED, 0)
            changes.put(row, None)
            self._record(outcome, row, sequence, None)

    def _is_known(
        self, row: UnitRow, known: StoredRow, outcome: WorkUnitOutcome, *, has_data: bool
    ) -> bool:
        counts_attempts = has_data or not outcome.succeeded or known.era != self.era
        return (row if counts_attempts else replace(row, attempts=known.row.attempts)) == known.row

    def summary(self, before: UnitSummary, changes: UnitChanges) -> UnitSummary:
        """Return the summary after the changes, from the earlier summary and one indexed lookup."""
        if not changes.rows and not changes.removed:
            return before
        digest = before.digest
        for signature, row in changes.rows.items():
            digest = replace_in_digest(digest, changes.replaced.get(signature), row.hash)
        for signature in changes.removed:
            digest = replace_in_digest(digest, changes.replaced[signature], None)
        counts = dict(before.counts)
        for status, by in changes.moved.items():
            counts[status] = counts.get(status, 0) + by
        highs = [row.high for row in changes.rows.values() if row.high is not None]
        if before.max_high is not None:
            highs.append(before.max_high)
        max_high = max(highs, default=None)
        lowest_open = lowest_open_of(self._tx, self._job)
        return UnitSummary(
            version=before.version + 1,
            digest=digest,
            max_high=max_high,
            frontier=max_high if lowest_open is None else lowest_open,
            counts={status: count for status, count in sorted(counts.items()) if count},
        )

    def _record(
        self, outcome: WorkUnitOutcome, row: UnitRow, sequence: int, known: StoredRow | None
    ) -> None:
        """Write a row and its unit's coverage, in a new era if the row shows another grid."""
        unit = key_hash(outcome.unit_key)
        old = read_coverage(self._tx, self._job, unit, self.era)
        spans = old.spans if old else Spans()
        tile = Interval(row.low, tile_end(row) or row.low)
        earlier_end = known.tile_end(self.era) if known else None
        is_changed = tile.high != earlier_end
        if is_changed and earlier_end is not None:
            spans = uncover(spans, Interval(row.low, earlier_end))
        # A failure covers nothing.
        covers = is_changed and (outcome.succeeded or row.status == SKIPPED)
        if covers and contradicts(spans, tile):
            self.era += 1
            spans = Spans()
        # A failure keeps the era of the success that the row still has.
        era = known.era if known is not None and not outcome.succeeded else self.era
        stored = StoredRow(row, row.hash, era, unit, outcome.timelabel)
        write_row(self._tx, self._job, stored, sequence, is_new=known is None, error=outcome.error)
        if covers:
            spans = cover(spans, tile, _StoredTiles(self._tx, self._job, unit, self.era))
        was_failed = known is not None and known.row.status == FAILED
        coverage = CoverageRow(
            spans=spans,
            max_high=_larger(old.max_high if old else None, row.high),
            lowest=min(old.lowest, row.low) if old else row.low,
            open_count=(old.open_count if old else 0) - was_failed + (row.status == FAILED),
        )
        write_coverage(self._tx, self._job, unit, coverage, self.era)


def tile_end(row: UnitRow) -> int | None:
    """Return the end, epoch ms UTC, of the time that a work unit covers.

    A skipped work unit covers its whole partition. The end is None if the work unit neither
    succeeded nor was skipped.
    """
    if row.status == SKIPPED:
        return row.expected_high
    return None if row.high is None else min(row.high, row.expected_high)


def read_row(tx: Transaction, job: str, signature: str) -> StoredRow | None:
    """Return a work unit's row, None if the index has none."""
    found = tx.row(sql.UNIT, job, key_hash(signature))
    if found is None:
        return None
    _, low, expected_high, high, status, attempts, cursor, row_hash, era, key, label = found
    row = UnitRow(
        signature, low, expected_high, high, status, attempts, cursor and json.loads(cursor)
    )
    return StoredRow(row, row_hash, era, key, label)


def write_row(
    tx: Transaction, job: str, stored: StoredRow, sequence: int, *, is_new: bool, error: str = ""
) -> None:
    """Write a work unit's row as changed by the block ``sequence``; cursors are not stored yet."""
    row = stored.row
    tx.change(
        sql.ADD_UNIT if is_new else sql.CHANGE_UNIT,
        stored.unit_key, row.signature, row.low, row.expected_high, row.high, row.status,
        row.attempts, None, error, stored.timelabel, sequence, stored.row_hash, stored.era, job,
        key_hash(row.signature),
    )  # fmt: skip


def lowest_open_of(tx: Transaction, job: str) -> int | None:
    """Return the smallest start of uncommitted work units, epoch ms UTC; one lookup per status."""
    rows = (tx.row(sql.LOWEST_OPEN, job, status) for status in OPEN)
    return min((row[0] for row in rows if row is not None), default=None)


def write_coverage(tx: Transaction, job: str, unit: str, row: CoverageRow, era: int) -> None:
    """Save the coverage row of a unit, given by its key's hash."""
    main, tail = row.spans.main, row.spans.tail
    values = (
        main.low, main.high, tail.low, tail.high, era, row.max_high, row.lowest, row.open_count,
        job, unit,
    )  # fmt: skip
    if tx.change(sql.CHANGE_COVERAGE, *values) == 0:
        tx.change(sql.ADD_COVERAGE, *values)


def read_coverage(tx: Transaction, job: str, unit: str, era: int) -> CoverageRow | None:
    """Return the coverage row of a unit's key hash; spans of an earlier era count as empty."""
    row = tx.row(sql.COVERAGE, job, unit)
    if row is None:
        return None
    low, high, tail_low, tail_high, row_era, max_high, lowest, open_count = row
    spans = Spans(Interval(low, high), Interval(tail_low, tail_high))
    return CoverageRow(spans if row_era == era else Spans(), max_high, lowest, open_count)


def as_coverage(row: CoverageRow) -> Coverage:
    """Return a coverage row in the form for planning.

    A unit that never succeeded has no largest high; its smallest partition start is used instead.
    """
    main = row.spans.main
    known_high = row.lowest if row.max_high is None else row.max_high
    if main.is_empty:
        return Coverage(row.lowest, row.lowest, known_high, row.open_count)
    return Coverage(main.low, main.high, known_high, row.open_count)


def _merged(known: UnitRow | None, outcome: WorkUnitOutcome) -> UnitRow:
    """Return the row after an outcome: a success is never lowered, and a failure keeps it.

    A work unit that failed stays failed until a success reaches the end that it failed to reach: a
    shorter reading must not hide the rest that is still missing.
    """
    owed = known.expected_high if known is not None and known.status == FAILED else None
    is_paid = owed is None or (outcome.high is not None and outcome.high >= owed)
    return UnitRow(
        signature=outcome.signature,
        low=outcome.low,
        expected_high=outcome.expected_high if owed is None else max(owed, outcome.expected_high),
        high=_larger(known.high if known else None, outcome.high),
        status=COMMITTED if outcome.succeeded and is_paid else FAILED,
        attempts=outcome.attempts + (known.attempts if known else 0),
    )


def _larger(one: int | None, other: int | None) -> int | None:
    known = [value for value in (one, other) if value is not None]
    return max(known, default=None)
