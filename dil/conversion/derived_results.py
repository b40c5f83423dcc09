"""Calculates the result of a derived field's formula from its base value.

See docs/rows.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from dil.conversion.failures import looks_like, shape_of
from dil.conversion.texts import parse_iso, parse_pattern, per_unique, text_of
from dil.errors import ConversionError
from dil.model.settings import Formula
from dil.text.java_regex import compile_java
from dil.text.joda import JodaPattern, compile_pattern

NO_MATCH = "no match"

_INTEGER = r"^[+-]?[0-9]+$"
_NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"

_RESULTS: dict[str, tuple[pa.DataType, str]] = {
    "epoc": (pa.int64(), "long"),
    "string": (pa.string(), "string"),
    "regexp": (pa.string(), "string"),
    "boolean": (pa.bool_(), "boolean"),
    "int": (pa.int32(), "int"),
    "integer": (pa.int32(), "int"),
    "number": (pa.float64(), "double"),
}


@dataclass(frozen=True, slots=True)
class DerivedValues:
    """How a formula makes results: their Arrow type and type word, and the function ``convert``."""

    data_type: pa.DataType
    word: str
    convert: Callable[[pa.Array], pa.Array]


class BadValueError(Exception):
    """A base value does not fit the formula; the error has its position and the reason."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)
        self.position = position
        self.reason = reason


def results_of(formula: Formula, zone: str, run_now: int) -> DerivedValues:
    """Return the conversion of a formula; ``zone`` is the zone of texts that name no zone.

    ``run_now``, epoch ms UTC, gives two-digit years their century. The conversion keeps nulls, and
    raises BadValueError for a value that does not fit.

    Raises:
        ValueError: the format is no Java regular expression or no Joda pattern.
    """
    data_type, word = _RESULTS[formula.type]
    match formula.type:
        case "epoc":
            convert = _epoc(formula.format, zone, run_now)
        case "string":
            convert = _text
        case "regexp":
            convert = _search(formula.format or "(.*)")
        case "boolean":
            convert = _to_boolean
        case "number":
            convert = _to_number
        case _:
            convert = _to_int
    return DerivedValues(data_type, word, convert)


def _text(values: pa.Array) -> pa.Array:
    try:
        return text_of(values)
    except pa.ArrowInvalid:
        raise BadValueError(0, "some bytes of the page are not UTF-8") from None


def _search(pattern: str) -> Callable[[pa.Array], pa.Array]:
    regex = compile_java(pattern)
    group = 1 if regex.groups else 0

    def find(text: str) -> str:
        match = regex.search(text)
        found = match.group(group) if match else None
        return NO_MATCH if found is None else found

    return lambda values: per_unique(_text(values), find, pa.string())


def _to_boolean(values: pa.Array) -> pa.Array:
    texts = _text(values)
    _refuse(texts, pc.equal(texts, ""), "empty text is neither true nor false")
    return pc.equal(pc.utf8_lower(texts), "true")


def _to_int(values: pa.Array) -> pa.Array:
    texts = _text(values)
    _refuse(texts, pc.invert(pc.match_substring_regex(texts, _INTEGER)), "not an integer")
    try:
        return pc.utf8_ltrim(texts, "+").cast(pa.int32())
    except pa.ArrowInvalid:
        is_bad = [
            text is not None and not -(2**31) <= Decimal(text) < 2**31 for text in texts.to_pylist()
        ]
        _refuse(texts, pa.array(is_bad, pa.bool_()), "not an integer of 32 bits")
        raise


def _to_number(values: pa.Array) -> pa.Array:
    if pa.types.is_floating(values.type):
        return values.cast(pa.float64())
    texts = pc.utf8_trim_whitespace(_text(values))
    _refuse(texts, pc.invert(pc.match_substring_regex(texts, _NUMBER)), "not a number")
    return pc.utf8_ltrim(texts, "+").cast(pa.float64())


def _epoc(pattern: str, zone: str, run_now: int) -> Callable[[pa.Array], pa.Array]:
    if not pattern.strip():
        return _milliseconds
    joda = None if pattern.strip().lower() == "iso" else compile_pattern(pattern)
    reason = "not a date or time"
    if joda is not None and joda.unreadable:
        reason = f'"{pattern}" reads no text ({joda.unreadable}), and this one is not ISO 8601'

    def convert(values: pa.Array) -> pa.Array:
        if pa.types.is_temporal(values.type):
            return _milliseconds(values)
        texts = _text(values)
        if joda is None:
            parsed = parse_iso(texts, zone)
        else:
            parsed = parse_pattern(_cut(texts, joda), joda, zone, run_now=run_now)
            if parsed.null_count != texts.null_count:
                parsed = pc.coalesce(parsed, parse_iso(texts, zone))
        _refuse(texts, pc.and_(parsed.is_null(), texts.is_valid()), reason)
        return parsed

    return convert


def _cut(texts: pa.Array, pattern: JodaPattern) -> pa.Array:
    """Cut off text beyond the pattern's length (quotes included), as LinkedIn's DIL does.

    Digits and letters that belong to the pattern's fields stay: if 31/12/2024 were cut to the
    length of d/M/yyyy, it would be in the year 20.
    """
    width = len(pattern.pattern)
    head = pc.utf8_slice_codeunits(texts, 0, width)
    if pattern.strptime is not None or head.equals(texts):
        return head  # A pattern with a strptime format has no field longer than its letters.
    return per_unique(
        texts, lambda text: text[: max(width, pattern.form_length(text))], pa.string()
    )


def _milliseconds(values: pa.Array) -> pa.Array:
    """Return integers and texts of integers as int64, instants as milliseconds, others as 0."""
    if pa.types.is_integer(values.type):
        return values.cast(pa.int64())
    if pa.types.is_time(values.type) or pa.types.is_duration(values.type):
        micros = values.cast(pa.time64("us")).cast(pa.int64())
        return pc.divide(micros, 1000)
    if pa.types.is_temporal(values.type):
        instants = pc.floor_temporal(values.cast(pa.timestamp("us")), unit="millisecond")
        return instants.cast(pa.timestamp("ms")).cast(pa.int64())

    def whole(text: str) -> int:
        # The rule of Java's Long.parseLong: an optional sign, then digits, within 64 bits.
        unsigned = text[1:] if text[:1] in {"+", "-"} else text
        if not (unsigned.isascii() and unsigned.isdigit()):
            return 0
        number = Decimal(text)  # int() refuses thousands of digits
        return int(number) if -(2**63) <= number < 2**63 else 0

    return per_unique(_text(values), whole, pa.int64())


def _refuse(texts: pa.Array, is_bad: pa.Array, reason: str) -> None:
    position = pc.index(is_bad.fill_null(fill_value=False), value=True).as_py()
    if position >= 0:
        looks = looks_like(shape_of(texts[position].as_py()))
        raise BadValueError(position, f"{reason}, {looks}")


def refused(column: str, row: int, error: BadValueError) -> ConversionError:
    """Return the error for a base value that a formula refuses."""
    return ConversionError(
        f'derived field "{column}", row {row} of the work unit: {error.reason}',
        "Correct the formula in ms.derived.fields; its member value is the default for rows"
        " without a source value.",
    )
