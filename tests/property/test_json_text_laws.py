"""Nested columns as JSON text: what a column at a time makes is what value by value makes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.publishing.warehouse.json_texts import are_plain, json_texts

ENCODER = msgspec.json.Encoder(decimal_format="number")
SCALARS = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.string(), st.text()),
    (pa.string(), st.text('a"\\\n\t\r\x01\x7fé\u2028')),
    (pa.bool_(), st.booleans()),
    (pa.float64(), st.floats()),
    (pa.decimal128(20, 4), st.decimals(-(10**10), 10**10, places=4)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    (pa.binary(), st.binary()),
    (pa.null(), st.none()),
]


def columns(depth: int) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[object]]]:
    """Return types with values of them."""
    flat = st.sampled_from(SCALARS)
    if not depth:
        return flat
    inner = columns(depth - 1)
    return st.one_of(
        flat,
        inner.map(lambda item: (pa.list_(item[0]), st.lists(st.none() | item[1], max_size=3))),
        inner.map(
            lambda item: (
                pa.map_(pa.string(), item[0]),
                st.dictionaries(st.text(), st.none() | item[1], max_size=3),
            )
        ),
        st.dictionaries(st.text(), inner, max_size=3).map(
            lambda members: (
                pa.struct([(name, kind) for name, (kind, _) in members.items()]),
                st.fixed_dictionaries({n: st.none() | value for n, (_, value) in members.items()}),
            )
        ),
    )


@given(st.data())
def test_a_column_is_written_as_its_values_are(data: st.DataObject) -> None:
    kind, value = data.draw(columns(3))
    values = data.draw(st.lists(st.none() | value, max_size=6))
    array = pa.array(values, kind)
    if data.draw(st.booleans()):
        array = array[data.draw(st.integers(0, len(values))) :]

    texts = json_texts(array)

    assert texts.to_pylist() == [
        None if each is None else ENCODER.encode(each).decode()
        for each in array.to_pylist(maps_as_pydicts="strict")
    ]


@given(st.data())
def test_what_is_plain_has_json_without_rare_characters(data: st.DataObject) -> None:
    kind, value = data.draw(columns(2))
    array = pa.array(data.draw(st.lists(st.none() | value, max_size=6)), kind)

    if are_plain(array):
        texts = [text for text in json_texts(array).to_pylist() if text is not None]
        assert "\\u" not in "".join(texts).replace("\\\\", "")


def test_plain_is_what_most_columns_are() -> None:
    rows = [{"name": 'a "b" \n', "tags": ["x", None]}, None]
    assert are_plain(pa.array(rows))
    for other in ({"name": "\0"}, {"\0": 1}, {"amount": 1.5}, {"day": dt.date(2020, 1, 1)}):
        assert not are_plain(pa.array([other]))


def test_a_key_that_is_there_twice_is_refused() -> None:
    array = pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))

    with pytest.raises(KeyError):
        json_texts(array)


def test_what_lies_below_a_null_is_not_shown() -> None:
    member = pa.array([1, 2], pa.int64())
    array = pa.StructArray.from_arrays([member], ["a"], mask=pa.array([False, True]))

    assert json_texts(array).to_pylist() == ['{"a":1}', None]
    assert json_texts(pa.array([[Decimal(1)], None])).to_pylist() == ["[1]", None]
