"""Writes local times by Joda date patterns, in English.

Source: Joda-Time 2, DateTimeFormatterBuilder.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

from dil.text.joda_tokens import HALFDAYS, MONTHS, WEEKDAYS, Token
from dil.text.zones import ABBREVIATIONS, offset_ms

# Short names of these zones are the same in all releases of Java and of the zone data.
_NAMED_ZONES = frozenset((*ABBREVIATIONS.values(), "GMT", "Etc/GMT", "Etc/UTC"))
UNWRITABLE_FIX = f"Write Z, ZZ or ZZZ, or name one of the zones {', '.join(sorted(_NAMED_ZONES))}."

_Writer: TypeAlias = Callable[[datetime, Token, str], str]


def why_unwritable(token: Token, zone: str) -> str:
    """Return the reason why a field cannot be written in a zone, empty if it can."""
    if token.letter == "z" and zone not in _NAMED_ZONES:
        return f'pattern letter "z" has no certain name for zone {zone}'
    return ""


def write_field(token: Token, local: datetime, zone: str) -> str:
    """Return the text of one field of an aware local time; ``zone`` is the name of its zone.

    Raises:
        ValueError: the field cannot be written in this zone.
    """
    if reason := why_unwritable(token, zone):
        raise ValueError(reason)
    return _WRITERS[token.letter](local, token, zone)


def _number(value: Callable[[datetime], int]) -> _Writer:
    return lambda local, token, _zone: str(value(local)).zfill(token.width)


def _year(value: Callable[[datetime], int]) -> _Writer:
    def write(local: datetime, token: Token, _zone: str) -> str:
        year = value(local)
        return str(year % 100 if token.is_two_digit_year else year).zfill(token.width)

    return write


def _name(name: str, token: Token) -> str:
    return name if token.is_long else name[:3]


def _write_month(local: datetime, token: Token, _zone: str) -> str:
    if token.is_number:
        return str(local.month).zfill(token.width)
    return _name(MONTHS[local.month - 1], token)


def _write_fraction(local: datetime, token: Token, _zone: str) -> str:
    return f"{local.microsecond // 1000:03}".ljust(token.width, "0")[: token.width]


def _write_offset(local: datetime, token: Token, zone: str) -> str:
    if token.is_zone_id:
        return zone
    offset = offset_ms(local)
    hours, rest = divmod(abs(offset), 3_600_000)
    colon = ":" if token.text == "ZZ" else ""
    return f"{'-' if offset < 0 else '+'}{hours:02}{colon}{rest // 60_000:02}"


_WRITERS: dict[str, _Writer] = {
    "G": lambda _local, _token, _zone: "AD",
    "C": _number(lambda local: local.year // 100),
    "y": _year(lambda local: local.year),
    "Y": _year(lambda local: local.year),
    "x": _year(lambda local: local.isocalendar().year),
    "w": _number(lambda local: local.isocalendar().week),
    "e": _number(datetime.isoweekday),
    "E": lambda local, token, _zone: _name(WEEKDAYS[local.weekday()], token),
    "D": _number(lambda local: local.timetuple().tm_yday),
    "M": _write_month,
    "d": _number(lambda local: local.day),
    "a": lambda local, _token, _zone: HALFDAYS[local.hour // 12],
    "K": _number(lambda local: local.hour % 12),
    "h": _number(lambda local: local.hour % 12 or 12),
    "H": _number(lambda local: local.hour),
    "k": _number(lambda local: local.hour or 24),
    "m": _number(lambda local: local.minute),
    "s": _number(lambda local: local.second),
    "S": _write_fraction,
    "z": lambda local, _token, zone: local.tzname() or zone,
    "Z": _write_offset,
}
