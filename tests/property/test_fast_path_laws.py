"""A page that Arrow reads by itself is read as if each of its values had been looked at."""

from __future__ import annotations

import io
import json
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dil.errors import DilError
from dil.extraction.json.arrow_reader import ArrowFastPath
from dil.extraction.json.extractor import JsonExtractor
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.schema import Column, Primitive, Schema
from dil.spi.connector import Response

WHOLE = [
    "0",
    "7",
    "-5",
    "2147483647",
    "2147483648",
    "9007199254740993",
    "12345678901234567890",
]
BROKEN = ["0.5", "-0.0", "1e5", "1E-3", "12345.678", "0.8444218515250481", "9007199254740993.0"]
DELICATE = ["0.12345678901234567890", "1e-320", "1e-400", "12345678901234567e-3", "1e300"]
TEXTS = [
    '"x"',
    '""',
    '"1.5"',
    '"2020-01-01T00:00:00Z"',
    '"12345678901234567890"',
    '"a-e-100"',
    '"é\\u00e9"',
]
numbers = st.sampled_from(WHOLE) | st.sampled_from(BROKEN)
plain = st.sampled_from(["null", "true", "false", *TEXTS, *DELICATE]) | numbers


def objects(*names: str, values: st.SearchStrategy[str] = plain) -> st.SearchStrategy[str]:
    """Return JSON objects with some of these members, in any order."""
    member = st.tuples(st.sampled_from(names), values)
    members = st.lists(member, max_size=len(names), unique_by=lambda pair: pair[0])
    return members.map(lambda pairs: "{" + ",".join(f'"{n}":{v}' for n, v in pairs) + "}")


arrays = st.lists(plain | objects("p", "q"), max_size=3).map(lambda items: f"[{','.join(items)}]")
wild = plain | objects("p", "q") | arrays
rows = objects("a", "b", "c", values=wild)
tame_rows = st.tuples(
    st.sampled_from(["0", "7", "2147483648"]), numbers, st.sampled_from(TEXTS)
).map(lambda cells: f'{{"n":{cells[0]},"f":{cells[1]},"t":{cells[2]},"in":{{"f":[{cells[1]}]}}}}')
pages = st.lists(st.lists(rows | tame_rows, min_size=1, max_size=4), min_size=1, max_size=5)
tame_pages = st.lists(st.lists(tame_rows, min_size=1, max_size=4), min_size=1, max_size=6)


def told(bodies: list[list[str]], **more: object) -> list[object]:
    """Return all that an extractor says of the pages, up to its first refusal."""
    extractor = JsonExtractor(ExtractionSpec(ClassRef("m", "c"), output_schema=None, **more))
    found: list[object] = []
    for body in bodies:
        text = f"[{','.join(body)}]".encode()
        answer = Response(io.BytesIO(text), content_type="application/json", location="https://h/x")
        try:
            batches = list(extractor.extract(answer).batches)
        except DilError as error:
            return [*found, str(error)]
        for batch in batches:
            batch.validate(full=True)
            found += [batch.schema, repr(batch.to_pylist())]
    return found


@given(pages | tame_pages)
@example([['{"a":1,"b":0.5}'], ['{"a":9007199254740993,"b":1}'], ['{"a":0.5}']])
@example([['{"a":0.5}'], ['{"a":9007199254740993}']])
@example([['{"a":0.5}'], ['{"a":0.12345678901234567890}']])
@example([['{"a":0.5}'], ['{"a":1e-400}']])
@example([['{"a":null}'], ['{"a":null}'], ['{"a":1}'], ['{"a":"x"}']])
@example([['{"a":{"b":null}}'], ['{"a":{"b":null}}'], ['{"a":{"b":[]}}']])
@example([['{"a":[null]}'], ['{"a":[null,null]}'], ['{"a":[1]}']])
@example([['{"a":1}'], ["null"]])
@example([['{"a":1}'], ['{"a":1,"a":2}']])
@example([['{"a b":1}'], ['{"a_b":1}']])
def test_columns_that_are_found_do_not_depend_on_how_a_page_is_read(
    bodies: list[list[str]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ArrowFastPath, "few_rows", 0)
        patch.setattr(ArrowFastPath, "most_patience", 0)
        fast = told(bodies)
        patch.setattr(ArrowFastPath, "few_rows", 1_000)
        assert fast == told(bodies)


def test_pages_of_the_same_form_are_read_by_arrow(monkeypatch) -> None:
    monkeypatch.setattr(ArrowFastPath, "few_rows", 0)
    read, kept = [], ArrowFastPath.read

    def noted(self, parts):
        read.append(kept(self, parts))
        return read[-1]

    monkeypatch.setattr(ArrowFastPath, "read", noted)
    body = ['{"n":1,"f":0.8444218515250481,"s":"x","o":{"l":[1,2],"never":null},"never":null}']
    found = told([body, body, body])
    assert [batches is None for batches in read] == [True, False, False]
    assert found[1] == found[3] == found[5]


@pytest.mark.parametrize("number", ["0.12345678901234567890", "1e-400", "9007199254740993"])
def test_a_number_that_no_double_holds_is_kept_to_its_last_digit(monkeypatch, number) -> None:
    monkeypatch.setattr(ArrowFastPath, "few_rows", 0)
    *_, values = told([['{"a":0.5}'], [f'{{"a":{number}}}']])
    value = eval(values, {"Decimal": Decimal})[0]["a"]
    assert Decimal(value) == Decimal(number)


def given_columns(body: list[str], columns: Schema) -> dict[str, list[object]]:
    """Return the values of each given column."""
    spec = ExtractionSpec(ClassRef("m", "c"), output_schema=columns)
    text = f"[{','.join(body)}]".encode()
    answer = Response(io.BytesIO(text), content_type="application/json")
    (batch,) = JsonExtractor(spec).extract(answer).batches
    return dict(zip(batch.schema.names, (each.to_pylist() for each in batch), strict=True))


@given(st.lists(wild, min_size=1, max_size=5))
@example(['"x"', '""'])
@example(['{"p":"x"}', "{}"])
def test_a_json_column_holds_every_value_with_the_texts_of_its_numbers(values: list[str]) -> None:
    columns = (Column("n", Primitive("int")), Column("a", Primitive("json")))
    body = [f'{{"n":1,"a":{value}}}' for value in values]
    sent = [json.loads(value, parse_int=Decimal, parse_float=str) for value in values]
    texts = given_columns(body, columns)["a"]
    assert [
        None if text is None else json.loads(str(text), parse_int=Decimal, parse_float=str)
        for text in texts
    ] == sent


@given(st.lists(tame_rows, min_size=1, max_size=5))
def test_columns_beside_a_json_column_are_those_that_arrow_reads(body: list[str]) -> None:
    plain = (Column("n", Primitive("long")), Column("t", Primitive("string")))
    beside = given_columns(body, (*plain, Column("in", Primitive("json"))))
    del beside["in"]
    assert beside == given_columns(body, plain)
