"""The work-unit index and its coverage rows: what one commit changes, at O(changed)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from dil.model.dataset import WorkUnitOutcome
from dil.model.history import Coverage
from dil.model.interval import Interval
from dil.state import sql
from dil.state.canonical import key_hash
from dil.state.coverage import Spans, contradicts, cover
from dil.state.database import Transaction
from dil.state.source_state import COMMITTED, FAILED, UnitRow, UnitSummary, replace_in_digest


@dataclass(slots=True)
class UnitChanges:
    """What a commit changed in the index: new rows and, by signature, the replaced hashes."""

    rows: dict[str, UnitRow] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)

    def count(self, status: str, by: int) -> None:
        """Note that the number of rows with this status changes."""
        self.moved[status] = self.moved.get(status, 0) + by


@dataclass(frozen=True, slots=True)
class _Known:
    """A row as it is stored, with what the block does not show."""

    row: UnitRow
    row_hash: str
    era: int

    def tile_end(self, era: int) -> int | None:
        """Return where its tile ends, None when it never succeeded under the present shape."""
        if self.era != era or self.row.high is None:
            return None
        return min(self.row.high, self.row.expected_high)


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """One unit over all its partitions; ``lowest`` is the smallest start ever recorded."""

    spans: Spans
    max_high: int | None
    lowest: int
    open_count: int


@dataclass(frozen=True, slots=True)
class _StoredTiles:
    """The successes of one unit (by its key's hash) under the present shape."""

    tx: Transaction
    job: str
    unit: str
    era: int

    def end_of_tile_at(self, low: int) -> int | None:
        """Return where the tile ends that starts at ``low``."""
        row = self.tx.row(sql.TILE_AT, self.job, self.unit, low, self.era)
        return None if row is None else min(row)

    def start_of_tile_until(self, high: int) -> int | None:
        """Return where the tile starts that ends at ``high``; looks at one row only."""
        row = self.tx.row(sql.ROW_BEFORE, self.job, self.unit, high)
        if row is None or row[1] is None or row[3] != self.era:
            return None
        return row[0] if min(row[1], row[2]) == high else None


class UnitIndex:
    """The work units of one job inside one transaction.

    ``era`` counts the shapes that the job's watermark had; only successes of the present one
    count as covered. It grows when a partition shows that the grid changed unannounced.
    """

    def __init__(self, tx: Transaction, job: str, era: int) -> None:
        self._tx = tx
        self._job = job
        self.era = era

    def apply(self, outcomes: Iterable[WorkUnitOutcome], sequence: int) -> UnitChanges:
        """Record outcomes; a row that does not change is not written.

        Args:
            outcomes: What a run found, in any order.
            sequence: The block that will carry the change.
        """
        changes = UnitChanges()
        for outcome in sorted(outcomes, key=lambda each: (each.unit_key, each.low)):
            known = self._known(outcome.signature)
            row = _merged(known.row if known else None, outcome)
            if known is not None and row == known.row:
                continue
            _note(changes, known, row)
            self._write(outcome, row, sequence, known)
            self._cover(outcome, known, row)
        return changes

    def summary(self, before: UnitSummary, changes: UnitChanges) -> UnitSummary:
        """Return the summary after the changes, from the one before and one indexed lookup."""
        if not changes.rows:
            return before
        digest = before.digest
        for signature, row in changes.rows.items():
            digest = replace_in_digest(digest, changes.replaced.get(signature), row.hash)
        counts = dict(before.counts)
        for status, by in changes.moved.items():
            counts[status] = counts.get(status, 0) + by
        highs = [row.high for row in changes.rows.values() if row.high is not None]
        if before.max_high is not None:
            highs.append(before.max_high)
        max_high = max(highs, default=None)
        lowest_open = self._lowest_open()
        return UnitSummary(
            version=before.version + 1,
            digest=digest,
            max_high=max_high,
            frontier=max_high if lowest_open is None else lowest_open,
            counts={status: count for status, count in sorted(counts.items()) if count},
        )

    def _known(self, signature: str) -> _Known | None:
        row = self._tx.row(sql.UNIT, self._job, key_hash(signature))
        if row is None:
            return None
        _, low, expected_high, high, status, attempts, cursor, row_hash, era = row
        found = UnitRow(
            signature, low, expected_high, high, status, attempts, cursor and json.loads(cursor)
        )
        return _Known(found, row_hash, era)

    def _write(
        self, outcome: WorkUnitOutcome, row: UnitRow, sequence: int, known: _Known | None
    ) -> None:
        # A failure leaves the era of the success that the row still stands for.
        era = known.era if known is not None and not outcome.succeeded else self.era
        self._tx.change(
            sql.ADD_UNIT if known is None else sql.CHANGE_UNIT,
            key_hash(outcome.unit_key), row.signature, row.low, row.expected_high, row.high,
            row.status, row.attempts, None, outcome.error, outcome.timelabel, sequence, row.hash,
            era, self._job, key_hash(row.signature),
        )  # fmt: skip

    def _cover(self, outcome: WorkUnitOutcome, known: _Known | None, row: UnitRow) -> None:
        unit = key_hash(outcome.unit_key)
        old = read_coverage(self._tx, self._job, unit, self.era)
        was_open = known is not None and known.row.status != COMMITTED
        spans = old.spans if old else Spans()
        if outcome.succeeded:
            spans = self._covered(spans, unit, known, row)
        coverage = CoverageRow(
            spans=spans,
            max_high=_larger(old.max_high if old else None, row.high),
            lowest=min(old.lowest, row.low) if old else row.low,
            open_count=(old.open_count if old else 0) - was_open + (row.status != COMMITTED),
        )
        self._write_coverage(unit, coverage, is_new=old is None)

    def _covered(self, spans: Spans, unit: str, known: _Known | None, row: UnitRow) -> Spans:
        tile = Interval(row.low, min(row.high or row.low, row.expected_high))
        earlier_end = known.tile_end(self.era) if known else None
        if contradicts(spans, tile, earlier_end):
            self.era += 1
            return Spans(tile)
        return cover(spans, tile, earlier_end, _StoredTiles(self._tx, self._job, unit, self.era))

    def _write_coverage(self, unit: str, row: CoverageRow, *, is_new: bool) -> None:
        main, tail = row.spans.main, row.spans.tail
        self._tx.change(
            sql.ADD_COVERAGE if is_new else sql.CHANGE_COVERAGE,
            main.low, main.high, tail.low, tail.high, self.era, row.max_high, row.lowest,
            row.open_count, self._job, unit,
        )  # fmt: skip

    def _lowest_open(self) -> int | None:
        # Only COMMITTED and FAILED are ever written, so one index step finds the lowest open one.
        row = self._tx.row(sql.LOWEST_OPEN, self._job, FAILED)
        return None if row is None else row[0]


def read_coverage(tx: Transaction, job: str, unit: str, era: int) -> CoverageRow | None:
    """Return the coverage row of a unit key's hash; spans of an earlier era count as empty."""
    row = tx.row(sql.COVERAGE, job, unit)
    if row is None:
        return None
    low, high, tail_low, tail_high, row_era, max_high, lowest, open_count = row
    spans = Spans(Interval(low, high), Interval(tail_low, tail_high))
    return CoverageRow(spans if row_era == era else Spans(), max_high, lowest, open_count)


def as_coverage(row: CoverageRow) -> Coverage:
    """Return what planning sees of a coverage row.

    A unit that never succeeded has no largest high; its smallest partition start stands there.
    """
    main = row.spans.main
    known_high = row.lowest if row.max_high is None else row.max_high
    if main.is_empty:
        return Coverage(row.lowest, row.lowest, known_high, row.open_count)
    return Coverage(main.low, main.high, known_high, row.open_count)


def _merged(known: UnitRow | None, outcome: WorkUnitOutcome) -> UnitRow:
    """Return the row after an outcome: a success is never lowered, a failure keeps it.

    A work unit that failed stays failed until a success reaches the end that it failed to reach:
    a shorter reading must not hide what is still missing behind it.
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


def _note(changes: UnitChanges, known: _Known | None, row: UnitRow) -> None:
    if known is not None:
        changes.count(known.row.status, -1)
        if row.signature not in changes.rows:
            changes.replaced[row.signature] = known.row_hash
    changes.count(row.status, +1)
    changes.rows[row.signature] = row


def _larger(one: int | None, other: int | None) -> int | None:
    known = [value for value in (one, other) if value is not None]
    return max(known, default=None)
