"""Schedule periods: time cut into windows without gap or overlap (rules T1 to T10).

A window's label is its start in UTC, ``YYYYMMDDHHmm00``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache, partial
from typing import Protocol

from dil.errors import PlanningError
from dil.model.interval import DAY_MS, MINUTE_MS, Interval
from dil.model.timelabels import EarlierSchedule, LabelUnit, TimelabelSpec
from dil.text.cron import Cron, Level, first_instant, parse_cron
from dil.text.zones import EPOCH, MILLISECOND, find_zone, moment

_LABEL = re.compile(r"[0-9]{12}00")
_YEAR_MS = 366 * DAY_MS
# How much time is computed at once: some hundreds of windows, and more than one window.
_CHUNKS = {
    Level.MINUTE: DAY_MS,
    Level.HOUR: 32 * DAY_MS,
    Level.DAY: _YEAR_MS,
    Level.MONTH: 16 * _YEAR_MS,
    Level.YEAR: 64 * _YEAR_MS,
}
# At least the longest time between the start of a fire's period and the fire.
_LAGS = {
    Level.MINUTE: 0,
    Level.HOUR: DAY_MS,
    Level.DAY: 2 * DAY_MS,
    Level.MONTH: 33 * DAY_MS,
    Level.YEAR: _YEAR_MS + 2 * DAY_MS,
}
_FIRST_MS = (datetime(2, 1, 1, tzinfo=UTC) - EPOCH) // MILLISECOND
_LAST_MS = (datetime(9998, 12, 31, tzinfo=UTC) - EPOCH) // MILLISECOND
# The instants that a label can name.
_STARTS = range(
    (datetime.min.replace(tzinfo=UTC) - EPOCH) // MILLISECOND,
    (datetime.max.replace(tzinfo=UTC) - EPOCH) // MILLISECOND,
)
# The units as schedules, whose fires start the periods.
_UNITS = {
    LabelUnit.MINUTE: "* * * * *",
    LabelUnit.HOUR: "0 * * * *",
    LabelUnit.DAY: "0 0 * * *",
    LabelUnit.MONTH: "0 0 1 * *",
}


@lru_cache(maxsize=1024)
def label_text(start_ms: int) -> str:
    """Return the label of the window that starts at an instant in epoch ms UTC.

    >>> label_text(1_520_236_800_000)
    '20180305080000'
    """
    at = EPOCH + timedelta(milliseconds=start_ms)
    return f"{at.year:04}{at.month:02}{at.day:02}{at.hour:02}{at.minute:02}00"


def label_start(label: str) -> int:
    """Return the start, epoch ms UTC, of the window that a label names.

    Raises:
        ValueError: the text is no timelabel (rule T1).

    >>> label_start("20180305080000")
    1520236800000
    """
    if not _LABEL.fullmatch(label):
        raise ValueError(label)
    return (datetime.strptime(f"{label}+0000", "%Y%m%d%H%M%S%z") - EPOCH) // MILLISECOND


class Windows(Protocol):
    """The windows of a schedule; all times epoch ms UTC."""

    def at(self, ms: int) -> Interval:
        """Return the window that contains an instant.

        Raises:
            PlanningError: the instant is in a year without labels.
        """
        ...

    def of_run(self, now_ms: int) -> Interval:
        """Return the window that a run loads: it ended at or before the latest fire (2.4, 2.5).

        Raises:
            PlanningError: the window is in a year without labels.
        """
        ...


def windows_of(spec: TimelabelSpec) -> Windows:
    """Return the windows of a schedule, an interval or a unit, and of earlier schedules."""
    last = _windows(spec)
    if not spec.earlier:
        return last
    return ChangedWindows(
        tuple(each.until for each in spec.earlier), (*map(_windows, spec.earlier), last)
    )


def _windows(spec: TimelabelSpec | EarlierSchedule) -> Windows:
    if spec.every_ms:
        return IntervalWindows(spec.every_ms)
    schedule = spec.schedule if spec.unit is None else _UNITS[spec.unit]
    return CronWindows(parse_cron(schedule), find_zone(spec.zone))


@dataclass(frozen=True, slots=True)
class IntervalWindows:
    """Windows of one length, counted from the epoch (2.9)."""

    length_ms: int

    def at(self, ms: int) -> Interval:
        """Return the window that an instant lies in."""
        low = ms // self.length_ms * self.length_ms
        if low not in _STARTS:
            raise _unlabelled(ms, UTC, "1 to 9999")
        return Interval(low, low + self.length_ms)

    def of_run(self, now_ms: int) -> Interval:
        """Return the last window that is over."""
        return self.at(now_ms - self.length_ms)


@dataclass(frozen=True, slots=True)
class ChangedWindows:
    """Windows of one schedule after the other (2.13); ``ends`` are the ends of all but the last.

    The first window after a change begins where the last window before it ended, so that there is
    no gap between windows.
    """

    ends: Sequence[int]
    parts: Sequence[Windows]

    def at(self, ms: int) -> Interval:
        """Return the window that an instant lies in."""
        place = bisect_right(self.ends, ms)
        window = self.parts[place].at(ms)
        low, high = window.low, window.high
        if place > 0:
            low = max(low, self.ends[place - 1])
        if place < len(self.ends):
            high = min(high, self.ends[place])
        return Interval(low, high)

    def of_run(self, now_ms: int) -> Interval:
        """Return the window that the latest fire at or before now loads.

        Until the present schedule has fired for its first window, the result is the last window
        of the schedule before.
        """
        end = self.parts[-1].of_run(now_ms).high
        return self.at(max(end, self.ends[-1]) - 1)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """All fires in a range of time, and the starts of their periods, both ascending."""

    fires: Sequence[int]
    tops: Sequence[int]


class CronWindows:
    """Windows of a cron expression in a zone: from one period's start (its top) to the next.

    Fires of one period load the window that ends at the period's top. Only one thread may use an
    object of this class.
    """

    __slots__ = ("_chunk", "_cron", "_lag", "_latest", "_size", "_zone")

    def __init__(self, cron: Cron, zone: tzinfo) -> None:
        self._cron, self._zone = cron, zone
        self._size, self._lag = _CHUNKS[cron.level], _LAGS[cron.level]
        self._chunk = partial(_chunk, cron, zone)
        self._latest = Interval(0, 0)

    def __reduce__(self) -> tuple[type[CronWindows], tuple[Cron, tzinfo]]:
        return CronWindows, (self._cron, self._zone)

    def at(self, ms: int) -> Interval:
        """Return the window that an instant lies in."""
        latest = self._latest
        if not latest.low <= ms < latest.high:
            try:
                latest = self._latest = Interval(self._top_until(ms), self._top_after(ms))
            except _NoFiresError:
                raise _unlabelled(ms, self._zone, "2 to 9998") from None
        return latest

    def of_run(self, now_ms: int) -> Interval:
        """Return the window that the latest fire at or before now loads."""
        number = now_ms // self._size
        try:
            while not (count := bisect_right(self._chunk(number).fires, now_ms)):
                number -= 1
            end = self._chunk(number).tops[count - 1]
            return Interval(self._top_until(end - 1), end)
        except _NoFiresError:
            raise _unlabelled(now_ms, self._zone, "2 to 9998") from None

    def _top_until(self, ms: int) -> int:
        # The fire of a period comes after its start, so it may be in a later chunk.
        number = (ms + self._lag) // self._size
        while not (count := bisect_right(self._chunk(number).tops, ms)):
            number -= 1
        return self._chunk(number).tops[count - 1]

    def _top_after(self, ms: int) -> int:
        number = ms // self._size
        tops = self._chunk(number).tops
        while (count := bisect_right(tops, ms)) == len(tops):
            number += 1
            tops = self._chunk(number).tops
        return tops[count]


class _NoFiresError(Exception):
    """Fires are not computed so far from now."""


# The steps of a run have windows of one schedule each; all of them use the same chunks.
@lru_cache(maxsize=256)
def _chunk(cron: Cron, zone: tzinfo, number: int) -> _Chunk:
    """Return the fires of a chunk of time, each with the start of its period, its top (2.3).

    For several fires a day the instant is cut to its hour or minute, so that an hour that occurs
    twice makes two periods. Else the local date is reset to the start of its day, month or year.
    """
    size = _CHUNKS[cron.level]
    low, high = number * size, (number + 1) * size
    if high <= _FIRST_MS or low >= _LAST_MS:
        raise _NoFiresError
    low, high = max(low, _FIRST_MS), min(high, _LAST_MS)
    if cron.level < Level.DAY:
        fires = cron.by_clock(zone, low, high)
        delay = cron.minutes[0] * MINUTE_MS if cron.level is Level.HOUR else 0
        return _Chunk(fires, [at - delay for at in fires] if delay else fires)
    dated = cron.by_date(zone, low, high)
    return _Chunk([at for at, _ in dated], [_start(day, cron.level, zone) for _, day in dated])


def _unlabelled(ms: int, zone: tzinfo, years: str) -> PlanningError:
    return PlanningError(
        f"no timelabel is known at {moment(ms, zone)}, only the years {years} have timelabels",
        "Choose a range of ms.watermark within these years",
    )


def _start(day: date, level: Level, zone: tzinfo) -> int:
    """Return the first instant of the day, month or year of a date."""
    first = day if level is Level.DAY else day.replace(day=1)
    if level is Level.YEAR:
        first = first.replace(month=1)
    return first_instant(datetime.combine(first, time()), zone)
