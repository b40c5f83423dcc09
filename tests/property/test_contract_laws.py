"""Laws of the schema contract, over random rows, pages and modes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.errors import ConversionError
from dil.model.schema import Column, ContractMode, Primitive, Schema
from dil.types.merging import wider
from dil.types.schema_text import merged_text, parse_schema, schema_text
from tests.unit.conversion.contracts import Outcome, ingest

KNOWN = "id: int64 not null\na: int32\nb: string\nr: struct<x: int64, y: string>"
DECLARED: Schema = (
    Column("id", Primitive("long"), nullable=False),
    Column("a", Primitive("int")),
    Column("b", Primitive("boolean")),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**66), 2**66),
    st.integers(-5, 5),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "1", "-7", "007", "2.5", "1e3", "true", "x"]),
)
records = st.none() | st.fixed_dictionaries({}, optional={"x": scalars, "y": scalars, "z": scalars})
rows = st.lists(
    st.fixed_dictionaries(
        {"id": st.none() | st.integers(0, 9) | st.just("k"), "n": st.integers(0, 10**6)},
        optional={"a": scalars, "b": scalars, "r": records, "new": scalars},
    ),
    min_size=1,
    max_size=8,
)
pages = st.lists(rows, min_size=1, max_size=3)
discarding = st.sampled_from([ContractMode.DISCARD_ROW, ContractMode.DISCARD_VALUE])


def with_n(text: str) -> str:
    return f"{text}\nn: int64"


def balanced(found: Outcome) -> bool:
    return found.read == len(found.written) + len(found.aside.rows) and found.dropped == len(
        found.aside.rows
    )


@settings(max_examples=40, deadline=None)
@given(pages=pages, mode=discarding)
def test_every_row_read_is_written_or_put_aside_and_none_is_both(
    pages: list[list[dict[str, Any]]], mode: ContractMode
) -> None:
    numbered = [[{**row, "n": 100 * p + r} for r, row in enumerate(page)]
                for p, page in enumerate(pages)]  # fmt: skip
    found = ingest(numbered, mode, known=with_n(KNOWN))

    assert balanced(found)
    every = sorted(row["n"] for page in numbered for row in page)
    assert sorted([*(r["n"] for r in found.written), *(r["n"] for r in found.aside.rows)]) == every
    if found.schema is not None:
        assert found.schema.equals(parse_schema(with_n(KNOWN)))


@settings(max_examples=30, deadline=None)
@given(pages=pages, mode=discarding)
def test_the_same_holds_for_a_declared_schema(
    pages: list[list[dict[str, Any]]], mode: ContractMode
) -> None:
    schema = (*DECLARED, Column("n", Primitive("long")))
    assert balanced(ingest(pages, mode, schema=schema))


@settings(max_examples=30, deadline=None)
@given(pages=pages)
def test_freeze_writes_all_rows_or_fails_and_then_discarding_would_have_acted(
    pages: list[list[dict[str, Any]]],
) -> None:
    known = with_n(KNOWN)
    strict = ingest(pages, ContractMode.DISCARD_ROW, known=known)
    try:
        found = ingest(pages, ContractMode.FREEZE, known=known)
    except ConversionError:
        assert strict.dropped > 0
    else:
        assert len(found.written) == found.read
        assert strict.dropped == 0
        assert strict.written == found.written


@settings(max_examples=20, deadline=None)
@given(pages=pages, known=st.sampled_from(["", with_n(KNOWN)]))
def test_evolve_never_puts_a_row_aside(pages: list[list[dict[str, Any]]], known: str) -> None:
    found = ingest(pages, ContractMode.EVOLVE, known=known)
    assert (found.aside.rows, found.dropped, len(found.written)) == ([], 0, found.read)


@settings(max_examples=30, deadline=None)
@given(pages=pages)
def test_rows_that_pass_are_what_a_reading_without_a_contract_holds(
    pages: list[list[dict[str, Any]]],
) -> None:
    """A value that is kept is the source's, whatever type it is written in."""
    numbered = [[{**row, "n": 100 * p + r} for r, row in enumerate(page)]
                for p, page in enumerate(pages)]  # fmt: skip
    source = {row["n"]: row for page in numbered for row in page}
    for row in ingest(numbered, ContractMode.DISCARD_ROW, known=with_n(KNOWN)).written:
        assert row["id"] == source[row["n"]]["id"]
        value = source[row["n"]].get("a")
        assert (row["a"] is None) == (value is None)
        assert value is None or row["a"] == float(value)


flat = st.sampled_from(
    [pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32(),
     pa.timestamp("us", tz="UTC"), pa.decimal128(20, 4), pa.decimal128(38, 0), pa.binary()]
)  # fmt: skip
names = st.sampled_from(["a", "b", "first name", "ü"])
types = st.recursive(
    flat,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.dictionaries(names, inner, max_size=3).map(
            lambda fields: pa.struct([pa.field(*each) for each in fields.items()])
        ),
    ),
    max_leaves=5,
)
schemas = st.dictionaries(names, st.tuples(types, st.booleans()), min_size=1).map(
    lambda columns: pa.schema([pa.field(name, *each) for name, each in columns.items()])
)


@given(schema=schemas)
def test_a_schema_is_read_back_from_its_text(schema: pa.Schema) -> None:
    assert parse_schema(schema_text(schema)).equals(schema)


@given(a=types, b=types)
def test_the_wider_type_is_one_for_both_orders_and_does_not_widen_again(
    a: pa.DataType, b: pa.DataType
) -> None:
    found = wider(a, b)
    assert wider(found, b) == found
    assert wider(a, a) == a


@given(schema=schemas, other=schemas)
def test_a_merged_schema_holds_the_columns_of_both(schema: pa.Schema, other: pa.Schema) -> None:
    merged = parse_schema(merged_text(schema_text(schema), [schema_text(other)]))
    assert set(merged.names) == {*schema.names, *other.names}
    assert merged_text(schema_text(merged), [schema_text(other)]) == schema_text(merged)
