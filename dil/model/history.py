"""The records of earlier runs that planning looks up; planning never reads all records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dil.model.interval import Interval
from dil.model.work_unit import WorkUnit


@dataclass(frozen=True, slots=True)
class UnitRecord:
    """The last known outcome of one work unit; times are epoch ms UTC.

    ``low`` is the nominal partition start. ``high`` is the last successful high watermark; None, or
    equal to ``low``, means that the work unit never succeeded. ``failed`` says that the last
    attempt failed, even if an earlier one succeeded. ``owed`` is the partition end that this
    attempt failed to reach: a partition of another grid that ends earlier cannot make up for it.
    ``skipped`` says that no run reads the work unit, because no run took place in its time (rule
    T14).
    """

    signature: str
    low: int
    high: int | None
    failed: bool = False
    attempts: int = 0
    owed: int | None = None
    skipped: bool = False

    @property
    def succeeded_once(self) -> bool:
        """Return whether a successful high watermark is known."""
        return self.high is not None and self.high > self.low


@dataclass(frozen=True, slots=True)
class Coverage:
    """The summary of one unit over all its partitions, in one row (rule P34).

    Every nominal partition start in ``[covered_from, covered_to)`` has a successful record.
    ``max_high`` is the largest successful high, or the smallest partition start if nothing
    succeeded yet. ``open_count`` is the number of records whose last attempt failed or that never
    succeeded. A skipped work unit counts as covered.
    """

    covered_from: int
    covered_to: int
    max_high: int
    open_count: int


@dataclass(frozen=True, slots=True)
class UnitStretches:
    """The records of one unit as stretches of time, ascending, with gaps between them.

    ``read`` stretches were read and published, ``failed`` stretches are the parts that failed
    records did not reach, and ``skipped`` stretches are left out for good. The three may overlap if
    the partitions of the job have changed. ``newest`` is the success with the largest high, as the
    stretch from its partition's start up to this high. It is None if nothing succeeded, or if the
    work unit of this success failed since.
    """

    unit_key: str
    read: Sequence[Interval] = ()
    failed: Sequence[Interval] = ()
    skipped: Sequence[Interval] = ()
    newest: Interval | None = None


@dataclass(frozen=True, slots=True)
class PastRuns:
    """The instants for which runs planned, epoch ms UTC (rule T14).

    ``committed`` is the planning time of the newest run that published or had nothing to publish,
    None if no such run is known. ``open`` are the planning times of later runs, which are not
    committed.
    """

    committed: int | None = None
    open: tuple[int, ...] = ()


class History(Protocol):
    """Lookups that cost O(units + due), never O(history).

    ``unit_key`` is ``<unit watermark name>.<unit JSON>``, the second half of a signature.
    """

    def is_empty(self) -> bool:
        """Return whether the job has no record of any work unit."""

    def has_succeeded(self) -> bool:
        """Return whether any work unit of the job succeeded once."""

    def lowest(self) -> int | None:
        """Return the earliest partition start, epoch ms UTC, of any unit that was ever recorded."""

    def coverage(self, unit_key: str) -> Coverage | None:
        """Return the unit's coverage row; None if the unit has no record."""

    def records(self, unit_key: str, low: int, high: int) -> Mapping[str, UnitRecord]:
        """Return, by signature, the unit's records with a partition start in ``[low, high)``."""

    def open_records(self, unit_key: str) -> Mapping[str, UnitRecord]:
        """Return, by signature, the records whose last attempt failed or that never succeeded."""


def record_of(unit: WorkUnit, history: History) -> UnitRecord | None:
    """Return the record of a work unit, None if no run has recorded it."""
    low = unit.partition.low
    return history.records(unit.unit_key, low, low + 1).get(unit.signature)
