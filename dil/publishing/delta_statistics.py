"""Makes the values in a Delta log by which readers skip whole files: statistics and partitions.

Source: the Delta transaction protocol, "Per-file Statistics", "Partition Value Serialization".
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import Schema

from dil.model.interval import DAY_MS
from dil.types.table_formats import unfit

_LONGEST_TEXT = 64
_FEW_ROWS = 65_536
_LAST_CHARACTER = "\U0010ffff"
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the format's text has the zone
_PER_MS = {"ms": 1, "us": 1_000}

Bounds = tuple[object, object]


def statistics(file: pq.ParquetFile) -> str:
    """Return a file's row count, and the null counts and bounds of its flat columns, as JSON.

    The text has all these bounds or none; a record has an empty set of bounds. If the bounds of one
    column were missing, the filter of Delta's library would compare the column to null, and would
    find no row of the file.
    """
    footer, schema = file.metadata, file.schema_arrow
    least: dict[str, object] = {}
    most: dict[str, object] = {}
    nulls: dict[str, int] = {}
    for name in (field.name for field in schema if pa.types.is_struct(field.type)):
        least[name], most[name] = {}, {}
    for place, name in _flat_columns(footer, schema):
        groups = [
            footer.row_group(n).column(place).statistics for n in range(footer.num_row_groups)
        ]
        if not all(each is not None and each.has_null_count for each in groups):
            return _bare(footer)
        nulls[name] = sum(each.null_count for each in groups)
        if nulls[name] == footer.num_rows:
            continue
        bounds = _bounds(schema.field(name).type, [each for each in groups if each.num_values])
        if bounds is None:
            return _bare(footer)
        least[name], most[name] = bounds
    if _has_nan(file, [name for name in least if pa.types.is_floating(schema.field(name).type)]):
        return _bare(footer)
    known = {"minValues": least, "maxValues": most, "nullCount": nulls}
    return msgspec.json.encode({"numRecords": footer.num_rows, **known}).decode()


def _bare(footer: pq.FileMetaData) -> str:
    return msgspec.json.encode({"numRecords": footer.num_rows}).decode()


def _flat_columns(footer: pq.FileMetaData, schema: pa.Schema) -> list[tuple[int, str]]:
    """Return the columns for which readers expect bounds: all except records, lists and bytes."""
    found = []
    for place in range(footer.num_columns):
        column = footer.schema.column(place)
        if column.path == column.name and not column.max_repetition_level:
            kind = schema.field(column.name).type
            if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
                found.append((place, column.name))
    return found


def _has_nan(file: pq.ParquetFile, names: Sequence[str]) -> bool:
    """Return whether float columns hold NaN, which the footer's bounds ignore.

    For some readers NaN is larger than every number.
    """
    if not names:
        return False
    # Starting threads takes longer than reading a few rows.
    use_threads = file.metadata.num_rows > _FEW_ROWS
    batches = file.iter_batches(columns=list(names), use_threads=use_threads)
    return any(pc.any(pc.is_nan(batch[name])).as_py() for batch in batches for name in names)


def _bounds(kind: pa.DataType, groups: Sequence[pq.Statistics]) -> Bounds | None:
    """Return a lower and an upper bound of a column, None if they are not known."""
    if not all(each.has_min_max for each in groups):
        return None
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        # Computed with numbers, because Python has no dates after the year 9999.
        return _times(
            kind, min(each.min_raw for each in groups), max(each.max_raw for each in groups)
        )
    low, high = min(each.min for each in groups), max(each.max for each in groups)
    if isinstance(low, str):
        return _texts(low, high)
    if isinstance(low, float):
        return (low, high) if math.isfinite(low) and math.isfinite(high) else None
    if isinstance(low, Decimal):
        return _number(low), _number(high)
    return low, high


def _times(kind: pa.DataType, low: int, high: int) -> Bounds | None:
    try:
        if pa.types.is_date32(kind):
            return _at(low * DAY_MS)[:10], _at(high * DAY_MS)[:10]
        per_ms = _PER_MS[kind.unit]
        return f"{_at(low // per_ms)}Z", f"{_at(-(-high // per_ms))}Z"
    except OverflowError:
        return None


def _at(ms: int) -> str:
    return (_EPOCH + dt.timedelta(milliseconds=ms)).isoformat(timespec="milliseconds")


def _texts(low: str, high: str) -> Bounds | None:
    """Return both bounds as texts; a long text is cut, and its last character covers the rest."""
    if len(high) > _LONGEST_TEXT:
        cut = high[:_LONGEST_TEXT] + _LAST_CHARACTER
        if cut < high:
            return None
        high = cut
    return low[:_LONGEST_TEXT], high


def _number(value: Decimal) -> msgspec.Raw:
    """Return a decimal with all its digits, as a number without an exponent."""
    return msgspec.Raw(format(value, "f").encode())


def partition_values(table: Schema, texts: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the values of partition columns in Delta's own text form.

    A value that a reader cannot parse as the column's type would make the whole table unreadable.

    Raises:
        WriteError: the column's type cannot distinguish files, or the text is not a value of that
            type.
    """
    kinds = {field.name: field.type for field in pa.schema(table.to_arrow())}
    return {name: _value(name, kinds[name], text) for name, text in texts.items()}


def _value(name: str, kind: pa.DataType, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return _serialized(kind, text)
    except (ValueError, ArithmeticError) as error:
        raise unfit(name, kind, f'by which files cannot be distinguished as "{text}"') from error


def _serialized(kind: pa.DataType, text: str) -> str:
    """Return a value's text in the one form that readers of Delta accept."""
    if pa.types.is_integer(kind):
        return str(pa.scalar(int(text), kind).as_py())
    if pa.types.is_decimal(kind):
        value = Decimal(text)
        exact = value.quantize(Decimal(1).scaleb(-kind.scale))
        if exact != value or len(exact.as_tuple().digits) > kind.precision:
            raise InvalidOperation(text)
        return format(exact, "f")
    if pa.types.is_date(kind):
        return dt.date.fromisoformat(text).isoformat()
    is_text = pa.types.is_string(kind) or pa.types.is_string_view(kind)
    if (is_text and text) or (pa.types.is_boolean(kind) and text in {"true", "false"}):
        return text
    raise ValueError(text)
