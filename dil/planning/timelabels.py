"""Timelabels of partitions, and partitions of closed timelabels (rules T11 to T13 and T32)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from msgspec import UNSET, UnsetType

from dil.model.closed_labels import ClosedLabels
from dil.model.interval import Interval
from dil.model.timelabels import AfterClose, TimelabelSpec
from dil.model.work_unit import PlannedClosedLabels
from dil.planning.partitions import Partitions
from dil.planning.unit_history import UnitView
from dil.text.windows import Windows, label_text, windows_of


@dataclass(frozen=True, slots=True)
class Labels:
    """Gives partitions their labels; pickles.

    A partition inside one window has the window's label; a partition that touches several windows
    has the label of the last window. If the spec has a unit in place of a schedule, the window of
    the partition's low decides. If work units have no time, all have the label of the run's window
    (rules T9 to T13).
    """

    spec: TimelabelSpec
    windows: Windows
    now_ms: int

    def __call__(self, partition: Interval) -> str:
        """Return the label of a nominal partition, whose low is not moved by the grace period.

        Raises:
            PlanningError: the partition lies outside of the years 2 to 9998.
        """
        return label_text(self.window(partition).low)

    def window(self, partition: Interval) -> Interval:
        """Return the window whose label a nominal partition has.

        Raises:
            PlanningError: the partition lies outside of the years 2 to 9998.
        """
        if not self.spec.is_dated:
            return self.windows.of_run(self.now_ms)
        return self.windows.at(partition.low if self.by_low else partition.high - 1)

    @property
    def by_low(self) -> bool:
        """Return whether the partition's low decides the label, and not its end."""
        return self.spec.unit is not None


def timelabels(spec: TimelabelSpec, now_ms: int) -> Labels:
    """Return the labels of a job's partitions; windows are computed when first needed, and kept.

    Args:
        spec: The parsed ``ms.timelabel.*`` properties.
        now_ms: The run's one value of now, epoch ms UTC.
    """
    return Labels(spec, windows_of(spec), now_ms)


def label_at(spec: TimelabelSpec) -> Callable[[int], str]:
    """Return the function that labels an instant in epoch ms UTC, such as the time of a row.

    The function raises PlanningError outside of the years 2 to 9998.
    """
    windows = windows_of(spec)
    return lambda ms: label_text(windows.at(ms).low)


@dataclass(frozen=True, slots=True)
class ClosedPartitions:
    """The closed timelabels, and the labels of partitions."""

    closed: ClosedLabels
    of: Labels

    def without_closed(
        self, views: Sequence[UnitView], partitions: Partitions
    ) -> tuple[Sequence[UnitView], list[list[int]]]:
        """Leave out partitions of closed labels, if rows for such labels are rejected.

        Return the views without the partitions that were left out, and, for each view, the indices
        of the partitions that were left out. If closed labels are reopened, or rows for them go
        beside the dataset, nothing is left out.
        """
        if self.of.spec.after_close is not AfterClose.REJECT:
            return views, []
        left, gone = [], []
        for view in views:
            closed = {
                index
                for index in (*view.regular, *view.retries)
                if self._is_closed(partitions[index])
            }
            gone.append(sorted(closed))
            if closed:
                view = replace(  # noqa: PLW2901 - the view of the same unit
                    view,
                    regular=[index for index in view.regular if index not in closed],
                    retries=[index for index in view.retries if index not in closed],
                )
            left.append(view)
        return left, gone

    def planned(
        self, partitions: Partitions, left: Sequence[Sequence[int]], taken: Iterable[int]
    ) -> PlannedClosedLabels | UnsetType:
        """Return the closed labels that a plan reads or leaves out; unset if there are none.

        Args:
            partitions: The partitions of the plan.
            left: The indices of the partitions that are left out, by unit.
            taken: The indices of the partitions that are read.
        """
        after = self.of.spec.after_close
        read = () if after is AfterClose.REJECT else self._labels_of(partitions, taken)
        found = PlannedClosedLabels(
            sum(map(len, left)),
            self._labels_of(partitions, chain(*left)),
            reopens=read if after is AfterClose.REOPEN else (),
            beside=read if after is AfterClose.SIDE_TABLE else (),
        )
        return UNSET if found == PlannedClosedLabels() else found

    def _labels_of(self, partitions: Partitions, indices: Iterable[int]) -> tuple[str, ...]:
        """Return the closed labels of partitions, in order of time."""
        return tuple(
            sorted({label for index in set(indices) for label in self._labels(partitions[index])})
        )

    def _is_closed(self, partition: Interval) -> bool:
        """Return whether all rows of a partition are of closed labels."""
        if self.of.spec.column:
            return self.closed.is_closed(partition)
        return self.closed.is_closed(self.of.window(partition))

    def _labels(self, partition: Interval) -> Iterator[str]:
        if not self.of.spec.column:
            window = self.of.window(partition)
            if self.closed.is_closed(window):
                yield label_text(window.low)
            return
        low = partition.low
        while low < partition.high:
            window = self.of.windows.at(low)
            if self.closed.is_closed(window):
                yield label_text(window.low)
            low = window.high
