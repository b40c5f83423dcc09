"""What planning knows of one unit's partitions, looked up at a cost of what is due."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import merge

from dil.model.history import Coverage, History, UnitRecord
from dil.model.work_unit import unit_key
from dil.planning.cutoff import CutoffRule, Decision
from dil.planning.partitions import Partitions


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of a plan: its JSON, and the names that its signatures hold."""

    number: int
    json: str
    name: str
    datetime_name: str

    @property
    def key(self) -> str:
        """Return the second half of the unit's signatures."""
        return unit_key(self.name, self.json)

    def signature(self, start: int) -> str:
        """Return the signature of the partition that starts there (B5.4)."""
        return f"[watermark.{self.datetime_name}.{start}, watermark.{self.key}]"


@dataclass(frozen=True, slots=True)
class UnitHistory:
    """Decisions for one unit, by partition index.

    ``decisions`` are those of partitions with a known record. Partitions in ``settled`` succeeded
    and are not due; they were not looked up. All others have no record and are due as new.
    """

    records: Mapping[int, UnitRecord]
    decisions: Mapping[int, Decision]
    settled: range
    overall: int | None
    partitions: int

    def fresh(self) -> Iterator[int]:
        """Yield the partitions without a record, ascending."""
        for part in (range(self.settled.start), range(self.settled.stop, self.partitions)):
            for index in part:
                if index not in self.decisions:
                    yield index

    def fresh_count(self) -> int:
        """Return how many partitions have no record, without walking them."""
        known = sum(index not in self.settled for index in self.decisions)
        return self.partitions - len(self.settled) - known

    def has_first_reading(self) -> bool:
        """Tell whether a partition is due that was never tried, or never read by its record."""
        return self.fresh_count() > 0 or any(
            _is_due(made) and not made.waits and made.cutoff is None
            for made in self.decisions.values()
        )

    def due(self) -> Iterator[int]:
        """Yield the partitions that are due and did not fail last, ascending."""
        regular = sorted(
            i for i, made in self.decisions.items() if _is_due(made) and not made.waits
        )
        return merge(self.fresh(), regular)

    def due_count(self) -> int:
        """Return how many partitions ``due`` yields."""
        regular = sum(_is_due(made) and not made.waits for made in self.decisions.values())
        return self.fresh_count() + regular

    def retries(self) -> Iterator[int]:
        """Yield the due partitions whose last attempt failed."""
        return (index for index, made in self.decisions.items() if _is_due(made) and made.waits)


def without_history(partitions: Partitions) -> UnitHistory:
    """Return the view of a unit whose records do not count: all partitions are due."""
    return UnitHistory({}, {}, range(0), None, len(partitions))


def look_up(
    history: History, unit: Unit, partitions: Partitions, rule: CutoffRule, *, fully: bool = False
) -> UnitHistory:
    """Return the decisions for one unit's partitions.

    Records count only where they are of a planned signature (spec README 23). With a coverage row
    and ``fully`` off, covered partitions that end at or before the unit's cutoff are not looked
    up; the result is the same.
    """
    coverage = history.coverage(unit.key)
    if coverage is None or not partitions:
        return without_history(partitions)
    lookup = _Lookup(history, unit, partitions)
    settled = range(0) if fully else _settled(coverage, partitions, rule)
    records = lookup.around(settled, coverage) if settled else {}
    # The newest success must be one of ours, else the row speaks of other partitions as well.
    if not any(record.high == coverage.max_high for record in records.values()):
        settled = range(0)
        records = lookup.planned(0, len(partitions))
    overall = rule.overall(records.values())
    decisions = {
        index: rule.decide(partitions[index], record, overall) for index, record in records.items()
    }
    return UnitHistory(records, decisions, settled, overall, len(partitions))


def _settled(coverage: Coverage, partitions: Partitions, rule: CutoffRule) -> range:
    """Return which covered partitions end at or before the cutoff that the row promises."""
    first = bisect_left(partitions.starts, coverage.covered_from)
    # By their ends: a stretch that ends inside a partition says nothing of its rest.
    end = bisect_right(partitions.ends, coverage.covered_to)
    below = bisect_right(partitions.ends, coverage.max_high + rule.shift_ms)
    return range(first, max(first, min(end, below)))


@dataclass(frozen=True, slots=True)
class _Lookup:
    """Reads records of planned signatures, by partition index."""

    history: History
    unit: Unit
    partitions: Partitions

    def around(self, settled: range, coverage: Coverage) -> dict[int, UnitRecord]:
        """Return the records outside ``settled``, the newest success, and all open ones."""
        newest = bisect_left(self.partitions.starts, coverage.max_high) - 1
        tail = min(settled.stop, max(newest, settled.start))
        records = self.planned(0, settled.start) | self.planned(tail, len(self.partitions))
        if coverage.open_count:
            records |= self._indexed(self.history.open_records(self.unit.key))
        return records

    def planned(self, first: int, end: int) -> dict[int, UnitRecord]:
        """Return the records of the partitions with these indices."""
        if first >= end:
            return {}
        low, high = self.partitions.starts[first], self.partitions.starts[end - 1] + 1
        return self._indexed(self.history.records(self.unit.key, low, high))

    def _indexed(self, found: Mapping[str, UnitRecord]) -> dict[int, UnitRecord]:
        starts = self.partitions.starts
        indexed = {}
        for signature, record in found.items():
            index = bisect_left(starts, record.low)
            if index < len(starts) and signature == self.unit.signature(starts[index]):
                indexed[index] = record
        return indexed


def _is_due(decision: Decision) -> bool:
    return decision.low is not None
