"""Columns of Arrow in the words of Hive, and those that it does not hold."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dil.errors import ConversionError
from dil.model.job import OutputFormat
from dil.types.hive import hive_columns

PARQUET, ORC = OutputFormat.PARQUET, OutputFormat.ORC


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (pa.bool_(), "boolean"),
        (pa.int8(), "tinyint"),
        (pa.int16(), "smallint"),
        (pa.int32(), "int"),
        (pa.int64(), "bigint"),
        (pa.float32(), "float"),
        (pa.float64(), "double"),
        (pa.string(), "string"),
        (pa.binary(), "binary"),
        (pa.date32(), "date"),
        (pa.timestamp("us", tz="UTC"), "timestamp"),
        (pa.timestamp("ms"), "timestamp"),
        (pa.decimal128(38, 0), "decimal(38,0)"),
        (pa.decimal128(12, 2), "decimal(12,2)"),
        (pa.list_(pa.int64()), "array<bigint>"),
        (pa.map_(pa.string(), pa.float64()), "map<string,double>"),
        (
            pa.struct([("a", pa.int64()), ("b", pa.list_(pa.struct([("c", pa.date32())])))]),
            "struct<a:bigint,b:array<struct<c:date>>>",
        ),
    ],
)
def test_every_type_that_hive_has_is_named(kind, word):
    assert hive_columns(pa.schema([("x", kind)]), (), PARQUET) == (("x", word),)


@pytest.mark.parametrize(
    "kind",
    [
        pa.uint8(),
        pa.uint64(),
        pa.null(),
        pa.time64("us"),
        pa.timestamp("ns"),
        pa.decimal256(50, 2),
        pa.decimal128(5, -2),
        pa.duration("s"),
        pa.list_(pa.time32("ms")),
    ],
)
def test_what_hive_has_no_type_for_is_refused_with_its_column(kind):
    with pytest.raises(ConversionError, match=r'column "x.*no type'):
        hive_columns(pa.schema([("x", kind)]), (), PARQUET)


def test_a_time_of_day_is_a_number_in_orc():
    assert hive_columns(pa.schema([("t", pa.time64("us"))]), (), ORC) == (("t", "bigint"),)


def test_columns_that_folders_tell_are_not_among_those_of_files():
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32())])
    assert hive_columns(schema, ("day",), PARQUET) == (("id", "bigint"),)


@pytest.mark.parametrize(
    ("names", "apart"),
    [(("Id", "id"), ()), (("id", "D"), ("d",)), (("a,b",), ()), (("é" * 129,), ())],
)
def test_names_that_hive_cannot_tell_apart_or_hold_are_refused(names, apart):
    schema = pa.schema([(name, pa.int64()) for name in names])
    with pytest.raises(ConversionError, match="cannot be registered"):
        hive_columns(schema, apart, PARQUET)


def test_members_with_names_that_end_a_type_are_refused():
    with pytest.raises(ConversionError, match="member"):
        hive_columns(pa.schema([("x", pa.struct([("a:b", pa.int64())]))]), (), PARQUET)
