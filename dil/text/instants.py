"""The texts that a time watermark accepts as from and to (rules P3 to P6)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from dil.model.interval import HOUR_MS, MINUTE_MS
from dil.model.job import DEFAULT_ZONE
from dil.text.zones import (
    find_zone,
    gap_at,
    offset_ms,
    to_local,
    to_ms,
    zone_fix,
    zone_of_text,
)

INSTANT_FIX = 'For example "2020-01-01" or "2020-01-01 06:00:00UTC".'

_WRITTEN = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6}))?([+\-A-Za-z].*)?)?"
)
_DURATION = re.compile(r"P([0-9]{1,9})D(?:T(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?<!T))?(?:\.(.+))?")
_FORMS = (
    "Write yyyy-MM-dd, yyyy-MM-dd HH:mm:ss (a T may stand for the blank, a fraction of 1 to 6 "
    "digits and an offset or zone may follow), or a duration: PnD, PnDTnH, PnDTnHnM, PnDTnM, "
    "with .ZONE after it if wanted"
)


class InstantError(ValueError):
    """The text is no point in time that a watermark accepts; the reason says what to write."""


@dataclass(frozen=True, slots=True)
class Instant:
    """A point in time: epoch milliseconds UTC, and the zone that partitions are computed in.

    ``zone`` is a region id, ``UTC``, or an offset such as ``+05:30``. ``moved`` is how far the
    point moved forward, because the midnight of a duration such as ``P30D`` lies in a DST gap.
    """

    ms: int
    zone: str
    moved: timedelta = timedelta()


def parse_instant(text: str, *, now_ms: int, zone: str = DEFAULT_ZONE, end: bool) -> Instant:
    """Return the point in time of a watermark's ``from`` or ``to``.

    For durations and ``-``, now is first cut to a unit that depends on their form (rule P4): for
    PnD to midnight, for PnDTnH to the hour, for all other forms to the minute. Then days are
    subtracted in the local calendar, hours and minutes in elapsed time.

    Args:
        text: One of the forms of rule P3, without blanks around it.
        now_ms: The run's value of now, epoch ms UTC.
        zone: The zone of texts that name no zone.
        end: Whether ``-`` (now) is allowed.

    Raises:
        InstantError: the text has another form, names no real time, or lies in a DST gap.
    """
    if text == "-":
        if not end:
            raise InstantError('"-" (now) is allowed only in to. Write a date or a duration')
        return _before_now("P0DT0M", now_ms, zone)
    if text.startswith("P"):
        return _before_now(text, now_ms, zone)
    return _written(text, zone)


def _written(text: str, default_zone: str) -> Instant:
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise InstantError(f'"{text}" is no date, time or duration. {_FORMS}')
    day, time, fraction, zone_text = match.groups()
    zone_name = _zone_named(text, zone_text) if zone_text else default_zone
    try:
        zone = find_zone(zone_name)
        local = datetime.fromisoformat(f"{day}T{time or '00:00:00'}")
        gap = gap_at(local, zone)
    except (ValueError, OverflowError) as error:
        raise InstantError(f'"{text}": {error}') from error
    if gap is not None:
        raise InstantError(
            f'"{text}" does not exist in {zone_name}: clocks go from {gap[0]} to {gap[1]}. '
            f"Write {gap[1]} or later"
        )
    return Instant(to_ms(local, zone) + int((fraction or "0")[:3].ljust(3, "0")), zone_name)


def _zone_named(text: str, name: str) -> str:
    try:
        return zone_of_text(name)
    except ValueError as error:
        raise InstantError(f'"{text}": {error}. {zone_fix(name)}') from error


def _before_now(text: str, now_ms: int, default_zone: str) -> Instant:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise InstantError(
            f'"{text}" is no duration. Days come first: write PnD, PnDTnH, PnDTnHnM or PnDTnM, such'
            " as P0DT5M for five minutes; .ZONE may follow"
        )
    days, hours, minutes, zone_text = match.groups()
    for value, limit, name in ((hours, 23, "hours"), (minutes, 59, "minutes")):
        if value is not None and int(value) > limit:
            raise InstantError(f'"{text}" has {value} {name}; 0 to {limit} are allowed')
    elapsed_ms = int(hours or 0) * HOUR_MS + int(minutes or 0) * MINUTE_MS
    try:
        zone = default_zone if zone_text is None else _zone_named(text, zone_text)
        found = find_zone(zone)
        now = to_local(now_ms, found)
        if hours is None and minutes is None:
            cut = now.replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0)
            midnight = cut - timedelta(days=int(days))
            ms = to_ms(midnight, found)
            return Instant(ms, zone, to_local(ms, found).replace(tzinfo=None) - midnight)
        unit_ms = HOUR_MS if minutes is None else MINUTE_MS
        offset = offset_ms(now)
        ms = (now_ms + offset) // unit_ms * unit_ms - offset
        if int(days):
            local = to_local(ms, found).replace(tzinfo=None) - timedelta(days=int(days))
            ms = to_ms(local, found)
        return Instant(ms - elapsed_ms, zone)
    except OverflowError as error:
        raise InstantError(f'"{text}" reaches back before the year 1') from error
    except ValueError as error:
        raise InstantError(f'"{text}": {error}') from error
