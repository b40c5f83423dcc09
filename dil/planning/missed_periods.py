"""Which periods of the past a run leaves out: those before the first run, and those it missed.

See rules T14 and T15. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dil.model.history import Attendance
from dil.model.interval import Interval
from dil.model.job import PlanningSpec
from dil.model.timelabels import TimelabelSpec
from dil.planning.partitions import Partitions, partition
from dil.planning.timelabels import Labels, windows_of
from dil.planning.unit_history import UnitHistory


@dataclass(frozen=True, slots=True)
class _LabelGrid:
    """Partitions and the windows whose labels they have; both ascend."""

    partitions: Partitions
    labels: Labels

    def first_from(self, ms: int) -> int:
        """Return the index of the first partition labelled by a window that starts at ms or later.

        ``ms`` is where a window starts or ends.
        """
        if self.labels.by_low:
            return bisect_left(self.partitions.starts, ms)
        return bisect_right(self.partitions.ends, ms)

    def latest(self) -> Interval | None:
        """Return the window of the newest label that the run is for, None where it has none.

        It is the run's, or where the range ends before that the newest that has partitions.
        """
        end = self.labels.windows.of_run(self.labels.now_ms).high
        index = self.first_from(end) - 1
        return self.labels.window(self.partitions[index]) if index >= 0 else None


@dataclass(frozen=True, slots=True)
class MissedPeriods:
    """Says which partitions a run leaves out; see ``missed_periods``."""

    spec: PlanningSpec
    labels: TimelabelSpec
    grid: _LabelGrid
    attendance: Attendance

    @property
    def partitions(self) -> Partitions:
        """Return the partitions that are left."""
        return self.grid.partitions

    def after_first_run(self, lowest: Callable[[], int | None]) -> MissedPeriods:
        """Leave out partitions older than the period of the first run.

        Args:
            lowest: Returns the earliest partition start that was ever recorded. Without one, this
                is the first run, or those before it failed: the earliest of their periods counts.
        """
        if not self.labels.first_period:
            return self
        start = lowest()
        if start is not None:
            first = bisect_left(self.partitions.starts, start)
        else:
            windows = [self.grid.latest(), *map(self._latest_at, self.attendance.open)]
            first = min((self.grid.first_from(each.low) for each in windows if each), default=0)
        return replace(self, grid=replace(self.grid, partitions=self.partitions.from_index(first)))

    def skip_missed(
        self, views: Sequence[UnitHistory], shift_ms: int
    ) -> tuple[Sequence[UnitHistory], list[int]]:
        """Return the units' views without what they missed, and its places in the matrix.

        A partition is missed if its period is over, no run took place in it, and none tried it.
        Nothing is missed before the first run.

        Args:
            views: The known and the due partitions, by unit.
            shift_ms: Abstinent minus grace period.
        """
        if self.labels.catches_up:
            return views, []
        reached = [view.overall - shift_ms for view in views if view.overall is not None]
        missed = self._missed(max(reached, default=None))
        if not missed:
            return views, []
        left, places = [], []
        for number, view in enumerate(views):
            gone = _untried(view, missed)
            left.append(_without(view, gone))
            places += [index * len(views) + number for index in gone]
        return left, sorted(places)

    def _missed(self, newest: int | None) -> Sequence[int]:
        """Return the indices of partitions whose period is over, and no run was there for."""
        latest, attended = self.grid.latest(), self._attended_until(newest)
        if latest is None or attended is None:
            return ()
        found = set(range(self.grid.first_from(attended), self.grid.first_from(latest.low)))
        if found:
            for window in filter(None, map(self._latest_at, self.attendance.open)):
                first, end = map(self.grid.first_from, (window.low, window.high))
                found.difference_update(range(first, end))
        return sorted(found)

    def _attended_until(self, newest: int | None) -> int | None:
        """Return the end of the window of the newest run that published; None before the first.

        Where no run is known, it is that of the newest high.
        """
        if self.attendance.committed is not None:
            window = self._latest_at(self.attendance.committed)
            return None if window is None else window.high
        return None if newest is None else self.grid.labels.windows.at(newest - 1).high

    def _latest_at(self, now_ms: int) -> Interval | None:
        """Return the window that a run at another instant was for."""
        labels = replace(self.grid.labels, now_ms=now_ms)
        return _LabelGrid(partition(self.spec, now_ms=now_ms), labels).latest()


def missed_periods(
    spec: PlanningSpec,
    labels: TimelabelSpec,
    partitions: Partitions,
    now_ms: int,
    attendance: Attendance | None,
) -> MissedPeriods:
    """Return the function that says which partitions a run at ``now_ms`` (epoch ms UTC) leaves out.

    ``attendance`` is None if nothing is known about runs.
    """
    grid = _LabelGrid(partitions, Labels(labels, windows_of(labels), now_ms))
    return MissedPeriods(spec, labels, grid, attendance or Attendance())


def _untried(view: UnitHistory, indices: Sequence[int]) -> list[int]:
    """Return those of the partitions that would be due and have no record."""
    due = view.regular if isinstance(view.regular, range) else frozenset(view.regular)
    return [
        index
        for index in indices
        if index in due and index not in view.highs and index not in view.open
    ]


def _without(view: UnitHistory, gone: Sequence[int]) -> UnitHistory:
    if not gone:
        return view
    return replace(view, regular=sorted(set(view.regular).difference(gone)))
