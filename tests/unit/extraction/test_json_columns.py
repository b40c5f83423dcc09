"""Columns of type json: any value of a JSON source as JSON text."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pytest

from dil.errors import ConversionError, SourceContractError
from dil.extraction.json.extractor import JsonExtractor
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.schema import ArrayType, Column, DataType, MapType, Primitive, RecordType, Schema
from dil.model.settings import SchemaCleansing
from dil.spi.connector import Response

JSON = Primitive("json")


def batches(body: str, columns: Schema | None, **more: object) -> list[pa.RecordBatch]:
    spec = ExtractionSpec(ClassRef("m", "c"), output_schema=columns, **more)
    answer = Response(io.BytesIO(body.encode()), content_type="application/json", location="x")
    return list(JsonExtractor(spec).extract(answer).batches)


def values(texts: list[str], kind: DataType = JSON, **more: object) -> list[object]:
    """Read one column ``a`` of rows that have these JSON texts there."""
    rows = ",".join(f'{{"a":{text}}}' for text in texts)
    found = batches(f"[{rows}]", (Column("a", kind),), **more)
    return [value for batch in found for value in batch.column("a").to_pylist()]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{ "z": 1, "a": [ true, null ] }', '{"z":1,"a":[true,null]}'),
        ("[]", "[]"),
        ("{}", "{}"),
        ('"abc"', '"abc"'),
        ('""', '""'),
        ('"null"', '"null"'),
        ('"1.5"', '"1.5"'),
        ("null", None),
        ("false", "false"),
        ("7", "7"),
        ("0.10", "0.10"),
        ("1E+5", "1E+5"),
        ("-0.0", "-0.0"),
        ("0.12345678901234567890", "0.12345678901234567890"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("1e99999999999999999999", "1e99999999999999999999"),
        ('{"n": [1.0, 12345678901234567890.10]}', '{"n":[1.0,12345678901234567890.10]}'),
        (r'"q\" b\\ n\n \u00e9 \ud83d\ude00"', r'"q\" b\\ n\n é 😀"'),
        (r'{"k\"\u00e9": "\/"}', r'{"k\"é":"/"}'),
    ],
)
def test_any_value_becomes_compact_json_text(text: str, kept: str | None) -> None:
    assert values([text]) == [kept]
    # Rows of other kinds beside a value change nothing.
    assert values([text, '"x"', '{"b":1}', "[]", "5"])[0] == kept
    if kept is not None:
        assert json.loads(kept) == json.loads(text)


def test_rows_of_texts_only_are_json_texts_too() -> None:
    assert values(['"x"', '""']) == ['"x"', '""']


def test_a_missing_member_is_null() -> None:
    (batch,) = batches('[{"b":1},{"a":1}]', (Column("a", JSON),))
    assert batch.column("a").to_pylist() == [None, "1"]


@pytest.mark.parametrize(
    ("kind", "text", "kept"),
    [
        (RecordType((Column("m", JSON),)), '{"m": "x"}', {"m": '"x"'}),
        (ArrayType(JSON), '["x", {"b": 1}, null]', ['"x"', '{"b":1}', None]),
        (MapType(JSON), '{"k": "x", "l": [1]}', [("k", '"x"'), ("l", "[1]")]),
        (ArrayType(ArrayType(JSON)), '[["x"], []]', [['"x"'], []]),
    ],
)
def test_members_items_and_values_may_be_json(kind: DataType, text: str, kept: object) -> None:
    assert values([text], kind) == [kept]


def test_names_inside_the_value_are_not_cleansed() -> None:
    columns = (
        Column("the_ref", JSON),
        Column("rec", RecordType((Column("in_it", JSON), Column("n_n", Primitive("long"))))),
        Column("list", ArrayType(JSON)),
        Column("map", MapType(JSON)),
    )
    inner = '{"$ x":{"@y":1}}'
    body = (
        f'{{"the ref":{inner},"rec":{{"in it":{inner},"n n":5,"o o":1}},'
        f'"list":[{inner}],"map":{{"k k":{inner}}}}}'
    )
    (batch,) = batches(body, columns, cleansing=SchemaCleansing())
    assert batch.to_pylist() == [
        {
            "the_ref": inner,
            "rec": {"in_it": inner, "n_n": 5},
            "list": [inner],
            "map": [("k_k", inner)],
        }
    ]


def test_the_columns_beside_a_json_column_are_read_as_without_it() -> None:
    plain = (Column("n", Primitive("long")), Column("s", Primitive("string")))
    rows = '[{"n":"7","s":1.50,"a":"t"},{"n":2.0,"s":null,"a":{}},{"s":"x"}]'
    (alone,) = batches(rows, plain)
    (beside,) = batches(rows, (*plain, Column("a", JSON)))
    assert beside.select(["n", "s"]).to_pylist() == alone.to_pylist()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (RecordType((Column("m", Primitive("string")),)), '""'),
        (Primitive("string"), '{"m": 1}'),
        (MapType(Primitive("string")), "[]"),
        (ArrayType(ArrayType(Primitive("long"))), "[1]"),
    ],
)
def test_the_error_of_a_column_of_mixed_shapes_names_the_type(kind: DataType, text: str) -> None:
    with pytest.raises(ConversionError, match="declare the column as json"):
        values([text], kind)


def test_an_unfit_number_is_no_case_for_the_type() -> None:
    with pytest.raises(ConversionError) as caught:
        values(['"x"'], Primitive("long"))
    assert "json" not in str(caught.value)


def test_the_error_of_a_found_column_of_mixed_shapes_names_the_type() -> None:
    with pytest.raises(SourceContractError, match="declare this column as json"):
        batches('[{"a":{"b":1}},{"a":""}]', None)
