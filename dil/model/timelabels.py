"""Which schedule names the work units of a job."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

_FOLDER = "y={}/m={}/d={}/h={}/n={}"
_SLICES = (slice(0, 4), slice(4, 6), slice(6, 8), slice(8, 10), slice(10, 12))


def label_folder(label: str) -> str:
    """Return the lake folder of a label of 14 digits (timelabels.md 5.8)."""
    return _FOLDER.format(*(label[part] for part in _SLICES))


class LabelUnit(StrEnum):
    """``ms.timelabel.unit``: the calendar unit whose start is the label (timelabels.md 2.10)."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class TimelabelSpec:
    """What ``ms.timelabel.*`` says; one of ``schedule``, ``every_ms`` and ``unit`` is set.

    ``schedule`` is a cron expression that can be read. ``every_ms`` is a number of whole minutes.
    ``zone`` is where schedule and unit are evaluated, in a form that ``find_zone`` accepts.
    ``is_dated`` tells that work units have a time; without one all have the label of their run.
    ``column`` is the one by whose time each row is labelled, empty where none is named.
    ``splits`` cuts work units where windows end. ``catches_up`` False leaves out windows that no
    run was there for, ``first_period`` what is older than the first run's window.
    """

    schedule: str = ""
    every_ms: int = 0
    unit: LabelUnit | None = None
    zone: str = "UTC"
    is_dated: bool = True
    column: str = ""
    splits: bool = False
    catches_up: bool = True
    first_period: bool = False

    @property
    def leaves_out(self) -> bool:
        """Return whether runs leave out windows of the past."""
        return self.is_dated and (self.first_period or not self.catches_up)
