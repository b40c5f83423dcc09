from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from dil.conversion.joining import join_batches
from dil.model.arrow import raw_schema, type_word
from dil.model.schema import ArrayType, Column, Primitive, RecordType, Schema


def page(values: list[Any], word: str) -> pa.RecordBatch:
    kind = Primitive("decimal", 38, 2) if word == "decimal" else Primitive(word)
    schema: Schema = (Column("c", kind),)
    return pa.RecordBatch.from_pylist([{"c": value} for value in values], raw_schema(schema))


@pytest.mark.parametrize(
    ("one", "other", "word", "values"),
    [
        (page([1], "int"), page([2**40], "long"), "long", [1, 2**40]),
        (page([1], "int"), page([0.5], "double"), "double", [1.0, 0.5]),
        (page([2**53 + 1], "long"), page([0.5], "double"), "string", ["9007199254740993", "0.5"]),
        (page([None], "string"), page([5], "int"), "int", [None, 5]),
        (page([5], "int"), page([None], "string"), "int", [5, None]),
        (page([5], "int"), page(["x"], "string"), "string", ["5", "x"]),
        (page([True], "boolean"), page([1], "int"), "string", ["true", "1"]),
        (page(["2020-01-01"], "date"), page([1], "int"), "string", ["2020-01-01", "1"]),
    ],
)
def test_a_column_gets_the_type_that_holds_all_values_exactly(
    one: pa.RecordBatch, other: pa.RecordBatch, word: str, values: list[Any]
) -> None:
    made = join_batches([one, other])
    assert made.column("c").to_pylist() == values
    assert type_word(made.schema.field("c")) == word


def test_doubles_and_decimals_meet_as_decimals_without_rounding() -> None:
    made = join_batches([page([0.1], "double"), page([Decimal("1.25")], "decimal")])
    assert made.column("c").to_pylist() == [Decimal("0.10"), Decimal("1.25")]
    assert type_word(made.schema.field("c")) == "decimal"


def test_pages_of_one_schema_keep_the_words_of_all_depths() -> None:
    kind = ArrayType(RecordType((Column("day", Primitive("date")),)))
    schema = raw_schema((Column("c", kind),))
    batch = pa.RecordBatch.from_pylist([{"c": [{"day": "2020-01-01"}]}], schema)
    made = join_batches([batch, batch.slice(0, 1)])
    assert made.schema.equals(schema, check_metadata=True)


def test_columns_come_in_the_order_in_which_they_appear() -> None:
    one, other = pa.record_batch({"a": [1], "b": [1]}), pa.record_batch({"c": [1], "a": [2]})
    made = join_batches([one, other])
    assert made.to_pylist() == [{"a": 1, "b": 1, "c": None}, {"a": 2, "b": None, "c": 1}]


def test_empty_objects_become_records_once_a_member_appears() -> None:
    empty = pa.record_batch({"o": pa.array([[], None], pa.map_(pa.string(), pa.string()))})
    made = join_batches([empty, pa.record_batch({"o": [{"x": 1}]})])
    assert made.column("o").to_pylist() == [{"x": None}, None, {"x": 1}]
