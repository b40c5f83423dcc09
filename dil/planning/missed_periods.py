"""Finds the past periods that a run leaves out: before the first run, and missed periods.

See rules T14 and T15. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dil.model.history import PastRuns
from dil.model.interval import Interval
from dil.model.job import PlanningSpec
from dil.model.timelabels import TimelabelSpec
from dil.planning.partitions import Partitions, partition
from dil.planning.timelabels import Labels, timelabels
from dil.planning.unit_history import UnitView


@dataclass(frozen=True, slots=True)
class _LabelGrid:
    """Partitions and the windows of their labels, both ascending."""

    partitions: Partitions
    labels: Labels

    def first_from(self, ms: int) -> int:
        """Return the index of the first partition whose label's window starts at ``ms`` or later.

        ``ms`` is a start or an end of a window, epoch ms UTC.
        """
        if self.labels.by_low:
            return bisect_left(self.partitions.starts, ms)
        return bisect_right(self.partitions.ends, ms)

    def latest(self) -> Interval | None:
        """Return the window of the run's newest label, None if there is none.

        It is the window that the run's now is in. If the range ends before this window, it is the
        newest window that has partitions.
        """
        end = self.labels.windows.of_run(self.labels.now_ms).high
        index = self.first_from(end) - 1
        return self.labels.window(self.partitions[index]) if index >= 0 else None


@dataclass(frozen=True, slots=True)
class MissedPeriods:
    """Decides which partitions a run leaves out; see ``missed_periods``."""

    spec: PlanningSpec
    labels: TimelabelSpec
    grid: _LabelGrid
    past_runs: PastRuns

    @property
    def partitions(self) -> Partitions:
        """Return the remaining partitions."""
        return self.grid.partitions

    def after_first_run(self, lowest: Callable[[], int | None]) -> MissedPeriods:
        """Leave out partitions older than the period of the first run.

        Args:
            lowest: Returns the earliest recorded partition start. None means that this is the first
                run, or that all earlier runs failed: then the earliest period of these runs counts.
        """
        if not self.labels.first_period:
            return self
        start = lowest()
        if start is not None:
            first = bisect_left(self.partitions.starts, start)
        else:
            windows = [self.grid.latest(), *map(self._latest_at, self.past_runs.open)]
            first = min((self.grid.first_from(each.low) for each in windows if each), default=0)
        return replace(self, grid=replace(self.grid, partitions=self.partitions.from_index(first)))

    def skip_missed(
        self, views: Sequence[UnitView], shift_ms: int
    ) -> tuple[Sequence[UnitView], list[int]]:
        """Return the views without missed partitions, and the matrix places of these partitions.

        A partition is missed if its period is over without a run, and no run has tried it.
        Nothing is missed before the first run.

        Args:
            views: The known and the due partitions, by unit.
            shift_ms: The abstinent period minus the grace period.
        """
        if self.labels.catches_up:
            return views, []
        reached = [view.overall - shift_ms for view in views if view.overall is not None]
        missed = self._missed(max(reached, default=None))
        if not missed:
            return views, []
        left, places = [], []
        for number, view in enumerate(views):
            due = view.regular if isinstance(view.regular, range) else frozenset(view.regular)
            gone = [
                index
                for index in missed
                if index in due and index not in view.highs and index not in view.open
            ]
            if gone:
                left.append(replace(view, regular=sorted(set(view.regular).difference(gone))))
            else:
                left.append(view)
            places += [index * len(views) + number for index in gone]
        return left, sorted(places)

    def _missed(self, newest: int | None) -> Sequence[int]:
        """Return the indices of partitions whose period is over without a run.

        Periods count from the end of the window of the newest run that published. If no run is
        known, they count from the end of the window of the newest high.
        """
        latest = self.grid.latest()
        if self.past_runs.committed is not None:
            window = self._latest_at(self.past_runs.committed)
            covered = None if window is None else window.high
        else:
            covered = None if newest is None else self.grid.labels.windows.at(newest - 1).high
        if latest is None or covered is None:
            return ()
        found = set(range(self.grid.first_from(covered), self.grid.first_from(latest.low)))
        if found:
            for window in filter(None, map(self._latest_at, self.past_runs.open)):
                first, end = map(self.grid.first_from, (window.low, window.high))
                found.difference_update(range(first, end))
        return sorted(found)

    def _latest_at(self, now_ms: int) -> Interval | None:
        """Return the window that a run at an instant, epoch ms UTC, was for."""
        labels = replace(self.grid.labels, now_ms=now_ms)
        return _LabelGrid(partition(self.spec, now_ms=now_ms), labels).latest()


def missed_periods(
    spec: PlanningSpec,
    labels: TimelabelSpec,
    partitions: Partitions,
    now_ms: int,
    past_runs: PastRuns | None,
) -> MissedPeriods:
    """Return the rule for the partitions that a run at ``now_ms`` (epoch ms UTC) leaves out.

    ``past_runs`` is None if nothing is known about runs.
    """
    grid = _LabelGrid(partitions, timelabels(labels, now_ms))
    return MissedPeriods(spec, labels, grid, past_runs or PastRuns())
