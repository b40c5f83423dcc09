"""The work-unit index while an operator's act changes it.

A run records its readings, but an act writes rows as the operator wants them: it may lower highs
and remove rows. Therefore the coverage of each changed unit is computed again from its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dil.errors import StateError
from dil.model.dataset import UnitEntry
from dil.model.interval import Interval
from dil.state.blocks.canonical import key_hash
from dil.state.blocks.source_state import FAILED, PENDING, SKIPPED, UnitRow, UnitSummary
from dil.state.databases import sql
from dil.state.databases.database import Row, Transaction
from dil.state.work_units.coverage import spans_of
from dil.state.work_units.signatures import parts_of_signature
from dil.state.work_units.unit_rows import (
    CoverageRow,
    StoredRow,
    UnitChanges,
    UnitIndex,
    lowest_open_of,
    read_row,
    write_coverage,
    write_row,
)

NO_ERA = -1  # a success of an unknown grid: it is a record, but never counts as covered


class AmendedIndex:
    """The index of one job inside one transaction; ``era`` is the era of the present shape."""

    def __init__(self, tx: Transaction, job: str, era: int) -> None:
        self._tx = tx
        self._job = job
        self._era = era
        self._was_empty = tx.row(sql.ANY_ROW, job) is None
        self._units: set[str] = set()

    def apply(self, chunk: Sequence[UnitEntry | str], sequence: int) -> UnitChanges:
        """Write rows as changed by the block ``sequence``, and remove the rows of given signatures.

        The act may change the files of a work unit, but not its row: then ``chunk`` has this
        row unchanged.
        """
        changes = UnitChanges()
        for each in chunk:
            if not isinstance(each, str):
                self._put(each, sequence, changes)
            elif (known := read_row(self._tx, self._job, each)) is not None:
                changes.remove(known)
                self._units.add(known.unit_key)
                self._tx.change(sql.DROP_UNIT, self._job, key_hash(each))
        return changes

    def count_coverage(self) -> None:
        """Compute the coverage of every changed unit again."""
        for unit in sorted(self._units):
            rows = [
                row for row in self._tx.rows(sql.ROWS_OF_UNIT, self._job, unit) if row[3] != PENDING
            ]
            if rows:
                row = _coverage_of(rows, self._era)
                write_coverage(self._tx, self._job, unit, row, self._era)
            else:
                self._tx.change(sql.DROP_COVERAGE, self._job, unit)

    def summary(self, before: UnitSummary, changes: UnitChanges, *, is_last: bool) -> UnitSummary:
        """Return the summary after a chunk; the last chunk's marks cover the whole index."""
        after = UnitIndex(self._tx, self._job, self._era).summary(before, changes)
        if not is_last or after == before:
            return after
        row = self._tx.row(sql.LARGEST_HIGH, self._job)
        largest = None if row is None else row[0]
        lowest_open = lowest_open_of(self._tx, self._job)
        return replace(
            after, max_high=largest, frontier=largest if lowest_open is None else lowest_open
        )

    def _put(self, entry: UnitEntry, sequence: int, changes: UnitChanges) -> None:
        row = UnitRow(
            entry.signature, entry.low, entry.expected_high, entry.high, entry.status,
            entry.attempts,
        )  # fmt: skip
        # A first import has a million rows, so it does not look up any of them.
        known = None if self._was_empty else read_row(self._tx, self._job, entry.signature)
        changes.put(row, known)
        unit = known.unit_key if known else _unit_hash(entry.signature)
        self._units.add(unit)
        label = known.timelabel if known else None
        stored = StoredRow(row, row.hash, self._era_of(entry, known), unit, label)
        write_row(self._tx, self._job, stored, sequence, is_new=known is None)

    def _era_of(self, entry: UnitEntry, known: StoredRow | None) -> int:
        """Return the number of the era of the success in a row.

        A row that loses its success keeps the era, so that undoing it is exact. If the end of its
        success changes, the row is a tile of the present grid only if the operator's entry says so.
        """
        if known is not None:
            is_same_end = entry.expected_high == known.row.expected_high
            if entry.high is None or (is_same_end and known.row.high in (None, entry.high)):
                return known.era
        return self._era if entry.is_on_grid else NO_ERA


def _unit_hash(signature: str) -> str:
    """Return the hash of the unit key in a signature.

    Raises:
        StateError: the text is not a signature.
    """
    parts = parts_of_signature(signature)
    if parts is None:
        raise StateError(
            f"{signature} is not the signature of a work unit",
            "Signatures read [watermark.<name>.<start>, watermark.<name>.<unit JSON>].",
        )
    return key_hash(parts.unit_key)


def _coverage_of(rows: Sequence[Row], era: int) -> CoverageRow:
    """Return the coverage row for one unit's rows, which are sorted by start."""
    highs = (row[1] for row in rows if row[1] is not None)
    return CoverageRow(
        spans=spans_of(_tiles(rows, era)),
        max_high=max(highs, default=None),
        lowest=rows[0][0],
        open_count=sum(row[3] == FAILED for row in rows),
    )


def _tiles(rows: Sequence[Row], era: int) -> Iterator[Interval]:
    for low, high, expected_high, status, row_era in rows:
        end = expected_high if status == SKIPPED else high
        if row_era == era and end is not None and end > low:
            yield Interval(low, min(end, expected_high))
