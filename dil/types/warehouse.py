"""The column types of warehouses as Arrow types, and whether one holds the values of another.

The types that a column can have: bool, int16, int32, int64, float, double, decimal, text, binary,
date32, time64[us], timestamp[us] with UTC or without a zone, and JSON, which is text.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from dil.types.lattice import INSTANT, decimal_type

JSON = pa.json_(pa.string())
TEXT = pa.string()
_DIGITS = {pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
_INTEGERS = {
    pa.int8(): pa.int16(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
# Decimals are missing here, because their words contain their digits. JSON becomes text in MySQL,
# because MySQL's JSON type rounds numbers; MariaDB's JSON type is text anyway. MySQL's FLOAT shows
# only six digits. SQLite stores the words and derives the storage from them: TIMESTAMPTZ and DATE
# keep text as text.
_WORDS: tuple[tuple[pa.DataType, str, str, str, str], ...] = (
    # type, PostgreSQL, MySQL, SQLite, DuckDB
    (pa.bool_(), "boolean", "tinyint(1)", "BOOLEAN", "BOOLEAN"),
    (pa.int16(), "smallint", "smallint", "INTEGER", "SMALLINT"),
    (pa.int32(), "integer", "int", "INTEGER", "INTEGER"),
    (pa.int64(), "bigint", "bigint", "INTEGER", "BIGINT"),
    (pa.float32(), "real", "double", "REAL", "FLOAT"),
    (pa.float64(), "double precision", "double", "REAL", "DOUBLE"),
    (TEXT, "text", "longtext", "TEXT", "VARCHAR"),
    (pa.binary(), "bytea", "longblob", "BLOB", "BLOB"),
    (pa.date32(), "date", "date", "DATE", "DATE"),
    (pa.time64("us"), "time without time zone", "time(6)", "TIME", "TIME"),
    (pa.timestamp("us"), "timestamp without time zone", "datetime(6)", "TIMESTAMP", "TIMESTAMP"),
    (INSTANT, "timestamp with time zone", "datetime(6)", "TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"),
    (JSON, "jsonb", "longtext", "JSON", "JSON"),
)
POSTGRESQL_WORDS = {kind: word for kind, word, _, _, _ in _WORDS}
MYSQL_WORDS = {kind: word for kind, _, word, _, _ in _WORDS}
SQLITE_WORDS = {kind: word for kind, _, _, word, _ in _WORDS}
DUCKDB_WORDS = {kind: word for kind, _, _, _, word in _WORDS}


def column_type(staged: pa.DataType) -> pa.DataType | None:
    """Return the type of the column that keeps staged values exactly, None if there is none."""
    if pt.is_dictionary(staged):
        return column_type(staged.value_type)
    if staged in _INTEGERS:
        return _INTEGERS[staged]
    if pt.is_decimal(staged):
        whole, scale = staged.precision - staged.scale, max(staged.scale, 0)
        return decimal_type(whole + scale, scale)
    if pt.is_timestamp(staged):
        return INSTANT if staged.tz else pa.timestamp("us")
    kinds = (
        (pt.is_nested, JSON),
        (pt.is_null, TEXT),
        (pt.is_string, TEXT),
        (pt.is_large_string, TEXT),
        (pt.is_string_view, TEXT),
        (pt.is_binary, pa.binary()),
        (pt.is_large_binary, pa.binary()),
        (pt.is_fixed_size_binary, pa.binary()),
        (pt.is_date, pa.date32()),
        (pt.is_time, pa.time64("us")),
        (pt.is_float16, pa.float32()),
        (pt.is_boolean, staged),
        (pt.is_integer, staged),
        (pt.is_floating, staged),
    )
    return next((kept for matches, kept in kinds if matches(staged)), None)


def holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Return whether a column of one type keeps every value of another type exactly."""
    if wide == narrow:
        return True
    if narrow in _DIGITS:
        return _holds_integers(wide, narrow)
    if pt.is_decimal(wide) and pt.is_decimal(narrow):
        has_whole = wide.precision - wide.scale >= narrow.precision - narrow.scale
        return bool(wide.scale >= narrow.scale and has_whole)
    if pt.is_float32(narrow):
        return bool(pt.is_float64(wide))
    return bool(wide == TEXT and (narrow == JSON or pt.is_decimal(narrow)))


def _holds_integers(wide: pa.DataType, narrow: pa.DataType) -> bool:
    digits = _DIGITS[narrow]
    if wide in _DIGITS:
        return _DIGITS[wide] >= digits
    if pt.is_decimal(wide):
        return bool(wide.precision - wide.scale >= digits)
    return bool(wide == TEXT or (pt.is_float64(wide) and narrow != pa.int64()))
