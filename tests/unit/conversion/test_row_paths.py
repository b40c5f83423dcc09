"""JSONPath into rows: derived fields and encrypted fields."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from dil.conversion.row_paths import find_column
from dil.errors import ConversionError
from dil.secrets.authenticated import decrypt
from tests.unit.conversion.conversion_jobs import convert, derived

ROWS = pa.RecordBatch.from_pylist(
    [
        {
            "id": 1,
            "a.b": "dotted",
            "user": {"name": "ann", "tags": ["x", "y"], "at": [{"k": "home", "n": 1.5}]},
        },
        {
            "id": 2,
            "a.b": None,
            "user": {"name": "bob", "tags": [], "at": [{"k": "work", "n": 2.0}]},
        },
        {"id": 3, "a.b": "z", "user": None},
    ]
)


def one(source: str, kind: str = "string", **more: Any) -> list[Any]:
    fields = [derived("x", type=kind, source=source)]
    return convert(ROWS, derived_fields=fields, **more).column("x").to_pylist()


@pytest.mark.parametrize(
    ("dotted", "expression"),
    [("id", "$.id"), ("user.name", "$.user.name"), ("user.tags.1", "$.user.tags[1]")],
)
def test_a_dot_path_and_its_jsonpath_find_the_same_column(dotted: str, expression: str) -> None:
    found = find_column(ROWS, expression)
    assert found is not None
    assert found.equals(find_column(ROWS, dotted))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("$['a.b']", ["dotted", None, "z"]),
        ("$.user.tags[-1]", ["y", None, None]),
        ("$.user.at[?@.k=='home'].n", ["1.5", None, None]),
        ("$.user.at[?@.n>1.7].k", [None, "work", None]),
        ("$.none", [None, None, None]),
        ("$.user['0']", [None, None, None]),
    ],
)
def test_what_is_searched_for_in_a_row_comes_as_text(source: str, expected: list[Any]) -> None:
    assert one(source) == expected


def test_texts_that_were_found_become_what_the_formula_says() -> None:
    assert one("$.user.at[*].n", "number") == [1.5, 2.0, None]
    assert one("$.user.tags[1]") == ["y", None, None]


def test_a_dash_is_no_index_of_a_dot_path_into_rows() -> None:
    assert one("user.tags.-1") == [None, None, None]


def test_different_values_in_a_row_are_refused_with_its_number() -> None:
    with pytest.raises(ConversionError) as caught:
        one("$.user.tags[*]")
    assert "row 1" in caught.value.message
    assert "2 different values" in caught.value.message


def test_the_root_of_the_response_comes_first_where_rows_lie_inside_it() -> None:
    fields = [derived("x", type="string", source="$.meta.id")]
    made = convert(ROWS, derived_fields=fields, data_field="rows", root={"$.meta.id": 7})
    assert made.column("x").to_pylist() == ["7"] * 3


def test_encrypted_fields_take_names_in_jsonpath() -> None:
    made = convert(ROWS, encrypted_fields=["$.user.name", "$['a.b']"], passwords=("first",))
    first = made.to_pylist()[0]
    for text, plain in ((first["user"]["name"], "ann"), (first["a.b"], "dotted")):
        assert decrypt(text.removeprefix("ENC(")[:-1], "first") == plain
