"""Reads texts by Joda date patterns, with Joda's leniency and its order of fields.

Source: Joda-Time 2, DateTimeFormatterBuilder, DateTimeParserBucket.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo

from dil.text.joda_tokens import MONTHS, WEEKDAYS, Token
from dil.text.zones import (
    ABBREVIATIONS,
    LOCAL_EPOCH,
    MILLISECOND,
    find_zone,
    gap_at,
    to_local,
    to_ms,
)

# The year of texts that give a month or day but no year: a leap year, so that 02-29 can be read.
BASE_YEAR = 2000
_YEAR_DIGITS = 9
# Two digits stand for one of 100 years; the first is so many years before the year of the run.
_YEARS_BACK = 80
_MAX_DIGITS = {"D": 3}


def _spellings(names: tuple[str, ...]) -> dict[str, int]:
    """Return each accepted spelling with its number: full or three letters, in three cases."""
    return {
        spelling: number
        for number, name in enumerate(names)
        for form in (name, name[:3])
        for spelling in (form, form.lower(), form.upper())
    }


_MONTHS = _spellings(MONTHS)
_WEEKDAYS = _spellings(WEEKDAYS)
_HALFDAYS = {"AM": 0, "am": 0, "PM": 1, "pm": 1}
# Two digits must follow a colon or a pair of digits: hh, hh:mm, hh:mm:ss, hhmm, hhmmss.
_OFFSET_TEXT = (
    "(?>[Zz]|[+-][0-9]{2}(?>"
    ":[0-9]{2}(?>:[0-9]{2}|(?!:))|[0-9]{2}(?>[0-9]{2}|(?![0-9]))|(?![:0-9])))"
)
_NAMES: dict[str, Iterable[str]] = {
    "E": _WEEKDAYS,
    "M": _MONTHS,
    "a": _HALFDAYS,
    "z": ABBREVIATIONS,
}
_OFFSET = re.compile(r"([+-])([01]\d|2[0-3])(?::?([0-5]\d))?(?::?([0-5]\d))?", re.ASCII)
# A field's smallest and largest value; the length of month and year is checked with the date.
_BOUNDS = {
    "y": (1, 9999), "Y": (1, 9999), "M": (1, 12), "d": (1, 31), "D": (1, 366), "H": (0, 23),
    "k": (1, 24), "h": (1, 12), "K": (0, 11), "m": (0, 59), "s": (0, 59),
}  # fmt: skip


def why_unreadable(token: Token) -> str:
    """Return the reason why texts with this field cannot be read, empty if they can."""
    if token.letter and token.letter in "GCxwe":
        return f'letter "{token.letter}" is supported for writing only'
    return ""


def readable(tokens: Sequence[Token]) -> re.Pattern[str]:
    """Return the pattern of readable texts, with one group per field.

    Joda reads greedily and never backtracks, hence the possessive and atomic forms.
    """
    following = [*tokens[1:], Token("", "")]
    return re.compile(
        "".join(
            f"({_field(token, after)})" if token.letter else f"(?i:{re.escape(token.text)})"
            for token, after in zip(tokens, following, strict=True)
        )
    )


def _field(token: Token, after: Token) -> str:
    if token.is_two_digit_year and after.is_number:
        return "[0-9]{2}"
    if token.is_number:
        match token.letter:
            case "y" | "Y":
                digits = token.width if after.is_number else max(_YEAR_DIGITS, token.width)
            case "S":
                digits = token.width
            case letter:
                digits = max(_MAX_DIGITS.get(letter, 2), token.width)
        sign = "[+-]?+" if token.letter == "y" or token.is_two_digit_year else ""
        return f"{sign}[0-9]{{1,{digits}}}+"
    if token.letter in _NAMES:
        longest_first = sorted(_NAMES[token.letter], key=len, reverse=True)
        return f"(?>{'|'.join(longest_first)})"
    if token.is_zone_id:
        return "(?>[A-Za-z][A-Za-z0-9_+/-]*)"
    return _OFFSET_TEXT


class ParsedFields:
    """The fields of one text, combined in Joda's order: fields of larger ranges first.

    ``run_now``, the time of the run in epoch milliseconds, gives a two-digit year its century.
    """

    __slots__ = ("_numbers", "_offset", "_run_now", "_zone")

    def __init__(self, run_now: int) -> None:
        self._run_now = run_now
        self._numbers: dict[str, int] = {}
        self._offset: timedelta | None = None
        self._zone: tzinfo | None = None

    def take(self, token: Token, text: str) -> None:
        """Keep one field's value; if two fields have the same letter, the later one wins.

        Raises:
            ValueError: the value is out of range, or the zone is unknown.
        """
        match token.letter:
            case "E":
                self._numbers["E"] = _WEEKDAYS[text]
            case "a":
                self._numbers["a"] = _HALFDAYS[text]
            case "S":
                self._numbers["S"] = int(text[:3].ljust(3, "0"))
            case "z":
                self._zone = find_zone(ABBREVIATIONS[text])
            case "Z" if token.is_zone_id:
                self._zone = find_zone(text)
            case "Z":
                self._offset = _offset(text)
            case "M" if not token.is_number:
                self._numbers["M"] = _MONTHS[text] + 1
            case letter:
                value = int(text)
                if token.is_two_digit_year and text.isdigit() and len(text) == token.width:
                    first = to_local(self._run_now, UTC).year - _YEARS_BACK
                    value = first + (value - first) % 100
                low, high = _BOUNDS[letter]
                if not low <= value <= high:
                    raise ValueError(
                        f'{value} is out of range for pattern letter "{letter}" ({low} to {high})'
                    )
                self._numbers[letter] = value

    def instant(self, default_zone: str) -> int:
        """Return the epoch ms by the text's offset, else by its zone, else by ``default_zone``.

        Raises:
            ValueError: there is no such day, or the time lies in a DST gap.
        """
        local = datetime.combine(self._date(), datetime.min.time()) + self._time()
        if self._offset is not None:
            return (local - LOCAL_EPOCH - self._offset) // MILLISECOND
        zone = self._zone or find_zone(default_zone)
        gap = gap_at(local, zone)
        if gap is not None:
            raise ValueError(f"clocks go from {gap[0]} to {gap[1]} there")
        return to_ms(local, zone)

    def _date(self) -> date:
        numbers = self._numbers
        has_day = numbers.keys() & {"M", "d", "D", "E"}
        year = numbers.get("y", numbers.get("Y", BASE_YEAR if has_day else LOCAL_EPOCH.year))
        day = self._day_in(date(year, 1, 1))
        if "E" not in numbers:
            return day
        # A day's name moves the day inside its week. Joda sets all fields a second time, so that
        # the result is in the wanted month even if the week began in the month before.
        day += timedelta(days=numbers["E"] - day.weekday())
        day = self._day_in(_moved(day, year, day.month))
        return day + timedelta(days=numbers["E"] - day.weekday())

    def _day_in(self, day: date) -> date:
        """Set month, day of the year and day of the month."""
        numbers = self._numbers
        if "M" in numbers:
            day = _moved(day, day.year, numbers["M"])
        if "D" in numbers:
            year = day.year
            day = date(year, 1, 1) + timedelta(days=numbers["D"] - 1)
            if day.year != year:
                raise ValueError(f"the year {year} has no day {numbers['D']}")
        return day.replace(day=numbers["d"]) if "d" in numbers else day

    def _time(self) -> timedelta:
        numbers = self._numbers
        hour = numbers.get("a", 0) * 12
        hour = numbers.get("H", numbers.get("k", hour)) % 24
        if numbers.keys() & {"h", "K"}:
            hour = hour // 12 * 12 + numbers.get("h", numbers.get("K", 0)) % 12
        return timedelta(
            hours=hour,
            minutes=numbers.get("m", 0),
            seconds=numbers.get("s", 0),
            milliseconds=numbers.get("S", 0),
        )


def _moved(day: date, year: int, month: int) -> date:
    """Return the same day in another month, or the month's last day if it is shorter."""
    return date(year, month, min(day.day, monthrange(year, month)[1]))


def _offset(text: str) -> timedelta:
    if text in ("Z", "z"):
        return timedelta()
    match = _OFFSET.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is no offset from UTC")
    sign, *parts = match.groups()
    hours, minutes, seconds = (int(part or 0) for part in parts)
    size = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return -size if sign == "-" else size
