"""Time zones by the names that job files use, and local times in them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from dil.model.messages import ZONE_FIX, nearest_word

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOCAL_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - local times are naive on purpose
MILLISECOND = timedelta(milliseconds=1)

# Abbreviations select a region with its daylight saving time, never a fixed offset (rule P3).
ABBREVIATIONS = {
    "UTC": "UTC",
    "GMT": "UTC",
    "UT": "UTC",
    "EST": "America/New_York",
    "EDT": "America/New_York",
    "CST": "America/Chicago",
    "CDT": "America/Chicago",
    "MST": "America/Denver",
    "MDT": "America/Denver",
    "PST": "America/Los_Angeles",
    "PDT": "America/Los_Angeles",
}
_OFFSET = re.compile(r"([+-])([01][0-9]|2[0-3]):?([0-5][0-9])")
# These are no regions, but files that some systems keep in the folders of zones.
_NO_REGION = ("posix", "right/", "localtime", "Factory")
_MOST_HOURS = 12  # of the regions Etc/GMT+12 to Etc/GMT-12
_NAMED_OFFSET = re.compile(r"(?:GMT|UTC|UT)([+-])([01]?[0-9])(?::?([0-5][0-9]))?", re.IGNORECASE)
_REGION = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")


@lru_cache(maxsize=256)
def find_zone(name: str) -> tzinfo:
    """Return the zone of a region id (``Europe/Paris``), ``UTC``, or an offset (``+05:30``).

    Raises:
        ValueError: there is no such zone.
    """
    offset = _OFFSET.fullmatch(name)
    if offset:
        sign, hours, minutes = offset.groups()
        size = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-size if sign == "-" else size, _offset_text(sign, hours, minutes))
    if _REGION.fullmatch(name) and not name.startswith(_NO_REGION):
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):  # unknown, or a folder of the zone data
            pass
    raise ValueError(f'unknown time zone "{name}"')


def zone_fix(name: str) -> str:
    """Return the advice for an unknown zone: the nearest region id, if one is near.

    >>> zone_fix("GMT+5:30")
    'Write +05:30. Use a region id such as Europe/Paris, or UTC.'
    """
    offset = _NAMED_OFFSET.fullmatch(name.strip())
    if offset:
        sign, hours, minutes = offset.groups()
        text = f"Write {sign}{int(hours):02}:{minutes or '00'}"
        # Only whole hours have a region id.
        if int(minutes or 0) or not 0 < int(hours) <= _MOST_HOURS:
            return f"{text}. {ZONE_FIX}"
        turned = "-" if sign == "+" else "+"
        return f"{text}, or Etc/GMT{turned}{int(hours)}, whose sign is turned. {ZONE_FIX}"
    if meant := nearest_word(name.strip(), ("UTC", "GMT"), cutoff=0.6):
        return f'Did you mean "{meant}"? {ZONE_FIX}'
    regions = available_timezones()
    near = nearest_word(name.strip().replace(" ", "_"), regions)
    if not near:  # perhaps a city without its region
        cities = {each.rpartition("/")[2]: each for each in sorted(regions, reverse=True)}
        near = cities.get(nearest_word(name.strip().replace(" ", "_"), cities), "")
    hint = f'Did you mean "{near}"? ' if near else ""
    return f"{hint}{ZONE_FIX}"


def zone_of_text(name: str) -> str:
    """Return the zone of a name in a watermark, in a form that ``find_zone`` accepts.

    Names are ``Z``, UTC, GMT, UT, the US abbreviations, offsets with or without colon, region ids.

    Raises:
        ValueError: there is no such zone.
    """
    if name == "Z":
        return "UTC"
    offset = _OFFSET.fullmatch(name)
    if offset:
        text = _offset_text(*offset.groups())
        return "UTC" if text[1:] == "00:00" else text
    known = ABBREVIATIONS.get(name, name)
    find_zone(known)
    return known


def to_local(ms: int, zone: tzinfo) -> datetime:
    """Return the aware local time of an instant in epoch milliseconds.

    Raises:
        ValueError: the instant lies outside the years 1 to 9999.
    """
    try:
        return (EPOCH + timedelta(milliseconds=ms)).astimezone(zone)
    except OverflowError as error:
        raise ValueError(f"{ms} ms is outside the years 1 to 9999") from error


def iso(ms: int | None) -> str | None:
    """Return an instant in epoch milliseconds as ISO 8601 in UTC, None outside the calendar.

    >>> iso(1_500)
    '1970-01-01T00:00:01.500Z'
    """
    if ms is None:
        return None
    try:
        local = to_local(ms, UTC)
    except ValueError:
        return None
    fine = "milliseconds" if local.microsecond else "seconds"
    return f"{local.replace(tzinfo=None).isoformat(timespec=fine)}Z"


def moment(ms: int, zone: tzinfo) -> str:
    """Return an instant in epoch milliseconds as local time with offset, no finer than needed.

    Outside the years 1 to 9999 the result is the number, followed by ``ms``.

    >>> moment(1_000, find_zone("+05:30"))
    '1970-01-01 05:30:01+05:30'
    """
    try:
        local = to_local(ms, zone)
    except ValueError:
        return f"{ms} ms"
    whole = "seconds" if local.second else "minutes"
    return local.isoformat(sep=" ", timespec="milliseconds" if local.microsecond else whole)


def to_ms(local: datetime, zone: tzinfo) -> int:
    """Return the epoch milliseconds of a naive local time; finer digits are cut.

    A time in a gap of the zone moves forward by the gap. If a time occurs twice, the first
    occurrence counts.
    """
    offset = _offset(local.replace(tzinfo=zone, fold=0))
    return (local - LOCAL_EPOCH - offset) // MILLISECOND


def offset_ms(local: datetime) -> int:
    """Return the distance of an aware local time from UTC in milliseconds, positive eastward."""
    return _offset(local) // MILLISECOND


def gap_at(local: datetime, zone: tzinfo) -> tuple[datetime, datetime] | None:
    """Return begin and end of the gap in which a naive local time lies, None if the time exists."""
    before = _offset(local.replace(tzinfo=zone, fold=0))
    after = _offset(local.replace(tzinfo=zone, fold=1))
    if after <= before:
        return None
    low, high = ((local - each - LOCAL_EPOCH) // MILLISECOND for each in (after, before))
    jump = LOCAL_EPOCH + clock_change(zone, low, high) * MILLISECOND
    return jump + before, jump + after


def clock_change(zone: tzinfo, low: int, high: int) -> int:
    """Return the instant in (low, high] at which clocks change, if they change once; epoch ms."""
    before = to_local(low, zone).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if to_local(middle, zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high


def _offset(local: datetime) -> timedelta:
    offset = local.utcoffset()
    if offset is None:
        raise ValueError("a zone without offsets cannot be used")
    return offset


def _offset_text(sign: str, hours: str, minutes: str) -> str:
    return f"{sign}{hours}:{minutes}"
