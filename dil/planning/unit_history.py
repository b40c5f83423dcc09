"""The records of each unit's partitions, from a state store or from a plain mapping.

The cost of looking them up in a store grows only with the due partitions.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from dil.model.history import Coverage, History, UnitRecord
from dil.model.work_unit import unit_key
from dil.planning.cutoff import CutoffRule, successful_high
from dil.planning.partitions import Partitions

# The last successful high in epoch ms UTC, or the whole record.
Known: TypeAlias = int | UnitRecord
_NONE = range(0)
# The partition start in "[watermark.NAME.START, watermark.UNIT.{...}]".
_START = re.compile(r"\.(-?[0-9]+), watermark\.")


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of a plan; its signatures are ``head``, the partition's start and ``tail``."""

    json: str
    name: str
    head: str
    tail: str

    @classmethod
    def of(cls, json: str, name: str, datetime_name: str) -> Unit:
        """Return the unit with this JSON under the names of the two watermarks."""
        tail = f", watermark.{unit_key(name, json)}]"
        return cls(json, name, f"[watermark.{datetime_name}.", tail)

    @property
    def key(self) -> str:
        """Return the second half of the unit's signatures."""
        return unit_key(self.name, self.json)

    def signature(self, start: int) -> str:
        """Return the signature of the partition with this start, epoch ms UTC (rule P17)."""
        return f"{self.head}{start}{self.tail}"


@dataclass(frozen=True, slots=True)
class UnitView:
    """One unit in a plan: its records and its due partitions, by ascending partition index.

    ``highs`` has the highs of partitions whose last attempt succeeded; ``open`` has the records of
    partitions that failed last or never succeeded. Partitions in neither have no record, or are
    covered and not due. ``regular`` are the due partitions that did not fail last, ``retries`` are
    the due partitions that did. ``overall`` is the unit's cutoff O(u).
    """

    highs: Mapping[int, int]
    open: Mapping[int, UnitRecord]
    overall: int | None
    regular: Sequence[int]
    retries: Sequence[int]

    def record(self, index: int, partition_start: int) -> UnitRecord | None:
        """Return the record of a partition."""
        high = self.highs.get(index)
        if high is None:
            return self.open.get(index)
        return UnitRecord("", partition_start, high)

    def due_count(self) -> int:
        """Return how many partitions are due."""
        return len(self.regular) + len(self.retries)

    def has_first_reading(self) -> bool:
        """Return whether a due partition was never tried, or never read according to its record."""
        return any(index not in self.highs for index in self.regular)

    def not_due(self) -> list[int]:
        """Return the partitions with a record that are not due."""
        due = {*self.regular, *self.retries}
        return sorted(index for index in chain(self.highs, self.open) if index not in due)


def view_without_records(partitions: Partitions) -> UnitView:
    """Return the view of a unit whose records do not count: all partitions are due."""
    return UnitView({}, {}, None, range(len(partitions)), ())


def view_of_records(
    known: Mapping[int, Known],
    partitions: Partitions,
    rule: CutoffRule,
    settled: range = _NONE,
) -> UnitView:
    """Return the view of one unit with its due partitions, made of its known records by index.

    Partitions in ``settled`` succeeded and are not due; they need not be known.
    """
    highs: dict[int, int] = {}
    opened: dict[int, UnitRecord] = {}
    starts = partitions.starts
    for index, value in known.items():
        if isinstance(value, int):
            if value == starts[index]:
                opened[index] = UnitRecord("", value, None)
            else:
                highs[index] = value
        elif value.failed or (high := successful_high(value)) is None:
            opened[index] = value
        else:
            highs[index] = high
    overall = rule.overall(chain(highs.values(), map(successful_high, opened.values())))
    first = 0 if overall is None else rule.first_after(overall, partitions.ends)
    due = [
        index
        for index, record in opened.items()
        if rule.decide(partitions[index], record, overall).low is not None
    ]
    retries = sorted(index for index in due if opened[index].failed)
    regular: Sequence[int]
    if highs or opened or settled:
        unread = (
            index
            for index in chain(range(settled.start), range(settled.stop, len(partitions)))
            if (index >= first or index not in highs) and index not in opened
        )
        never_read = (index for index in due if not opened[index].failed)
        regular = sorted(chain(unread, never_read))
    else:
        regular = range(len(partitions))
    return UnitView(highs, opened, overall, regular, retries)


def load_view(
    history: History, unit: Unit, partitions: Partitions, rule: CutoffRule, *, fully: bool = False
) -> UnitView:
    """Return the view of one unit; the store's coverage row saves look-ups of settled partitions.

    Only records with a planned signature count (rule P18). If there is a coverage row, and
    ``fully`` is false, covered partitions that end at or before the unit's cutoff are not looked
    up; the result is the same.
    """
    coverage = history.coverage(unit.key)
    if coverage is None or not partitions:
        return view_without_records(partitions)
    is_ours = coverage.covered_from == partitions.starts[0] < coverage.covered_to
    was_read = is_ours and len(partitions) == 1 and not coverage.open_count
    # The row alone shows that a file was read: for many known files, this saves a look-up for each.
    if rule.once and not fully and was_read:
        return UnitView({}, {}, None, (), ())
    lookup = _Lookup(history, unit, partitions)
    settled = _NONE if fully else _settled(coverage, partitions, rule)
    records = lookup.around(settled, coverage) if settled else {}
    # If the newest success is no planned partition, the row also covers other partitions.
    if not any(record.high == coverage.max_high for record in records.values()):
        settled = _NONE
        records = lookup.planned(0, len(partitions))
    return view_of_records(records, partitions, rule, settled)


def _settled(coverage: Coverage, partitions: Partitions, rule: CutoffRule) -> range:
    """Return the covered partitions that end at or before the cutoff of the row."""
    first = bisect_left(partitions.starts, coverage.covered_from)
    # Their ends decide: a stretch that ends inside a partition does not cover its rest.
    end = bisect_right(partitions.ends, coverage.covered_to)
    below = rule.first_after(coverage.max_high + rule.shift_ms, partitions.ends)
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


class BareHistory:
    """High watermarks in epoch ms UTC, or whole records, by raw signature (rule P17).

    A high that equals the start of its partition means that the work unit never succeeded. A
    record, unlike a high, also says whether the last attempt failed. Signatures are not parsed:
    each planned signature is looked up, so that no name or unit can be mistaken for another.
    Records of signatures that are not planned do not count (rule P18).
    """

    def __init__(self, highs: Mapping[str, int | UnitRecord]) -> None:
        self._highs = highs

    def has_succeeded(self) -> bool:
        """Return whether any work unit succeeded once."""
        return any(_has_succeeded(signature, known) for signature, known in self._highs.items())

    def lowest(self, units: Sequence[Unit], starts: Sequence[int]) -> int | None:
        """Return the earliest of these starts that has a record; None if none has one."""
        found = (starts[index] for known in self.known(units, starts) for index in known)
        return min(found, default=None)

    def known(self, units: Sequence[Unit], starts: Sequence[int]) -> Iterator[dict[int, Known]]:
        """Yield, for each unit, the records of its partitions with these starts, by index.

        Signatures are compared unchanged. A signature that is not found is compared as a state
        store's keys spell it, with ``%2F`` for ``/`` (rule P17), unless this spelling could mean
        two units.
        """
        twofold = [unit for unit in units if "%2F" in _stored(unit.signature(0))]
        keys = Counter(_stored(unit.key) for unit in twofold)
        by_stored_key = {
            _stored(signature): known
            for signature, known in (self._highs.items() if twofold else ())
            if "%2F" in _stored(signature)
        }
        for unit in units:
            found = _found(self._highs, unit.head, unit.tail, starts)
            if keys[_stored(unit.key)] == 1:
                head, tail = _stored(unit.head), _stored(unit.tail)
                found = _found(by_stored_key, head, tail, starts) | found
            yield found


def _has_succeeded(signature: str, known: Known) -> bool:
    if not isinstance(known, int):
        return known.succeeded_once
    start = _START.search(signature)
    return start is None or known > int(start[1])


def _found(
    highs: Mapping[str, Known], head: str, tail: str, starts: Sequence[int]
) -> dict[int, Known]:
    get = highs.get
    return {
        index: known
        for index, start in enumerate(starts)
        if (known := get(f"{head}{start}{tail}")) is not None
    }


def _stored(signature: str) -> str:
    """Return a signature, or a part of one, as the stored key spells it (rule P17)."""
    return signature.replace("/", "%2F")
