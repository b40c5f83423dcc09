"""The text of a property as a typed value. JSON has its own module."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from dil.config.property import Property
from dil.model.messages import known_words
from dil.model.section import RateLimit, ValueType
from dil.sections.grammars import date_pattern_error
from dil.spi.registry import current_name
from dil.storage.locations import PathError, check_file_system
from dil.text.zones import zone_fix, zone_of_text

_ISO = "iso"  # in place of a pattern: ISO 8601
_REGEX_FIX = r"Write a Java regular expression; in .conf files, write each backslash as \\."
_INT_BOUNDS = (-(2**31), 2**31 - 1)
_LONG_BOUNDS = (-(2**63), 2**63 - 1)
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_OCTAL = re.compile(r"0?[0-7]{3,4}")
_DURATION_PART = re.compile(r"([0-9]+(?:[.,][0-9]+)?)([WDHMS])")
_UNIT_MS = {"W": 604_800_000, "D": 86_400_000, "H": 3_600_000, "M": 60_000, "S": 1000}
_RATE = re.compile(r"([0-9]{1,9})\s*/\s*([0-9]{0,9})\s*(s|min|h|d)")
_RATE_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class ValueProblem(ValueError):  # noqa: N818 - becomes a Problem, never reaches a user as an error
    """Why a text is no value of its property, and what to write.

    ``what`` continues a sentence after "which"; it is empty if the fix says all.
    """

    what: str
    fix: str


def parse(entry: Property, text: str) -> object:
    """Return the value of a non-blank text.

    Raises:
        ValueProblem: the text is no value of this property.
    """
    match entry.type:
        case ValueType.INT | ValueType.LONG:
            return _integer(entry, text)
        case ValueType.ENUM | ValueType.WORD_OR_OBJECT:
            return _word(entry, text)
        case kind:
            return _READERS[kind](text) if kind in _READERS else text


def _integer(entry: Property, text: str) -> int:
    bounds = _INT_BOUNDS if entry.type is ValueType.INT else _LONG_BOUNDS
    lowest = bounds[0] if entry.low is None else entry.low
    highest = bounds[1] if entry.high is None else entry.high
    allowed = f"Allowed: {lowest} to {highest}."
    if not _INTEGER.fullmatch(text):
        raise ValueProblem("is no whole number", allowed)
    number = entry.special.get(int(text), int(text))
    if not lowest <= number <= highest:
        raise ValueProblem("is out of bounds", allowed)
    return number


def _boolean(text: str) -> bool:
    word = text.lower()
    if word not in {"true", "false"}:
        raise ValueProblem("is neither true nor false", "Write true or false.")
    return word == "true"


def _word(entry: Property, text: str) -> str:
    """Return the allowed word that a text means, in the table's spelling.

    Raises:
        ValueProblem: the property has no such word, or the word is one of Gobblin's that is refused
            here.
    """
    by_lower = {known.lower(): known for known in entry.words}
    wanted = current_name(text).lower()
    found = by_lower.get(wanted)
    if found is not None:
        return found
    if wanted in {later.lower() for later in entry.refused_words}:
        raise ValueProblem("is not supported", f"Use one of: {', '.join(entry.words)}.")
    raise ValueProblem("", known_words(text, entry.words))


def _items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _patterns(text: str) -> tuple[str, ...]:
    patterns = tuple(_ISO if each.lower() == _ISO else each for each in _items(text))
    for pattern in patterns:
        if pattern != _ISO and (found := date_pattern_error(pattern)):
            why, fix = found
            raise ValueProblem(f"holds a date pattern that cannot be read: {why}", fix)
    return patterns


def _regex(text: str) -> str:
    from dil.text.java_regex import RegexError, compile_java  # few jobs have any

    try:
        compile_java(text)
    except RegexError as error:
        raise ValueProblem(
            f"is no regular expression that can be used: {error.reason}", _REGEX_FIX
        ) from error
    return text


def _zone(text: str) -> str:
    try:
        return zone_of_text(text)
    except ValueError as error:
        raise ValueProblem("is no known time zone", zone_fix(text)) from error


def _charset(text: str) -> str:
    try:
        codecs.lookup(text)
    except LookupError as error:
        raise ValueProblem("is no known character set", "For example UTF-8.") from error
    return text


def _octal(text: str) -> int:
    if not _OCTAL.fullmatch(text):
        raise ValueProblem(
            "is no permission", "Write three octal digits such as 755, or four such as 0755."
        )
    return int(text, 8)


def _file_system(text: str) -> str:
    try:
        check_file_system(text)
    except PathError as error:
        raise ValueProblem(str(error), error.fix) from error
    return text


def _rate(text: str) -> RateLimit:
    match = _RATE.fullmatch(text.lower())
    count, times = (int(match[1]), int(match[2] or "1")) if match else (0, 0)
    if match is None or count == 0 or times == 0:
        raise ValueProblem(
            "is no rate",
            "Write requests per time, such as 10/s, 600/min, 5000/h, 100000/d or 1/2s.",
        )
    return RateLimit(count, times * _RATE_SECONDS[match[3]])


def duration_ms(text: str) -> int:
    """Return the length in ms of an ISO duration without months and years.

    Raises:
        ValueProblem: the text is no duration, is negative, is no whole number of milliseconds, or
            holds months or years.
    """
    from isodate import Duration, ISO8601Error, parse_duration

    fix = "Write an ISO duration of days and smaller units, such as P2D or PT6H."
    try:
        length = parse_duration(text)
    except OverflowError as error:
        raise ValueProblem("is too long", fix) from error
    except (ISO8601Error, ValueError) as error:
        raise ValueProblem("is not an ISO duration", fix) from error
    if isinstance(length, Duration):
        raise ValueProblem("has months or years, whose length varies", fix)
    if length < timedelta():
        raise ValueProblem("is negative", fix)
    # isodate drops parts of a microsecond.
    parts = _DURATION_PART.findall(text)
    exact = (Fraction(number.replace(",", ".")) * _UNIT_MS[unit] for number, unit in parts)
    ms = sum(exact, Fraction())
    if ms.denominator != 1:
        what = "is no whole number of milliseconds, and there is no finer unit"
        raise ValueProblem(what, "Write whole milliseconds, such as PT0.001S.")
    return ms.numerator


def share(text: str, example: str) -> Fraction:
    """Return the share, above 0 and at most 1, that a text means; it is exact.

    Raises:
        ValueProblem: the text is no such number; the fix names ``example``.
    """
    fix = f"Write a number above 0 and at most 1, such as {example}."
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise ValueProblem("is no number", fix) from error
    if not number.is_finite() or not 0 < number <= 1:
        raise ValueProblem("is out of bounds", fix)
    return Fraction(number)


_READERS: Mapping[ValueType, Callable[[str], object]] = {
    ValueType.BOOL: _boolean,
    ValueType.LIST: _items,
    ValueType.CLASS_LIST: _items,
    ValueType.DATE_PATTERNS: _patterns,
    ValueType.REGEX: _regex,
    ValueType.ZONE: _zone,
    ValueType.CHARSET: _charset,
    ValueType.OCTAL: _octal,
    ValueType.FILE_SYSTEM: _file_system,
    ValueType.DURATION: duration_ms,
    ValueType.DURATION_OR_OBJECT: duration_ms,
    ValueType.RATE: _rate,
}
