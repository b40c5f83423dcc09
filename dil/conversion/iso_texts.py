"""Reads ISO 8601 texts as microseconds if a column's type holds every digit.

These texts are read in addition to the patterns of a job, so no part of a text may be lost. The
digits of a fraction that the type does not hold must be zeros. For a date, the time must be
midnight.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from dil.conversion.texts import parse_whole_iso

_US_PER_MS = 1000
_US_PER_SECOND = 1_000_000
_MICRO_DIGITS = 6
# The years 1 to 9999 in UTC.
_FIRST, _LAST = -62_135_596_800 * _US_PER_SECOND, 253_402_300_800 * _US_PER_SECOND

_DAY = r"(?P<day>\d{4}-\d{2}-\d{2})"
_CLOCK = (
    r"(?P<minute>(?:[01]\d|2[0-3]):[0-5]\d)"
    r"(?::(?P<second>[0-5]\d)(?:\.(?P<fraction>\d{1,DIGITS})0*)?)?"
)
_OFFSET = r"(?P<offset>Z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)?"
_MOMENT = rf"^{_DAY}(?:[T ]{_CLOCK}{_OFFSET})?$"
_TIME = rf"^{_CLOCK}$"
_HOURS_ONLY = 3


def exact_instants(texts: pa.Array, zone: str, digits: int) -> pa.Array:
    """Return epoch microseconds of dates with a time; null for other texts.

    A date without a time means its midnight.

    Args:
        texts: ISO 8601 texts; a text without an offset is in ``zone``.
        zone: A zone that ``find_zone`` knows; a time that its clocks skip is null.
        digits: The digits of a second's fraction that the type holds, 3 or 6.
    """
    return _instants(pc.extract_regex(texts, _MOMENT.replace("DIGITS", str(digits))), zone)


def exact_dates(texts: pa.Array, zone: str) -> pa.Array:
    """Return the midnight of dates in UTC, in microseconds; null for any other text.

    A text with a time is a date if the time is midnight: the written time, or, if the text names
    an offset, the time in ``zone``.
    """
    found = pc.extract_regex(texts, _MOMENT.replace("DIGITS", str(_MICRO_DIGITS)))
    names_offset = pc.not_equal(pc.struct_field(found, "offset"), "")
    instants = _instants(found, "UTC")
    placed = pc.local_timestamp(instants.cast(pa.timestamp("us", tz=zone))).cast(pa.int64())
    local = pc.if_else(names_offset, placed, instants)
    days = pc.floor_temporal(local.cast(pa.timestamp("us")), unit="day").cast(pa.int64())
    return pc.if_else(pc.equal(days, local), local, None)


def exact_times(texts: pa.Array, zone: str, digits: int) -> pa.Array:
    """Return epoch microseconds of times of the first day of 1970; null for any other text."""
    is_time = pc.match_substring_regex(texts, _TIME.replace("DIGITS", str(digits)))
    moments = pc.binary_join_element_wise("1970-01-01", texts, "T")
    return exact_instants(pc.if_else(is_time, moments, None), zone, digits)


def word_of_texts(texts: pa.Array, digits: int) -> str:
    """Return ``date`` or ``timestamp`` if every whole text is one, else an empty text.

    Nulls are skipped. A date with a time is no ``date`` here, and a date without a time is no
    ``timestamp``.
    """
    values = texts.drop_null()
    if not len(values):
        return ""
    if pc.all(pc.match_substring_regex(values, f"^{_DAY}$")).as_py():
        return "" if exact_dates(values, "UTC").null_count else "date"
    has_clock = pc.all(pc.match_substring_regex(values, rf"^{_DAY}[T ]\d")).as_py()
    return "timestamp" if has_clock and not exact_instants(values, "UTC", digits).null_count else ""


def exact_shapes(word: str, digits: int) -> re.Pattern[str]:
    """Return a pattern for the shapes of texts that count as ``word``, real dates or not."""
    clock = rf"99:99(:99(\.9{{1,{digits}}})?)?"
    offset = r"(a|[+-]99(:?99)?)?"
    forms = {"time": clock, "date": "9999-99-99", "timestamp": rf"9999-99-99([a ]{clock}{offset})?"}
    return re.compile(forms[word])


def _instants(found: pa.Array, zone: str) -> pa.Array:
    """Return the epoch microseconds that the parts found by a pattern denote."""
    day, minute, second, fraction, offset = found.flatten()
    is_short = pc.equal(pc.utf8_length(offset), _HOURS_ONLY)
    offset = pc.if_else(is_short, pc.binary_join_element_wise(offset, "00", ":"), offset)
    clock = pc.binary_join_element_wise(_or_zeros(minute, "00:00"), _or_zeros(second, "00"), ":")
    moments = pc.binary_join_element_wise(day, pc.binary_join_element_wise(clock, offset, ""), "T")
    micros = pc.utf8_rpad(fraction, _MICRO_DIGITS, "0").cast(pa.int64())
    instants = pc.add(pc.multiply(parse_whole_iso(moments, zone), _US_PER_MS), micros)
    is_readable = pc.and_(pc.greater_equal(instants, _FIRST), pc.less(instants, _LAST))
    return pc.if_else(is_readable, instants, None)


def _or_zeros(texts: pa.Array, zeros: str) -> pa.Array:
    return pc.if_else(pc.equal(texts, ""), zeros, texts)
