"""Rechecks the tables that a store has beside its blocks; runs and planning trust these tables.

Coverage decides which time is never read again, and a file's offset decides which job's file it is.
Both come from the blocks and the work-unit index, so each row can be computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dil.state.blocks.canonical import key_hash
from dil.state.blocks.source_state import FAILED, UnitRow
from dil.state.databases import sql
from dil.state.databases.database import Transaction
from dil.state.runs import run_rows
from dil.state.work_units.signatures import parts_of_signature
from dil.state.work_units.unit_rows import read_coverage, tile_end


def table_problems(tables: Transaction, job: str, live: Mapping[str, int | None]) -> Iterator[str]:
    """Yield contradictions in the tables of a job.

    Args:
        tables: A transaction of one point in time.
        job: The job of the tables.
        live: The first offsets of the live files by URI, according to the chain.
    """
    yield from _wrong_units(tables, job)
    for run_id, sequence in tables.rows(sql.RUNS_WITHOUT_BLOCK, job, job):
        yield f"run {run_id} was committed by block {sequence}, which no longer exists"
    offsets: dict[str, int | None] = dict(tables.rows(sql.FILE_OFFSETS, job))
    for uri, offset in offsets.items():
        if uri not in live:
            yield f"live file {uri} is in the index and not in the chain"
        elif offset != live[uri]:
            yield f"live file {uri} begins at {offset} by the index and at {live[uri]} by the chain"
    missing = len(live.keys() - offsets.keys())
    if offsets and missing:  # files of a derived dataset are never removed, so they have no offsets
        yield f"live files of the chain that are not in the index: {missing}"


def _wrong_units(tables: Transaction, job: str) -> Iterator[str]:
    """Yield rows that contradict their keys, and units whose coverage contradicts their rows."""
    era = run_rows.read_counters(tables, job).era
    of_unit: dict[str, list[tuple[UnitRow, int]]] = {}
    for sha, unit, stored_hash, row_era, *values in tables.rows(sql.UNIT_CHECKS, job):
        row = UnitRow(*values)
        parts = parts_of_signature(row.signature)
        # Only imports have signatures of another form.
        expected = unit if parts is None else key_hash(parts.unit_key)
        if (sha, unit, stored_hash) != (key_hash(row.signature), expected, row.hash):
            yield f"V22: the index row of work unit {row.signature} does not fit its own keys"
        of_unit.setdefault(unit, []).append((row, row_era))
    covered = {unit for (unit,) in tables.rows(sql.COVERED_UNITS, job)}
    for unit in sorted(covered | of_unit.keys()):
        rows = of_unit.get(unit, [])
        why = _wrong_coverage(tables, job, unit, rows, era)
        if why:
            name = rows[0][0].signature if rows else unit
            yield f"V22: coverage of the unit of {name} does not fit the index: {why}"


def _wrong_coverage(
    tables: Transaction, job: str, unit: str, rows: list[tuple[UnitRow, int]], era: int
) -> str:
    found = read_coverage(tables, job, unit, era)
    if not rows:
        return "its coverage row is missing"
    if found is None:
        is_read = any(tile_end(row) is not None or row.status == FAILED for row, _ in rows)
        return "its coverage row is missing" if is_read else ""
    ends = {row.low: tile_end(row) for row, row_era in rows if row_era == era}
    for span in (found.spans.main, found.spans.tail):
        place: int | None = span.low
        while place is not None and place < span.high:
            place = ends.get(place)
        if not span.is_empty and place != span.high:
            return f"{span.low} to {span.high} is recorded as read, but is not"
    highs = [row.high for row, _ in rows if row.high is not None]
    marks = (max(highs, default=None), sum(row.status == FAILED for row, _ in rows))
    if marks != (found.max_high, found.open_count):
        return f"its highest watermark and open work units are {marks}"
    return ""
