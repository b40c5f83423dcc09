"""Converts columns to text and texts to instants, vectorised; value by value only if needed."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import time, timedelta
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from dil.text.instants import InstantError, parse_instant
from dil.text.joda import JodaPattern

_US_PER_MS = 1000
_MAX_LONG = 2.0**63
_ENCODER = msgspec.json.Encoder(decimal_format="number")

_DATE = r"\d{4}-\d{2}-\d{2}"
_TIME = r"[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?"
_LOCAL = rf"^{_DATE}({_TIME})?$"
_WITH_OFFSET = rf"^{_DATE}{_TIME}(Z|[+-]\d{{2}}:?\d{{2}})$"
_BEGINS_WITH_DATE = re.compile(_DATE, re.ASCII)
_DATE_LENGTH = 10
_ARROWS_OWN = {"%Y-%m-%d %H:%M:%S": pa.timestamp("s"), "%Y-%m-%d": pa.date32()}


def text_of(array: pa.Array) -> pa.Array:
    """Return every value as text: whole numbers without a point, lists and records as JSON.

    Times are ISO 8601, instants in UTC; bytes are read as UTF-8.

    Raises:
        pyarrow.ArrowInvalid: bytes are not UTF-8.
    """
    data_type = array.type
    if pa.types.is_string(data_type):
        return array
    if pa.types.is_nested(data_type):
        values = array.to_pylist(maps_as_pydicts="strict")
        return pa.array(
            [None if v is None else _ENCODER.encode(v).decode() for v in values], pa.string()
        )
    if pa.types.is_floating(data_type):
        is_whole = pc.and_(
            pc.equal(pc.floor(array), array), pc.less(pc.abs(array), pa.scalar(_MAX_LONG))
        )
        whole = pc.if_else(is_whole, array, pa.scalar(None, array.type)).cast(
            pa.int64(), safe=False
        )
        return pc.coalesce(whole.cast(pa.string()), array.cast(pa.string()))
    text = array.cast(pa.string())
    return pc.replace_substring(text, " ", "T") if pa.types.is_temporal(data_type) else text


def per_unique(texts: pa.Array, convert: Callable[[str], Any], data_type: pa.DataType) -> pa.Array:
    """Return ``convert`` of each text, called once for each distinct text; null stays null."""
    encoded = texts.dictionary_encode()
    converted = pa.array([convert(text) for text in encoded.dictionary.to_pylist()], data_type)
    return converted.take(encoded.indices)


def parse_pattern(texts: pa.Array, pattern: JodaPattern, zone: str, *, run_now: int) -> pa.Array:
    """Return epoch milliseconds as int64; null if the whole text does not fit the pattern."""

    def parse(text: str) -> int | None:
        try:
            return pattern.parse(text, zone, run_now=run_now)
        except ValueError:
            return None

    if pattern.strptime is None:
        return per_unique(texts, parse, pa.int64())
    return _with_fallback(texts, _strptime(texts, pattern.strptime, zone), parse)


def parse_plain_pattern(texts: pa.Array, pattern: JodaPattern, zone: str) -> pa.Array:
    """Return epoch milliseconds, read by Arrow alone; null for texts that Arrow cannot read."""
    if pattern.strptime is None:
        return pa.nulls(len(texts), pa.int64())
    return _strptime(texts, pattern.strptime, zone)


def parse_iso(texts: pa.Array, zone: str) -> pa.Array:
    """Return epoch milliseconds of texts in the forms of rule P3; texts may name a zone.

    A text that names no zone is in ``zone``. If a text has none of these forms, its first ten
    characters are read as a date in ``zone``; if that fails, the result is null. See docs/rows.md.
    """

    def parse(text: str) -> int | None:
        whole = _instant(text, zone)
        return _instant(text[:_DATE_LENGTH], zone) if whole is None else whole

    return _with_fallback(texts, _iso(texts, zone), parse)


def parse_whole_iso(texts: pa.Array, zone: str) -> pa.Array:
    """Return epoch milliseconds of whole texts in the forms of rule P3; null for other texts."""
    return _with_fallback(texts, _iso(texts, zone), lambda text: _instant(text, zone))


def parse_iso_time(texts: pa.Array) -> pa.Array:
    """Return milliseconds of the day of ISO 8601 times without a zone; null for other texts."""

    def parse(text: str) -> int | None:
        try:
            found = time.fromisoformat(text)
        except ValueError:
            return None
        since = timedelta(hours=found.hour, minutes=found.minute, seconds=found.second)
        is_local = found.tzinfo is None
        return since // timedelta(milliseconds=1) + found.microsecond // 1000 if is_local else None

    return per_unique(texts, parse, pa.int64())


def _with_fallback(
    texts: pa.Array, parsed: pa.Array, parse: Callable[[str], int | None]
) -> pa.Array:
    left = pc.and_(parsed.is_null(), texts.is_valid())
    if not pc.any(left, min_count=0).as_py():
        return parsed
    rest = per_unique(texts.filter(left), parse, pa.int64())
    return pc.replace_with_mask(parsed, left, rest)


def _instant(text: str, zone: str) -> int | None:
    if not _BEGINS_WITH_DATE.match(text):
        return None  # Durations and similar texts are for watermarks, not for rows.
    try:
        return parse_instant(text, now_ms=0, zone=zone, end=False).ms
    except InstantError:
        return None


def _strptime(texts: pa.Array, fields: str, zone: str) -> pa.Array:
    # A cast is ten times as fast, and is used if Arrow has one that reads all of these texts.
    parsed = None
    if fields in _ARROWS_OWN:
        with suppress(pa.ArrowInvalid):
            parsed = texts.cast(pa.timestamp("s"))
    if parsed is None:
        parsed = pc.strptime(texts, format=fields, unit="s", error_is_null=True)
    # Arrow accepts blanks before a number, the 30th of February, and dates without a required time.
    # So the result is printed and compared with the text.
    if fields in _ARROWS_OWN:
        printed = parsed.cast(_ARROWS_OWN[fields]).cast(pa.string())
    else:
        printed = pc.strftime(parsed, format=fields)
    is_exact = pc.equal(printed, texts)
    exact = pc.if_else(is_exact, parsed, pa.scalar(None, parsed.type))
    return _epoch_ms(_in_zone(exact.cast(pa.timestamp("us")), zone))


def _iso(texts: pa.Array, zone: str) -> pa.Array:
    null = pa.scalar(None, pa.string())
    local = pc.if_else(pc.match_substring_regex(texts, _LOCAL), texts, null)
    absolute = pc.if_else(pc.match_substring_regex(texts, _WITH_OFFSET), texts, null)
    try:
        local_times = local.cast(pa.timestamp("us"))
        instants = absolute.cast(pa.timestamp("us", tz="UTC"))
    except pa.ArrowInvalid:
        return pa.nulls(len(texts), pa.int64())  # A text has a 13th month: read value by value.
    return pc.coalesce(_epoch_ms(_in_zone(local_times, zone)), _epoch_ms(instants))


def _in_zone(local: pa.Array, zone: str) -> pa.Array:
    """Return instants of local times, the earlier one in an overlap, null in a gap."""
    if zone == "UTC":
        return local.cast(pa.timestamp("us", tz="UTC"))
    try:
        placed = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
        exists = pc.equal(pc.local_timestamp(placed), local)
    except pa.ArrowInvalid:
        # Arrow reads the machine's zone files, which may lack this zone: read value by value.
        return pa.nulls(len(local), pa.timestamp("us", tz="UTC"))
    return pc.if_else(exists, placed, pa.scalar(None, placed.type))


def _epoch_ms(instants: pa.Array) -> pa.Array:
    """Return epoch milliseconds; digits after the third are cut, also before 1970."""
    micros = instants.cast(pa.int64())
    quotient = pc.divide(micros, _US_PER_MS)
    behind = pc.less(micros, pc.multiply(quotient, _US_PER_MS))
    return pc.subtract(quotient, behind.cast(pa.int64()))
