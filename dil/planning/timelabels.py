"""Timelabels: the schedule period that a work unit's data belongs to (rules T11 to T13)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dil.model.interval import Interval
from dil.model.timelabels import TimelabelSpec
from dil.text.windows import Windows, label_text, windows_of

__all__ = ["Labels", "label_at", "label_text", "timelabels", "windows_of"]


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


def timelabels(spec: TimelabelSpec, now_ms: int) -> Callable[[Interval], str]:
    """Return the function that gives a partition its label; see ``Labels``.

    Windows are computed when they are first needed, and kept.

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
