"""Flat values in the typed form. What cannot be converted becomes null, with the reason beside it.

Source: behaviour.md B11.3, B11.3.1; spec README 36.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from dil.conversion.failures import Reason
from dil.conversion.fitting import fit_leaf
from dil.conversion.native_types import INSTANT, typed_form
from dil.conversion.texts import parse_pattern, per_unique, text_of
from dil.model.exact_decimals import exact_cast
from dil.model.job import ConversionSpec, OutputFormat
from dil.model.schema import DataType, Primitive
from dil.text.joda import JodaPattern, compile_pattern

_MILLIS = pa.timestamp("ms", tz="UTC")
_TEMPORAL = {"date": pa.date32(), "time": pa.time64("us"), "timestamp": INSTANT}
_PATTERN_PROPERTIES = {
    "date": "converter.avro.date.format",
    "time": "converter.avro.time.format",
    "timestamp": "converter.avro.timestamp.format",
}
_FLAT = {
    "string": pa.string(),
    "enum": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
}


class Values:
    """Conversion of flat values by one job's formats, zone and charset.

    In Avro a date or time of the source is a point in time: the whole text in the job's zone, as
    milliseconds. So for Avro such text becomes an instant; for other formats the date or the time
    of day that the text names.
    """

    def __init__(self, spec: ConversionSpec, output_format: OutputFormat) -> None:
        self._spec = spec
        self._keeps_instants = output_format is OutputFormat.AVRO
        self._patterns: dict[str, tuple[JodaPattern, ...]] = {
            "date": tuple(map(compile_pattern, spec.date_formats)),
            "time": tuple(map(compile_pattern, spec.time_formats)),
            "timestamp": tuple(map(compile_pattern, spec.timestamp_formats)),
        }

    def leaf_type(
        self, word: str, stored: pa.DataType, declared: DataType | None, path: str
    ) -> pa.DataType:
        """Return the typed form of a flat column: of its word, or of its Arrow type without one."""
        if word in _TEMPORAL:
            is_text = pa.types.is_string(stored) or pa.types.is_integer(stored)
            return INSTANT if is_text and self._keeps_instants else _TEMPORAL[word]
        if isinstance(declared, Primitive) and word == "decimal":
            return pa.decimal128(declared.precision, declared.scale)
        return _FLAT.get(word) or typed_form(stored, path)

    def unpack(self, array: pa.Array) -> pa.Array:
        """Return the values themselves, without dictionary, extension or exotic list around."""
        if isinstance(array, pa.ExtensionArray):
            return self.unpack(array.storage)
        if pa.types.is_run_end_encoded(array.type):
            return self.unpack(pc.run_end_decode(array))
        stored = plain_storage(array.type)
        return array if stored == array.type else array.cast(stored)

    def convert(
        self, array: pa.Array, word: str, target: pa.DataType, symbols: tuple[str, ...]
    ) -> tuple[pa.Array, Reason]:
        """Return the values in type ``target``, null where that failed, and why it failed."""
        is_text = pa.types.is_string(array.type)
        if is_text and word in self._patterns and pa.types.is_temporal(target):
            tried = tuple(pattern.pattern for pattern in self._patterns[word])
            formats = " or ".join(f'"{pattern}"' for pattern in tried)
            reason = Reason(f"the text does not fit {formats}", _PATTERN_PROPERTIES[word], tried)
            return self._parse(array, word, target), reason
        if is_text and pa.types.is_binary(target):
            charset = self._spec.binary_charset
            return _encode(array, charset), Reason(f"the text cannot be written in {charset}")
        if symbols:
            known = pc.is_in(text_of(array), pa.array(symbols))
            reason = Reason(f"not one of the symbols {', '.join(symbols)}")
            return pc.if_else(known, array, None), reason
        if array.type == target:
            return array, Reason("")
        reason = Reason(f"{array.type} does not fit {target}")
        return _cast(array, target, self._spec.zone), reason

    def _parse(self, texts: pa.Array, word: str, target: pa.DataType) -> pa.Array:
        parsed = pa.nulls(len(texts), pa.int64())
        for pattern in self._patterns[word]:
            left = pc.if_else(parsed.is_null(), texts, None)
            if left.null_count == len(left):
                break
            parsed = pc.coalesce(parsed, self._parse_by(left, pattern, target))
        if pa.types.is_time(target):
            return pc.multiply(parsed, 1000).cast(target)
        return parsed.cast(_MILLIS).cast(target)

    def _parse_by(self, texts: pa.Array, pattern: JodaPattern, target: pa.DataType) -> pa.Array:
        """Return milliseconds: of the instant, of the date at midnight, or of the day so far."""
        if pa.types.is_timestamp(target):
            return parse_pattern(texts, pattern, self._spec.zone)
        # The date or time as it is written, unless the text has a zone of its own.
        local = parse_pattern(texts, pattern, "UTC")
        if pattern.reads_zone:
            placed = local.cast(pa.timestamp("ms", tz=self._spec.zone))
            local = pc.local_timestamp(placed).cast(pa.int64())
        if pa.types.is_date(target):
            return local
        days = pc.floor_temporal(local.cast(pa.timestamp("ms")), unit="day").cast(pa.int64())
        return pc.subtract(local, days)


def plain_storage(data_type: pa.DataType) -> pa.DataType:
    """Return a type without dictionary, extension or exotic list around it."""
    if isinstance(data_type, pa.BaseExtensionType):
        return plain_storage(data_type.storage_type)
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return plain_storage(data_type.value_type)
    if pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type):
        return pa.string()
    if _is_other_list(data_type):
        return pa.list_(data_type.value_field)
    return data_type


def _is_other_list(data_type: pa.DataType) -> bool:
    checks: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_large_list,
        pa.types.is_fixed_size_list,
        pa.types.is_list_view,
        pa.types.is_large_list_view,
    )
    return any(matches(data_type) for matches in checks)


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
    """Return equal values; times finer than a microsecond are cut, floats are the nearest ones."""
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
        return _cast_each(array, target)


def _floats(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return the nearest floats; null for a number beyond their range.

    Other numbers become floats only where a person declared the column so, which asks for rounding.
    """
    made = fit_leaf(array, target, declared=True)
    if pa.types.is_floating(array.type):
        return pc.if_else(pc.and_(pc.is_inf(made), pc.is_finite(array)), None, made)
    return pc.if_else(pc.is_inf(made), None, made)


def _flags(array: pa.Array) -> pa.Array:
    """Return 0 and 1, and the words for them, as booleans; other values are not theirs."""
    texts = array.cast(pa.string())
    known = pc.is_in(texts, pa.array(["0", "1", "false", "true"]))
    return pc.if_else(known, texts, None).cast(pa.bool_())


def _cast_time(array: pa.Array, target: pa.DataType, zone: str) -> pa.Array:
    source = array.type
    if pa.types.is_integer(source):
        return _cast_time(array.cast(pa.int64()).cast(_MILLIS), target, zone)
    if not pa.types.is_timestamp(source):
        return array.cast(target, safe=False)
    if not pa.types.is_timestamp(target):
        return _part_of(array, target)
    return (
        _instants(array, zone).cast(target) if source.tz is None else array.cast(target, safe=False)
    )


def _instants(array: pa.Array, zone: str) -> pa.Array:
    """Return times without a zone as instants; null for one that the zone's clocks skipped.

    Of a time that came twice it is the first.
    """
    local = array.cast(pa.timestamp("us"), safe=False)
    found = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
    is_kept = pc.equal(pc.local_timestamp(found), local)
    return found if pc.all(is_kept).as_py() is not False else pc.if_else(is_kept, found, None)


def _part_of(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return the date of times at midnight; any other part of a time would lose the rest."""
    if not pa.types.is_date(target):
        return pa.nulls(len(array), target)
    moments = array.cast(pa.timestamp("us"), safe=False)
    days = moments.cast(target, safe=False)
    return pc.if_else(pc.equal(days.cast(moments.type), moments), days, None)


def _cast_each(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast value by value, so that one bad value does not spoil the others."""

    def cast(value: pa.Scalar) -> pa.Scalar:
        try:
            return exact_cast(pa.array([value.as_py()], value.type), target)[0]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return pa.scalar(None, target)

    encoded = array.dictionary_encode()
    converted = pa.array([cast(value).as_py() for value in encoded.dictionary], target)
    return converted.take(encoded.indices)
