"""What a new column or a value of another type does, by the mode of the contract."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from dil.errors import ConversionError
from dil.model.schema import ArrayType, Column, ContractMode, MapType, Primitive, RecordType, Schema
from tests.unit.conversion.contracts import ingest

EVOLVE, FREEZE = ContractMode.EVOLVE, ContractMode.FREEZE
ROW, VALUE = ContractMode.DISCARD_ROW, ContractMode.DISCARD_VALUE
CLOSED = (FREEZE, ROW, VALUE)
KNOWN = "id: int32\nname: string"
DECLARED: Schema = (
    Column("id", Primitive("long"), nullable=False),
    Column("name", Primitive("string")),
    Column("born", Primitive("date")),
)
DATES = {"date_formats": ("yyyy-MM-dd",)}


def test_evolve_accepts_new_columns_and_other_types() -> None:
    found = ingest([[{"id": "x", "new": 1}]], EVOLVE, known=KNOWN)
    assert found.written == [{"id": "x", "new": 1}]
    assert (found.aside.rows, found.dropped) == ([], 0)


@pytest.mark.parametrize("mode", CLOSED)
def test_without_a_known_schema_everything_is_accepted(mode: ContractMode) -> None:
    found = ingest([[{"id": 1}], [{"id": 2, "new": "x"}]], mode)
    assert [row["id"] for row in found.written] == [1, 2]
    assert found.dropped == 0


@pytest.mark.parametrize("mode", CLOSED)
def test_rows_of_the_known_schema_pass_in_its_order_and_types(mode: ContractMode) -> None:
    found = ingest([[{"name": "a", "id": 1}, {"id": 2}]], mode, known="id: int64\nname: string")
    assert found.written == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    assert found.schema is not None
    assert found.schema.types == [pa.int64(), pa.string()]
    assert found.aside.rows == []


@pytest.mark.parametrize(
    ("known", "value", "written"),
    [
        ("int64", 5, 5),
        ("double", 5, 5.0),
        ("string", 5, "5"),
        ("string", 2.5, "2.5"),
        ("decimal128(20, 2)", 5, Decimal("5.00")),
        ("decimal128(20, 2)", 0.1, Decimal("0.10")),
        ("string", True, "true"),
        ("struct<a: int64, b: string>", {"a": 1}, {"a": 1, "b": None}),
        ("list<item: double>", [1, 2], [1.0, 2.0]),
        ("list<item: struct<a: int64>>", [{"a": 1}, None, {}], [{"a": 1}, None, {"a": None}]),
        ("struct<a: int64>", {}, {"a": None}),
        ("list<item: int64>", [], []),
    ],
)
def test_a_narrower_value_is_no_change_and_is_written_in_the_known_type(
    known: str, value: object, written: object
) -> None:
    found = ingest([[{"c": value}, {"c": None}]], FREEZE, known=f"c: {known}")
    assert found.written == [{"c": written}, {"c": None}]
    assert found.schema is not None
    assert str(found.schema.field("c").type) == known


@pytest.mark.parametrize(
    ("known", "value"),
    [
        ("int32", "x"),
        ("int32", 3_000_000_000),
        ("int32", 2.5),
        ("int32", "007"),
        ("int32", True),
        ("bool", 1),
        ("double", 2**53 + 1),
        ("decimal128(3, 1)", 0.25),
        ("decimal128(3, 1)", 1000),
        ("date32[day]", "2020-01-01"),
        ("string", {"a": 1}),
        ("string", [1]),
        ("struct<a: int64>", "x"),
        ("struct<a: int64>", {"a": "x"}),
        ("list<item: int64>", [1, "x"]),
    ],
)
def test_a_value_of_another_type_fails_puts_its_row_aside_or_is_left_out(
    known: str, value: object
) -> None:
    rows = [{"id": 1, "c": value}, {"id": 2}]
    text = f"id: int64\nc: {known}"
    with pytest.raises(ConversionError, match="the schema contract is broken"):
        ingest([rows], FREEZE, known=text)

    aside = ingest([rows], ROW, known=text)
    assert [row["id"] for row in aside.written] == [2]
    assert [row["id"] for row in aside.aside.rows] == [1]
    assert aside.dropped == 1

    left_out = ingest([rows], VALUE, known=text)
    assert [row["id"] for row in left_out.written] == [1, 2]
    assert sum(left_out.aside.discarded.values()) == 1
    assert (left_out.aside.rows, left_out.dropped) == ([], 0)


def test_one_unfit_value_leaves_the_rows_around_it_alone() -> None:
    found = ingest([[{"id": 1}, {"id": "two"}, {"id": 3}]], ROW, known="id: int32")
    assert found.written == [{"id": 1}, {"id": 3}]
    (why,) = found.aside.reasons
    assert (why.row, why.column) == (1, "id")
    assert why.reason == (
        "a value read as string does not fit the column's int32, "
        'it looks like "aaa" (9 means a digit, a means a letter)'
    )
    assert "two" not in why.reason


@pytest.mark.parametrize("path", ["new", "r.new", "l[].new"])
def test_a_column_that_is_not_known_is_found_at_any_depth(path: str) -> None:
    known = "id: int32\nr: struct<a: int32>\nl: list<item: struct<a: int32>>"
    fit = {"id": 1, "r": {"a": 1}, "l": [{"a": 1}, {"a": 2}]}
    unfit = {"id": 2, "r": {"a": 1}, "l": [{"a": 1}, {"a": 2}]}
    holder = {"new": unfit, "r.new": unfit["r"], "l[].new": unfit["l"][1]}[path]
    holder["new"] = 7

    with pytest.raises(ConversionError) as caught:
        ingest([[fit, unfit]], FREEZE, known=known)
    assert f'column "{path}", row 2 of page 1' in caught.value.message
    assert "its type is int32" in caught.value.message
    assert '"9"' in caught.value.message
    assert "-D ms.schema.contract=evolve" in caught.value.fix

    aside = ingest([[fit, unfit]], ROW, known=known)
    assert aside.written == [fit]
    assert [each.column for each in aside.aside.reasons] == [path]

    left_out = ingest([[fit, unfit]], VALUE, known=known)
    assert len(left_out.written) == 2
    assert left_out.aside.discarded == {path: 1}
    assert left_out.schema == aside.schema


@pytest.mark.parametrize("mode", CLOSED)
def test_an_unknown_column_without_any_value_is_no_change(mode: ContractMode) -> None:
    found = ingest([[{"id": 1, "new": None}]], mode, known="id: int32")
    assert found.written == [{"id": 1}]
    assert (found.dropped, found.aside.discarded) == (0, {})


def test_the_row_of_a_broken_contract_is_counted_in_its_page() -> None:
    with pytest.raises(ConversionError, match="row 2 of page 2"):
        ingest([[{"id": 1}, {"id": 2}], [{"id": 3}, {"id": "x"}]], FREEZE, known="id: int32")


def test_a_null_where_none_may_be_costs_the_row_even_where_values_are_left_out() -> None:
    known = "id: int64 not null\nname: string"
    rows = [{"id": 1, "name": "a"}, {"name": "b"}, {"id": "x", "name": "c"}]
    with pytest.raises(ConversionError, match="null, but the column is not nullable"):
        ingest([rows[:2]], FREEZE, known=known)
    for mode in (ROW, VALUE):
        found = ingest([rows], mode, known=known)
        assert [row["name"] for row in found.written] == ["a"]
        assert [row["name"] for row in found.aside.rows] == ["b", "c"]


def test_a_column_that_is_missing_altogether_and_must_not_be_null_costs_every_row() -> None:
    found = ingest([[{"name": "a"}]], ROW, known="id: int64 not null\nname: string")
    assert (found.written, found.dropped) == ([], 1)


def test_members_of_records_that_are_null_miss_nothing() -> None:
    known = "r: struct<a: int64 not null>"
    found = ingest([[{"r": {"a": 1}}, {"r": None}, {"r": {"a": None}}]], ROW, known=known)
    assert found.written == [{"r": {"a": 1}}, {"r": None}]
    assert [each.column for each in found.aside.reasons] == ["r.a"]


def test_a_recorded_schema_that_cannot_be_read_says_what_to_do() -> None:
    with pytest.raises(ConversionError) as caught:
        ingest([[{"id": 1}]], FREEZE, known="id: spaceship")
    assert "ms.output.schema" in caught.value.fix


# By ms.output.schema


def test_declared_columns_come_in_their_types_under_every_mode() -> None:
    row = {"id": 1, "name": "a", "born": "2020-01-02"}
    expected = [{"id": 1, "name": "a", "born": dt.date(2020, 1, 2)}]
    for mode in ContractMode:
        assert ingest([[row]], mode, schema=DECLARED, **DATES).written == expected


def test_the_declared_schema_wins_over_the_recorded_one() -> None:
    row = {"id": 2**40, "name": "a", "born": None}
    found = ingest([[row]], FREEZE, known="id: int32", schema=DECLARED, **DATES)
    assert found.written == [row]


@pytest.mark.parametrize(
    ("bad", "column"),
    [
        ({"id": "x", "name": "b"}, "id"),
        ({"id": None, "name": "b"}, "id"),
        ({"id": 2, "name": "b", "born": "yesterday"}, "born"),
        ({"id": 2, "name": "b", "extra": 1}, "extra"),
    ],
)
def test_rows_that_break_a_declared_schema_are_put_aside_one_by_one(
    bad: dict[str, object], column: str
) -> None:
    good = {"id": 1, "name": "a", "born": "2020-01-02"}
    found = ingest([[good, bad, good]], ROW, schema=DECLARED, **DATES)
    assert {row["id"] for row in found.written} == {1}
    assert [each.column for each in found.aside.reasons] == [column]
    assert found.read == len(found.written) + found.dropped

    with pytest.raises(ConversionError, match=f'column "{column}"'):
        ingest([[good, bad]], FREEZE, schema=DECLARED, **DATES)


def test_an_unfit_value_of_a_declared_column_that_may_be_null_is_left_out() -> None:
    bad = {"id": 2, "name": "b", "born": "yesterday", "extra": 1}
    found = ingest([[bad]], VALUE, schema=DECLARED, **DATES)
    assert found.written == [{"id": 2, "name": "b", "born": None}]
    assert found.aside.discarded == {"born": 1, "extra": 1}


def test_numbers_are_rounded_only_into_declared_floats() -> None:
    schema = (Column("c", Primitive("double")),)
    assert ingest([[{"c": 2**53 + 1}]], FREEZE, schema=schema).written == [{"c": float(2**53)}]


def test_nested_declared_columns_keep_their_types() -> None:
    schema: Schema = (
        Column("r", RecordType((Column("d", Primitive("date")), Column("n", Primitive("long"))))),
        Column("l", ArrayType(Primitive("double"))),
    )
    rows = [{"r": {"d": "2020-01-02", "n": 1}, "l": [1, 2.5]}, {"r": None, "l": None}]
    found = ingest([rows], FREEZE, schema=schema, **DATES)
    assert found.written[0] == {"r": {"d": dt.date(2020, 1, 2), "n": 1}, "l": [1.0, 2.5]}
    assert found.written[1] == {"r": None, "l": None}


def test_a_declared_map_is_read_as_it_is_given() -> None:
    schema: Schema = (Column("m", MapType(Primitive("long"))),)
    found = ingest([[{"m": {"a": 1}, "extra": 2}]], ROW, schema=schema)
    assert found.written == [{"m": [("a", 1)]}]


def test_conversion_failures_that_are_tolerated_are_put_aside_under_evolve() -> None:
    rows = [{"id": 1, "name": "a", "born": "never"}, {"id": 2, "name": "b", "born": "2020-01-02"}]
    found = ingest([rows], EVOLVE, schema=DECLARED, max_failures=1, **DATES)
    assert [row["id"] for row in found.written] == [2]
    assert [row["id"] for row in found.aside.rows] == [1]
    with pytest.raises(ConversionError):
        ingest([rows], EVOLVE, schema=DECLARED, max_failures=0, **DATES)
