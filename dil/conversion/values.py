"""Converts flat values to the typed form; unfit values become null and get a reason.

See docs/rows.md, rule F19.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from dil.conversion.failures import FailureReason
from dil.conversion.iso_texts import exact_dates, exact_instants, exact_shapes, exact_times
from dil.conversion.texts import (
    parse_iso_time,
    parse_pattern,
    parse_plain_pattern,
    parse_whole_iso,
    per_unique,
    text_of,
)
from dil.model.arrow import TYPED_WORDS
from dil.model.job import ConversionSpec, OutputFormat
from dil.model.schema import DataType, Primitive
from dil.text.joda import ISO, JodaPattern, compile_pattern
from dil.types.fitting import exact_cast, exact_or_null, fit_leaf
from dil.types.lattice import INSTANT, typed_form

_MILLIS = pa.timestamp("ms", tz="UTC")
_US_PER_MS = 1000
_MILLI_DIGITS, _MICRO_DIGITS = 3, 6
# Texts that fit one of these patterns mean the same in ISO 8601, which is read vectorised.
_ISO_FORMS = frozenset({"yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss", "HH:mm:ss"})
_TEMPORAL = frozenset({"date", "time", "timestamp"})
_PATTERN_PROPERTIES = {
    "date": "converter.avro.date.format",
    "time": "converter.avro.time.format",
    "timestamp": "converter.avro.timestamp.format",
}

_Reading: TypeAlias = Callable[[pa.Array], pa.Array]
_Parse: TypeAlias = Callable[[pa.Array, JodaPattern, str], pa.Array]


class Values:
    """Converts flat values by one job's formats, zone and charset; ``run_now`` is epoch ms UTC.

    In Avro a date or time of the source is a point in time: the milliseconds of the whole text in
    the job's zone. So such text becomes an instant for Avro; for other formats it becomes the date
    or the time of day that it names.
    """

    def __init__(self, spec: ConversionSpec, output_format: OutputFormat, run_now: int) -> None:
        self._spec = spec
        self._parse_pattern = partial(parse_pattern, run_now=run_now)
        self._keeps_instants = output_format is OutputFormat.AVRO
        self._digits = _MILLI_DIGITS if self._keeps_instants else _MICRO_DIGITS
        self._patterns: dict[str, tuple[JodaPattern | None, ...]] = {
            "date": tuple(map(_compiled, spec.date_formats)),
            "time": tuple(map(_compiled, spec.time_formats)),
            "timestamp": tuple(map(_compiled, spec.timestamp_formats)),
        }

    def leaf_type(
        self, word: str, stored: pa.DataType, declared: DataType | None, path: str
    ) -> pa.DataType:
        """Return a flat column's typed form: by its type word, or else by its Arrow type."""
        if word in _TEMPORAL:
            is_text = pa.types.is_string(stored) or pa.types.is_integer(stored)
            return INSTANT if is_text and self._keeps_instants else TYPED_WORDS[word]
        if isinstance(declared, Primitive) and word == "decimal":
            return pa.decimal128(declared.precision, declared.scale)
        return TYPED_WORDS.get(word) or typed_form(stored, path)

    def unpack(self, array: pa.Array) -> pa.Array:
        """Return the values without a dictionary, an extension type or a special list type."""
        if isinstance(array, pa.ExtensionArray):
            return self.unpack(array.storage)
        if pa.types.is_run_end_encoded(array.type):
            return self.unpack(pc.run_end_decode(array))
        stored = plain_storage(array.type)
        return array if stored == array.type else array.cast(stored)

    def convert(
        self, array: pa.Array, word: str, target: pa.DataType, symbols: tuple[str, ...]
    ) -> tuple[pa.Array, FailureReason]:
        """Return the values in type ``target``, null for values that failed, and the reason."""
        is_text = pa.types.is_string(array.type)
        if is_text and word in self._patterns and pa.types.is_temporal(target):
            tried = tuple(pattern.pattern if pattern else ISO for pattern in self._patterns[word])
            formats = " or ".join(map(_described, self._patterns[word]))
            exact = exact_shapes(word, self._digits) if _ISO_FORMS.issuperset(tried) else None
            reason = FailureReason(
                f"the text does not fit {formats}", _PATTERN_PROPERTIES[word], tried, exact
            )
            return self._parse(array, word, target), reason
        if is_text and pa.types.is_binary(target):
            charset = self._spec.binary_charset
            return _encode(array, charset), FailureReason(
                f"the text cannot be written in {charset}"
            )
        if symbols:
            known = pc.is_in(text_of(array), pa.array(symbols))
            reason = FailureReason(f"not one of the symbols {', '.join(symbols)}")
            return pc.if_else(known, array, None), reason
        if array.type == target:
            return array, FailureReason("")
        reason = FailureReason(f"{array.type} does not fit {target}")
        return _cast(array, target, self._spec.zone), reason

    def _parse(self, texts: pa.Array, word: str, target: pa.DataType) -> pa.Array:
        micros = pa.nulls(len(texts), pa.int64())
        for read in self._readings(word, target):
            left = pc.if_else(micros.is_null(), texts, None)
            if left.null_count == len(left):
                break
            micros = pc.coalesce(micros, read(left))
        if pa.types.is_time(target):
            return micros.cast(target)
        return micros.cast(INSTANT).cast(target)

    def _readings(self, word: str, target: pa.DataType) -> Iterator[_Reading]:
        """Yield functions that read texts as microseconds; each gets the texts not read before.

        Whole texts of ISO 8601 are read in addition to the patterns, unless a pattern gives such
        texts another meaning. A text with the form of a pattern that still fits none is no date.
        """
        patterns = self._patterns[word]
        named = [pattern for pattern in patterns if pattern is not None]
        exact = partial(self._parse_exact, word=word, target=target)
        if all(pattern.pattern in _ISO_FORMS for pattern in named):
            for each in named:
                yield partial(self._parse_by, each, target, parse_plain_pattern)
            yield exact
        for pattern in patterns:
            if pattern is None:
                yield exact
                yield partial(self._parse_iso, target=target)
            else:
                yield partial(self._parse_by, pattern, target, self._parse_pattern)
        if all(pattern.agrees_with_iso(self._spec.zone) for pattern in named):
            yield lambda texts: exact(_without_forms(texts, named))

    def _parse_by(
        self, pattern: JodaPattern, target: pa.DataType, parse: _Parse, texts: pa.Array
    ) -> pa.Array:
        """Return microseconds of the instant, of the date at midnight, or of the time of day."""
        if pa.types.is_timestamp(target):
            return pc.multiply(parse(texts, pattern, self._spec.zone), _US_PER_MS)
        # In UTC the result is the written date or time, unless the text names a zone.
        local = parse(texts, pattern, "UTC")
        if pattern.reads_zone:
            placed = local.cast(pa.timestamp("ms", tz=self._spec.zone))
            local = pc.local_timestamp(placed).cast(pa.int64())
        if pa.types.is_date(target):
            return pc.multiply(local, _US_PER_MS)
        days = pc.floor_temporal(local.cast(pa.timestamp("ms")), unit="day").cast(pa.int64())
        return pc.multiply(pc.subtract(local, days), _US_PER_MS)

    def _parse_exact(self, texts: pa.Array, *, word: str, target: pa.DataType) -> pa.Array:
        """Return microseconds of texts of ISO 8601 if the type holds every digit, else null."""
        if pa.types.is_date(target):
            return exact_dates(texts, self._spec.zone)
        if word != "time":
            return exact_instants(texts, self._spec.zone, self._digits)
        zone = "UTC" if pa.types.is_time(target) else self._spec.zone
        return exact_times(texts, zone, self._digits)

    def _parse_iso(self, texts: pa.Array, *, target: pa.DataType) -> pa.Array:
        """Return microseconds of all texts of ISO 8601, cut to the digits that the type holds."""
        if pa.types.is_time(target):
            return pc.multiply(parse_iso_time(texts), _US_PER_MS)
        instants = parse_whole_iso(texts, self._spec.zone)
        if not pa.types.is_timestamp(target):
            placed = instants.cast(pa.timestamp("ms", tz=self._spec.zone))
            instants = pc.floor_temporal(pc.local_timestamp(placed), unit="day").cast(pa.int64())
        return pc.multiply(instants, _US_PER_MS)


def _without_forms(texts: pa.Array, patterns: Sequence[JodaPattern]) -> pa.Array:
    """Return the texts with null in place of texts in the form of a pattern."""
    has_form = per_unique(
        texts, lambda text: any(pattern.has_form(text) for pattern in patterns), pa.bool_()
    )
    return pc.if_else(has_form, None, texts)


def _compiled(pattern: str) -> JodaPattern | None:
    """Return a compiled pattern, None if the text means ISO 8601."""
    return None if pattern == ISO else compile_pattern(pattern)


def _described(pattern: JodaPattern | None) -> str:
    """Return a pattern in quotes, and the reason if it cannot read texts."""
    if pattern is None:
        return f'"{ISO}"'
    reason = f" ({pattern.unreadable})" if pattern.unreadable else ""
    return f'"{pattern.pattern}"{reason}'


def plain_storage(data_type: pa.DataType) -> pa.DataType:
    """Return a type without a dictionary, an extension type or a special list type."""
    if isinstance(data_type, pa.BaseExtensionType):
        return plain_storage(data_type.storage_type)
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return plain_storage(data_type.value_type)
    if pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type):
        return pa.string()
    other_lists = (
        pa.types.is_large_list,
        pa.types.is_fixed_size_list,
        pa.types.is_list_view,
        pa.types.is_large_list_view,
    )
    if any(matches(data_type) for matches in other_lists):
        return pa.list_(data_type.value_field)
    return data_type


def _encode(texts: pa.Array, charset: str) -> pa.Array:
    if charset.upper().replace("-", "") == "UTF8":
        return texts.cast(pa.binary())

    def encode(text: str) -> bytes | None:
        try:
            return text.encode(charset)
        except UnicodeEncodeError:
            return None

    return per_unique(texts, encode, pa.binary())


def _cast(array: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    """Return equal values of another type; times are cut to microseconds, floats are rounded."""
    if pa.types.is_boolean(target) and not pa.types.is_boolean(array.type):
        return _flags(array)
    try:
        if pa.types.is_string(target):
            return text_of(array)
        if pa.types.is_temporal(target):
            return _cast_time(array, target, zone)
        if pa.types.is_floating(target):
            return _floats(array, target)
        return exact_cast(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return exact_or_null(array, target)


def _floats(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return the nearest floats; null for a number beyond their range.

    Numbers that are no floats become floats only if a person declared the column as float or
    double, which allows rounding.
    """
    made = fit_leaf(array, target, declared=True)
    if pa.types.is_floating(array.type):
        return pc.if_else(pc.and_(pc.is_inf(made), pc.is_finite(array)), None, made)
    return pc.if_else(pc.is_inf(made), None, made)


def _flags(array: pa.Array) -> pa.Array:
    """Return booleans for 0, 1 and the words for true and false; null for other values."""
    texts = array.cast(pa.string())
    known = pc.is_in(texts, pa.array(["0", "1", "false", "true"]))
    return pc.if_else(known, texts, None).cast(pa.bool_())


def _cast_time(array: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    source = array.type
    if pa.types.is_integer(source):
        return _cast_time(array.cast(pa.int64()).cast(_MILLIS), target, zone)
    if not pa.types.is_timestamp(source):
        return array.cast(target, safe=False)
    if pa.types.is_date(target):
        # Only a time at midnight becomes a date; another time would lose digits.
        moments = array.cast(pa.timestamp("us"), safe=False)
        days = moments.cast(target, safe=False)
        return pc.if_else(pc.equal(days.cast(moments.type), moments), days, None)
    if not pa.types.is_timestamp(target):
        return pa.nulls(len(array), target)
    return (
        _instants(array, zone).cast(target) if source.tz is None else array.cast(target, safe=False)
    )


def _instants(array: pa.Array, zone: str) -> pa.Array:
    """Return times without a zone as instants; null for a time that the zone's clocks skipped.

    A time that the clocks showed twice becomes the first instant.
    """
    local = array.cast(pa.timestamp("us"), safe=False)
    found = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
    is_kept = pc.equal(pc.local_timestamp(found), local)
    return found if pc.all(is_kept).as_py() is not False else pc.if_else(is_kept, found, None)
