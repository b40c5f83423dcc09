"""Small values that all rooms share: JSON texts, paths, properties, decimals."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.model.arrow import word_of
from dil.model.json import as_text, compact, indented, read_number
from dil.model.messages import shortened
from dil.model.path import Path, is_jsonpath, number
from dil.model.properties import Properties
from dil.model.secret import Secret

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(documents)
def test_both_texts_of_a_document_are_its_json(document: object) -> None:
    assert json.loads(compact(document)) == document  # type: ignore[arg-type]
    assert json.loads(indented(document)) == document
    assert indented(document) == json.dumps(document, indent=2)


@pytest.mark.parametrize("text", ["1e5", "1.0", "-0", "12345678901234567890.5"])
def test_a_number_keeps_its_text_in_all_documents(text: str) -> None:
    found = read_number(text)
    assert compact({"a": [found]}) == f'{{"a":[{text}]}}'
    assert indented((found,)) == f"[\n  {text}\n]"
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize("text", ["1" * 5000, "1e9999999999999999999", "1e-9999999999999999999"])
def test_a_number_that_cannot_be_kept_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"number|exponent"):
        read_number(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("a b", "a b"),
        (True, "true"),
        (7, "7"),
        (7.0, "7"),
        (7.5, "7.5"),
        (Decimal("7.00"), "7"),
        (Decimal("7.25"), "7.25"),
        (Decimal("1e20"), "100000000000000000000"),
        (Decimal("0e5000"), "0"),
        (read_number("1e5000"), "1e5000"),
        (read_number("-1e999999999999999999"), "-1e999999999999999999"),
        ([1, {"a": None}], '[1,{"a":null}]'),
    ],
)
def test_a_value_in_an_address_or_a_name(value: object, text: str) -> None:
    assert as_text(value) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("step", "found"), [(3, 3), ("3", 3), ("-1", -1), ("a", None), ("-", None), ("\u0663", None)]
)
def test_a_step_of_digits_is_a_number(step: str | int, found: int | None) -> None:
    assert number(step) == found


def test_steps_are_shown_in_the_notation_of_their_path() -> None:
    steps = ("data", 0, "two words", "it's", "a-b")
    assert Path("data.rows", ("data", "rows")).shown(steps) == "data.0.two words.it's.a-b"
    assert Path("$.data", ("data",)).shown(steps) == "$.data[0]['two words']['it\\'s'].a-b"
    assert [is_jsonpath(text) for text in ("$", "$.a", "$[0]", "$id", "a")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_a_path_has_the_name_of_its_last_member() -> None:
    assert Path("a.b", ("a", "b")).name == "b"
    assert Path("$.a[0]", ("a", 0)).name == ""
    assert Path("$", ()).name == ""


def test_a_long_text_of_others_is_cut_at_a_blank_where_there_is_one_near() -> None:
    assert shortened("one\n two") == "one two"
    assert shortened("ten letters more", 14) == "ten letters..."
    assert shortened("x" * 50, 13) == "x" * 10 + "..."
    assert shortened("a" + " " * 500, 100) == "a..."


@dataclass(frozen=True)
class Missed:
    """A section that no job of these tests has."""

    size: int = 3


def test_a_property_is_read_as_what_it_is_declared_to_be() -> None:
    found = Properties({"a": 7, "b": None, "c": "x", "d": Secret("s"), "e": True})
    assert (found.integer("a"), found.optional_integer("b"), found.milliseconds("b")) == (
        7,
        None,
        0,
    )
    assert (found.text("b"), found.text("c"), found.boolean("e")) == ("", "x", True)
    assert (found.secret("b"), found.secret("d")) == (None, Secret("s"))
    with pytest.raises(TypeError, match="a holds int, not str"):
        found.text("a")


def test_a_section_that_the_job_has_not_is_its_defaults() -> None:
    assert Properties({}).section(Missed) == Missed(3)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (pa.int32(), "int"),
        (pa.int16(), "long"),
        (pa.uint64(), "long"),
        (pa.float16(), "double"),
        (pa.decimal128(7, 2), "decimal"),
        (pa.timestamp("s"), "timestamp"),
        (pa.date64(), "date"),
        (pa.time32("s"), "time"),
        (pa.binary(), "bytes"),
        (pa.bool_(), "boolean"),
        (pa.string(), "string"),
        (pa.large_string(), "string"),
        (pa.struct([("a", pa.int32())]), "record"),
        (pa.map_(pa.string(), pa.int32()), "map"),
        (pa.list_(pa.int32()), "array"),
    ],
)
def test_a_type_has_a_word_that_declares_it(kind: pa.DataType, word: str) -> None:
    assert word_of(kind) == word
