"""Dot paths: names, indexes, and indexes from the end (rule F12)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.extraction.json.document import Document
from dil.model.path import MISSING, number
from dil.text.paths import find, index

PAGE = {"data": [{"id": 1}, {"id": 2}, {"id": 3}], "-1": "a name", "empty": []}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("data.0.id", 1),
        ("data.-1.id", 3),
        ("data.-3.id", 1),
        ("data.-4.id", MISSING),
        ("data.3.id", MISSING),
        ("empty.-1", MISSING),
        ("-1", "a name"),
        ("data.-", MISSING),
        ("data.--1", MISSING),
        ("data.-1.id.0", MISSING),
    ],
)
def test_a_path_leads_to_the_same_value_in_decoded_and_in_raw_json(path, expected):
    assert find(PAGE, path) == expected
    assert Document(json.dumps(PAGE).encode()).lookup(path) == expected


@given(st.lists(st.integers(), max_size=6), st.integers(-8, 8))
def test_an_index_is_that_of_python_and_beyond_the_array_there_is_nothing(values, position):
    found = find(list(values), str(position))
    inside = -len(values) <= position < len(values)
    assert found == (values[position] if inside else MISSING)


@pytest.mark.parametrize("segment", ["", "-", "x", "1x", "+1", "1.0", "\u0661", " 1"])
def test_other_texts_are_names(segment):
    assert number(segment) is None
    assert index(segment, 10) is None
