"""The schedule that labels the work units of a job."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# The columns in the names of a timelabel's folders (rule T17).
LABEL_FIELDS = ("y", "m", "d", "h", "n")


def label_folder(label: str) -> str:
    """Return the lake folder of a label of 14 digits (rule T17)."""
    return f"y={label[:4]}/m={label[4:6]}/d={label[6:8]}/h={label[8:10]}/n={label[10:12]}"


class LabelUnit(StrEnum):
    """``ms.timelabel.unit``: the calendar unit whose start is the label (rule T9)."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


class LabelClosing(StrEnum):
    """``ms.timelabel.close``: who closes a timelabel (rule T30)."""

    NEVER = "never"
    AUTO = "auto"
    MANUAL = "manual"


class AfterClose(StrEnum):
    """``ms.late.after.close``: what happens to rows for a closed timelabel (rule T32)."""

    SIDE_TABLE = "side_table"
    REOPEN = "reopen"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class EarlierSchedule:
    """An earlier schedule, which cut time into windows until an instant, epoch ms UTC."""

    schedule: str = ""
    every_ms: int = 0
    unit: LabelUnit | None = None
    zone: str = "UTC"
    until: int = 0


@dataclass(frozen=True, slots=True)
class TimelabelSpec:
    """The settings of ``ms.timelabel.*``; one of ``schedule``, ``every_ms`` and ``unit`` is set.

    ``schedule`` is a valid cron expression. ``every_ms`` is a number of whole minutes. ``zone`` is
    the zone of schedule and unit, in a form that ``find_zone`` accepts. ``is_dated`` says that work
    units have a time; if not, all have the label of their run. ``column`` names the column whose
    time labels each row, empty if none is named. If ``splits`` is true, work units are cut at the
    ends of windows. If ``catches_up`` is false, windows in which no run took place are left out. If
    ``first_period`` is true, the time before the first run's window is left out. ``closing`` says
    who closes labels, ``after_close`` what happens to rows for a closed label. ``earlier`` are the
    schedules before this one, oldest first; this schedule begins at the end of the last of them.
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
    closing: LabelClosing = LabelClosing.NEVER
    after_close: AfterClose = AfterClose.SIDE_TABLE
    earlier: tuple[EarlierSchedule, ...] = ()

    @property
    def closes(self) -> bool:
        """Return whether timelabels of the job are closed."""
        return self.closing is not LabelClosing.NEVER

    @property
    def leaves_out(self) -> bool:
        """Return whether runs leave out past windows."""
        return self.is_dated and (self.first_period or not self.catches_up)
