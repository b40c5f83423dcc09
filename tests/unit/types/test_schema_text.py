"""The text of a schema: read back as it was, and merged into what holds the rows of all."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.errors import ConversionError
from dil.types.merging import wider
from dil.types.schema_text import merged_text, parse_schema, schema_text

flat = st.sampled_from(
    [
        pa.bool_(),
        pa.int32(),
        pa.int64(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.binary(16),
        pa.date32(),
        pa.time64("us"),
        pa.timestamp("ms"),
        pa.timestamp("us", tz="Europe/Berlin"),
        pa.decimal128(38, 9),
        pa.decimal128(5, -2),
        pa.decimal256(60, 3),
    ]
)
names = st.text("abc_", min_size=1, max_size=3)


def _structs(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    columns = st.dictionaries(names, st.tuples(types, st.booleans()), min_size=1, max_size=3)
    return columns.map(
        lambda found: pa.struct([pa.field(name, *kind) for name, kind in found.items()])
    )


types = st.recursive(
    flat,
    lambda inner: st.one_of(
        inner.map(pa.list_), inner.map(lambda item: pa.map_(pa.string(), item)), _structs(inner)
    ),
    max_leaves=5,
)
schemas = _structs(types).map(lambda struct: pa.schema(list(struct)))


@given(schemas)
def test_a_schema_is_read_as_it_was_written(schema: pa.Schema) -> None:
    assert parse_schema(schema_text(schema)) == schema


@settings(max_examples=50)
@given(types, types, types)
def test_a_wider_type_is_the_same_whichever_way_round_and_is_wide_enough(
    a: pa.DataType, b: pa.DataType, c: pa.DataType
) -> None:
    assert wider(a, a) == a
    assert wider(a, pa.null()) == wider(pa.null(), a) == a
    once = wider(a, b)
    assert wider(once, b) == wider(a, once) == once
    assert wider(wider(once, c), a) == wider(once, c)


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [
        (pa.list_(pa.int32()), pa.list_(pa.int64()), pa.list_(pa.int64())),
        (pa.list_(pa.int32()), pa.int32(), pa.string()),
        (
            pa.map_(pa.string(), pa.int64()),
            pa.map_(pa.string(), pa.string()),
            pa.map_(pa.string(), pa.string()),
        ),
        (
            pa.struct([pa.field("a", pa.int32(), nullable=False)]),
            pa.struct([pa.field("b", pa.bool_(), nullable=False)]),
            pa.struct([("a", pa.int32()), ("b", pa.bool_())]),
        ),
    ],
)
def test_nested_types_widen_by_their_members(
    a: pa.DataType, b: pa.DataType, both: pa.DataType
) -> None:
    assert wider(a, b) == both


def test_columns_of_one_schema_alone_may_be_null_in_that_of_all() -> None:
    assert merged_text("", []) == ""
    assert merged_text("id: int32 not null", ["", "id: int32 not null"]) == "id: int32 not null"
    merged = merged_text("id: int32 not null", ["id: int64 not null\nname: string not null"])
    assert merged == "id: int64 not null\nname: string"


@pytest.mark.parametrize(
    "line",
    [
        "id",
        "id: ",
        "id: unheard_of",
        "id: int32 and more",
        "id: list<item: int32",
        "id: map<string int32>",
        "id: struct<a int32>",
        "id: decimal128(99, 1)",
    ],
)
def test_a_line_that_is_no_column_is_an_error_that_shows_it(line: str) -> None:
    with pytest.raises(ConversionError, match="cannot be read") as caught:
        parse_schema(f"first: int32\n{line}")
    assert f'"{line}"' in str(caught.value)
    assert "ms.output.schema" in caught.value.fix
