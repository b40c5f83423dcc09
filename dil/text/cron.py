"""Cron expressions of five fields, and the instants when they fire, their fires (rules T3, T7).

cronsim reads the fields. The fires are computed here: when clocks change, a schedule of several
times a day has to follow local time, and cronsim does not do this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from enum import IntEnum
from functools import lru_cache

from dil.model.interval import DAY_MS, HOUR_MS, MINUTE_MS
from dil.text.zones import LOCAL_EPOCH, clock_change, gap_at, offset_ms, to_local, to_ms

CRON_FIX = (
    'Write minute, hour, day of month, month, day of week: "10 0 * * *" is ten past midnight.'
)

_DAY = timedelta(days=1)
_EPOCH_DATE = date(1970, 1, 1)
_WEEK = frozenset(range(7))
_WORDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
# The names in cronsim's messages, and the allowed values.
_FIELDS = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31",
    "month": "1 to 12 or jan to dec",
    "day-of-week": "0 to 7 or sun to sat, 0 and 7 being Sunday",
}
_PLAIN = re.compile(r"[0-9A-Za-z*,/-]+")


class CronError(ValueError):
    """A text is no usable cron expression; the reason continues a sentence about the text."""


class Level(IntEnum):
    """The finest field of an expression that matches more than one value."""

    MINUTE = 0
    HOUR = 1
    DAY = 2
    MONTH = 3
    YEAR = 4


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression; weekdays count from Sunday, which is 0.

    If ``either_day`` is true, one matching day field suffices: the day of the month or the weekday.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool

    @property
    def level(self) -> Level:
        """Return the cadence (rule T4); any restriction of weekdays makes it DAY."""
        if len(self.minutes) > 1:
            return Level.MINUTE
        if len(self.hours) > 1:
            return Level.HOUR
        if len(self.days) > 1 or self.either_day or self.weekdays < _WEEK:
            return Level.DAY
        return Level.MONTH if len(self.months) > 1 else Level.YEAR

    def matches(self, day: date) -> bool:
        """Return whether the expression fires on a date."""
        if day.month not in self.months:
            return False
        by_month_day = day.day in self.days
        by_weekday = day.isoweekday() % 7 in self.weekdays
        return by_month_day or by_weekday if self.either_day else by_month_day and by_weekday

    def by_clock(self, zone: tzinfo, low: int, high: int) -> list[int]:
        """Return the fires in [low, high) of a schedule of several times a day, epoch ms UTC.

        A local time that occurs twice fires twice; a time that clocks jump over does not fire (rule
        T7).

        Raises:
            ValueError: the stretch reaches beyond the years 1 to 9999.
            OverflowError: as for ``ValueError``.
        """
        times = [
            hour * HOUR_MS + minute * MINUTE_MS for hour in self.hours for minute in self.minutes
        ]
        found: list[int] = []
        for start, end, offset in _steady(zone, low, high):
            for day in self._dates(_local_date(start + offset), _local_date(end + offset)):
                midnight = (day - _EPOCH_DATE).days * DAY_MS - offset
                is_whole = start <= midnight and midnight + DAY_MS <= end
                fires = [midnight + time for time in times]
                found += fires if is_whole else [at for at in fires if start <= at < end]
        return found

    def by_date(self, zone: tzinfo, low: int, high: int) -> list[tuple[int, date]]:
        """Return the fires in [low, high) of a schedule of days or longer, with their local dates.

        A local time fires when it first occurs, or at the first instant after clocks jumped over
        it (rule T7). If clocks skip a day, two fires can be at one instant.

        Raises:
            ValueError: the stretch reaches beyond the years 1 to 9999.
            OverflowError: as for ``ValueError``.
        """
        at = time(self.hours[0], self.minutes[0])
        # A fire that was moved out of a skipped day belongs to the date before.
        first, last = to_local(low, zone).date() - _DAY, to_local(high, zone).date()
        found = (
            (first_instant(datetime.combine(day, at), zone), day)
            for day in self._dates(first, last)
        )
        return [each for each in found if low <= each[0] < high]

    def _dates(self, first: date, last: date) -> Iterator[date]:
        day = first
        while day <= last:
            if self.matches(day):
                yield day
            if day.month in self.months:
                day += _DAY
            else:
                day = (day.replace(day=1) + 31 * _DAY).replace(day=1)


@lru_cache(maxsize=64)
def parse_cron(text: str) -> Cron:
    """Return the parsed form of five fields, or of a word such as ``@daily``.

    Lists, ranges, steps, names of months and weekdays are read. If neither of the two day fields
    begins with ``*``, a date that matches one of them fires, as in crontab(5).

    Raises:
        CronError: the text cannot be read, or it would never fire.
    """
    from cronsim import CronSim, CronSimError

    fields = _fields(text)
    try:
        found = CronSim(" ".join(fields), LOCAL_EPOCH)
    except CronSimError as error:
        raise CronError(_reason(fields, str(error))) from error
    weekdays = frozenset(each % 7 for each in found.weekdays if isinstance(each, int))
    if not weekdays or min(found.days) < 1:
        raise CronError("has L or LW, which other crons do not know")
    return Cron(
        minutes=tuple(sorted(found.minutes)),
        hours=tuple(sorted(found.hours)),
        days=frozenset(found.days),
        months=frozenset(found.months),
        weekdays=weekdays,
        either_day=not found.day_and,
    )


def first_instant(local: datetime, zone: tzinfo) -> int:
    """Return the epoch ms of a naive local time: the first of two instants, or the end of a gap."""
    gap = gap_at(local, zone)
    return to_ms(local if gap is None else gap[1], zone)


def _fields(text: str) -> list[str]:
    stripped = text.strip()
    if stripped.startswith("@"):
        known = _WORDS.get(stripped.lower())
        if known is None:
            raise CronError(f"has an unknown word; known are {', '.join(_WORDS)}")
        return known.split()
    fields = stripped.split()
    if len(fields) != len(_FIELDS):
        raise CronError(f"has {len(fields)} fields in place of 5; seconds and years are not read")
    strange = next((field for field in fields if not _PLAIN.fullmatch(field)), None)
    if strange is not None:
        raise CronError(f'has the field "{strange}"; *, lists, ranges and steps are read')
    return fields


def _reason(fields: list[str], message: str) -> str:
    """Return the problem of five fields, by cronsim's message ``Bad <field>``."""
    from cronsim import CronSim, CronSimError

    name = message.removeprefix("Bad ")
    place = list(_FIELDS).index(name)
    if name == "day-of-month":
        try:
            CronSim(" ".join([*fields[:3], "*", fields[4]]), LOCAL_EPOCH)
        except CronSimError:
            pass
        else:
            return "never fires: none of its months has such a day"
    return f'has the {name} "{fields[place]}"; allowed is {_FIELDS[name]}, ranges upwards'


def _steady(zone: tzinfo, low: int, high: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start, end, offset in ms) of the stretches of [low, high) without a clock change.

    The second of two changes within one day could be missed; no zone has had such changes.
    """
    start, at, offset = low, low, _offset(zone, low)
    while at < high:
        ahead = min(at + DAY_MS, high)
        changed = _offset(zone, ahead)
        if changed != offset:
            change = clock_change(zone, at, ahead)
            yield start, change, offset
            start, offset = change, changed
        at = ahead
    if start < high:
        yield start, high, offset


def _offset(zone: tzinfo, ms: int) -> int:
    return offset_ms(to_local(ms, zone))


def _local_date(local_ms: int) -> date:
    return _EPOCH_DATE + timedelta(days=local_ms // DAY_MS)
