"""Names and values apart become rows."""

from __future__ import annotations

import pytest

from dil.errors import SourceContractError
from dil.extraction.preprocessing.aggregated_json import AggregatedJsonProcessor
from tests.preprocessing import through

PATHS = {"header": "h", "data": "d"}


def rows_of(body: bytes, **parameters: str) -> bytes:
    return through(AggregatedJsonProcessor, body, size=7, **{**PATHS, **parameters})


def test_the_example_of_the_documentation() -> None:
    body = b'{"h":["a","b"],"d":[[1,2],[3,4]],"m":{"id":7}}'
    assert rows_of(body, fields="m.id") == (
        b'{"count":2,"results":[{"a":1,"b":2},{"a":3,"b":4}],"id":7}'
    )


def test_numbers_texts_and_nested_values_keep_their_text() -> None:
    body = '{"h":["ä","n"],"d":[["\\u00e9 é",1e400],[null,{"x":[12345678901234567890123.10]}]]}'
    assert rows_of(body.encode()).decode() == (
        '{"count":2,"results":[{"ä":"\\u00e9 é","n":1e400},'
        '{"ä":null,"n":{"x":[12345678901234567890123.10]}}]}'
    )


def test_paths_lead_through_objects_and_arrays() -> None:
    body = b' {"x":[0,{"r":{"h":["a"],"d":[[1]]}}]} '
    assert rows_of(body, unwrap="x.1", header="r.h", data="r.d") == (
        b'{"count":1,"results":[{"a":1}]}'
    )


@pytest.mark.parametrize("body", [b'{"h":["a"]}', b'{"h":["a"],"d":null}', b'{"h":["a"],"d":[]}'])
def test_missing_and_null_data_are_no_rows(body: bytes) -> None:
    assert rows_of(body) == b'{"count":0,"results":[]}'


def test_values_beyond_the_header_are_ignored_and_missing_fields_left_out() -> None:
    assert rows_of(b'{"h":["a"],"d":[[1,2]]}', fields="no.such") == (
        b'{"count":1,"results":[{"a":1}]}'
    )


def test_rows_that_may_end_early_have_null_in_place_of_the_values_they_lack() -> None:
    body = b'{"v":[["a","b"],[1,2],[3],[]]}'
    assert rows_of(body, header="v.0", data="$.v[1:]", short_rows="null") == (
        b'{"count":3,"results":[{"a":1,"b":2},{"a":3,"b":null},{"a":null,"b":null}]}'
    )
    assert list(AggregatedJsonProcessor.check({**PATHS, "short_rows": "fill"})) == [
        'short_rows has another value than "null": write that, or leave it out'
    ]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"h":["a","b"],"d":[[1,2],[3]]}', "row 2 has 1 values, the header has 2 names"),
        (b'{"h":["a"],"d":{}}', '"d" is no array'),
        (b'{"h":["a"],"d":[1]}', "row 1 is no array"),
        (b'{"h":"a","d":[[1]]}', '"h" is no array of names'),
        (b'{"d":[[1]]}', '"h" is no array of names'),
        (b'{"h":["a","a"],"d":[[1,2]]}', "holds a name twice"),
        (b'[{"h":1}]', "no JSON object"),
        (b'{"h":["a"],"d":[[1]', "no JSON; it begins"),
        (b"", "no JSON"),
        (b'{"h":["a"],"d":[[1]]}\n{"h":["a"],"d":[[2]]}\n', "more than one JSON value"),
        (b"503 Service Unavailable", "no JSON; it begins"),
    ],
)
def test_what_cannot_become_rows_is_an_error(body: bytes, why: str) -> None:
    with pytest.raises(SourceContractError, match=why):
        rows_of(body)


def test_both_paths_are_needed() -> None:
    assert list(AggregatedJsonProcessor.check({"header": "h"})) == ["data is missing"]
