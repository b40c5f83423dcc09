"""Texts of ISO 8601 of which a column's type holds every digit, as microseconds.

They are read beside the patterns of a job, so nothing of a text may get lost: digits of a fraction
beyond those that the type holds must be zeros, and a date has no time but midnight.
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
    """Return epoch microseconds of dates, with a time or at midnight; null for any other text.

    Args:
        texts: Their ``zone`` is the one given where they name no offset.
        zone: A zone that ``find_zone`` knows; a time that its clocks skip is null.
        digits: How many digits of a second the type holds, 3 or 6.
    """
    return _instants(pc.extract_regex(texts, _MOMENT.replace("DIGITS", str(digits))), zone)


def exact_dates(texts: pa.Array, zone: str) -> pa.Array:
    """Return the midnight of dates in UTC, in microseconds; null for any other text.

    A text with a time names a date where that time is midnight: as it is written, or in ``zone``
    where the text names an offset.
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
    """Return ``date`` or ``timestamp`` where every text is one, as a whole; else no word.

    Nulls say nothing. A date has no time beside it here, and a timestamp no date without a time.
    """
    values = texts.drop_null()
    if not len(values):
        return ""
    if pc.all(pc.match_substring_regex(values, f"^{_DAY}$")).as_py():
        return "" if exact_dates(values, "UTC").null_count else "date"
    has_clock = pc.all(pc.match_substring_regex(values, rf"^{_DAY}[T ]\d")).as_py()
    return "timestamp" if has_clock and not exact_instants(values, "UTC", digits).null_count else ""


def exact_shapes(word: str, digits: int) -> re.Pattern[str]:
    """Return what the shapes of texts look like that are read for ``word``, real or not."""
    clock = rf"99:99(:99(\.9{{1,{digits}}})?)?"
    offset = r"(a|[+-]99(:?99)?)?"
    forms = {"time": clock, "date": "9999-99-99", "timestamp": rf"9999-99-99([a ]{clock}{offset})?"}
    return re.compile(forms[word])


def _instants(found: pa.Array, zone: str) -> pa.Array:
    """Return epoch microseconds of the parts that a form found."""
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
