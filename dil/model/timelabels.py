"""Which schedule names the work units of a job."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
    """

    schedule: str = ""
    every_ms: int = 0
    unit: LabelUnit | None = None
    zone: str = "UTC"
    is_dated: bool = True
