"""Texts longer than memory give the same rows, look-ups and refusals as short ones."""

from __future__ import annotations

import json
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.extraction.json.document import Document
from dil.extraction.json.large import LargeDocument, LargeLines
from dil.extraction.json.scan import Cursor, MalformedError, OversizeError, value_end
from dil.extraction.json.spool import Span, Spool, SpoolLimits
from dil.extraction.json.windows import RowWindows
from dil.model.path import MISSING

pytestmark = pytest.mark.slow

TRAPS = ["},", "{", "],", "[", ",", '\\"', '{"a":', "\\"]
scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from(TRAPS)
values = st.recursive(
    scalars | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(st.sampled_from(["a", "b", "data", "0", "é"]), inner, max_size=4)
    ),
    max_leaves=25,
)
JSONPATHS = ("$", "$.data", "$.data.a", "$[0]", "$[1].data", "$[*]", "$.data[*]", "$.a.*")
paths = st.sampled_from(JSONPATHS) | st.sampled_from(
    ["", "data", "a", "data.a", "0", "1.data", "data.0", "0.0"]
)
LOOK_UPS = ("a", "b", "a.b", "0.0", "1.a", "data.0", "data.1.a", "zz", "data.zz", "data.00")
LOOK_UPS += ("-1", "-1.a", "-2.-1", "data.-1", "data.-2.a", "data.-99", "data.-", "0.-1")
LOOK_UPS += ("$.a", "$.a.b", "$[0][0]", "$[-1].a", "$.data[1].a", "$.zz", "$.data[-2]")


def spooled(text: bytes) -> Spool:
    spool = Spool()
    spool.append(text)
    return spool


def large(text: bytes, path: str = "", window: int = 8, **more: int) -> LargeDocument:
    limits = SpoolLimits(body=0, window=window, **{"value": 10**6, **more})
    return LargeDocument(spooled(text), path, limits)


def plain(payload):
    """Return raw rows, or the raw value, as Python values."""
    if isinstance(payload, RowWindows):
        return [msgspec.json.decode(row) for rows in payload for row in rows]
    if isinstance(payload, msgspec.Raw):
        return msgspec.json.decode(payload)
    return payload if payload is MISSING else [msgspec.json.decode(row) for row in payload]


@settings(max_examples=80, deadline=None)
@given(values, paths, st.sampled_from([None, 1]), st.integers(1, 40))
def test_rows_and_look_ups_are_those_of_a_short_text(value, path, indent, window):
    text = json.dumps(value, indent=indent, ensure_ascii=False).encode()
    short, long = Document(text), large(text, path, window)
    assert short.is_container == long.is_container
    if short.is_container:
        assert plain(short.rows(path)) == plain(long.rows(path))
    for wanted in LOOK_UPS:
        try:
            found = long.lookup(wanted)
        except OversizeError:
            continue
        assert found == short.lookup(wanted)


@settings(max_examples=80, deadline=None)
@given(values, paths, st.integers(1, 40), st.randoms(use_true_random=False))
def test_what_is_no_json_is_refused_wherever_it_is_wrong(
    value, path, window, chance: random.Random
):
    text = json.dumps(value).encode()
    damaged = bytes(chance.choice(b',:[]{}"1a \\') if chance.random() < 0.03 else c for c in text)
    for bad in (damaged, text[: chance.randint(0, len(text))], text.replace(b"]", b",]", 1)):
        try:
            Document(bad)
            is_json = True
        except msgspec.DecodeError:
            is_json = not bad.strip()  # an empty text is the extractor's business
        try:
            large(bad, path, window)
            assert is_json
        except MalformedError:
            assert not is_json


@pytest.mark.parametrize("window", [1, 7, 30, 200, 4000])
@pytest.mark.parametrize(
    "row",
    [
        '{"id":%d,"items":[{"id":1},{"id":2},{"id":[{"id":4}]}]}',
        '{"items":[],"text":"},{\\"id\\":1},","n":%d}',
        '{\n  "id": %d,\n  "in": {\n    "id": 7\n  }\n}',
        "[%d,[1,2],[3]]",
        '"%d,],["',
        "%d",
    ],
)
def test_windows_are_cut_between_elements_and_nowhere_else(row, window):
    rows = [row % n for n in range(100)]
    text = f'{{"data":[{" , ".join(rows)}],"next":{{"id":[1]}}}}'.encode()
    found = large(text, "data", window).rows("data")
    assert plain(found) == [json.loads(each) for each in rows]


def test_a_value_behind_the_rows_is_found_before_the_first_row_is_read():
    rows = ",".join(f'{{"id":{n}}}' for n in range(50))
    document = large(f'{{"data":[{rows}],"total":12345678901234567890.5}}'.encode(), "data")
    assert str(document.lookup("total")) == "12345678901234567890.5"
    assert document.lookup("data.49.id") == 49
    assert document.lookup("data.50") is MISSING


def test_of_a_repeated_member_the_last_one_counts_also_when_it_is_the_rows():
    long = '"data":[{"a":1},{"a":2},{"a":3}]'
    assert plain(large(f'{{{long},"data":[{{"a":9}}]}}'.encode(), "data").rows("data")) == [
        {"a": 9}
    ]
    assert len(plain(large(f'{{"data":5,{long}}}'.encode(), "data").rows("data"))) == 3


def test_long_containers_beside_the_rows_are_checked_and_cannot_be_looked_into():
    many = ",".join("[7,8]" for _ in range(100)).encode()
    text = b'{"other":{"x":{"y":[%b]}},"more":[%b],"data":[{"a":1},{"a":2}]}' % (many, many)
    document = large(text, "data")
    assert plain(document.rows("data")) == [{"a": 1}, {"a": 2}]
    for path in ("other.x", "more.0"):
        with pytest.raises(OversizeError):
            document.lookup(path)
    with pytest.raises(MalformedError):
        large(text.replace(b"7,8]]}}", b"7 8]]}}"), "data")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (b'{"data":[{"a":"%b"}]}' % (b"x" * 200), "data"),
        (b'{"data":{"a":"%b"}}' % (b"x" * 200), "data"),
        (b'{"text":"%b"}' % (b"x" * 200), ""),
        (b'{"%b":1}' % (b"x" * 200), "data"),
    ],
)
def test_a_row_or_a_value_that_is_too_long_is_refused(text, path):
    with pytest.raises(OversizeError):
        large(text, path, value=100)


def test_a_row_longer_than_a_window_is_read_whole():
    text = b'[{"a":1},{"a":"%b"},{"a":2}]' % (b"x" * 500)
    assert [len(str(row["a"])) for row in plain(large(text).rows(""))] == [1, 500, 1]


def test_of_many_members_around_the_rows_some_are_kept_and_the_rows_always():
    members = ",".join(f'"m{n}":{n}' for n in range(20))
    document = large(f'{{{members},"data":[{{"a":1}},{{"a":2}}]}}'.encode(), "data", members=5)
    assert len(plain(document.rows("data"))) == 2
    assert document.lookup("m4") == 4
    with pytest.raises(OversizeError):
        document.lookup("m7")


@pytest.mark.parametrize("window", [8, 30, 10**6])
def test_a_negative_index_counts_from_the_last_row(window):
    rows = [{"id": f"row {number}"} for number in range(20)]
    found = large(json.dumps({"data": rows, "more": True}).encode(), "data", window)
    assert found.lookup("data.-1.id") == "row 19"
    assert found.lookup("data.-20.id") == "row 0"
    assert found.lookup("data.-21.id") is MISSING
    assert large(b'{"data":[],"more":false}', "data", window).lookup("data.-1.id") is MISSING


def test_rows_in_the_last_element_of_a_long_array_cannot_be_found():
    text = json.dumps([{"rows": [1, 2, 3]}, {"rows": [4, 5, 6]}]).encode()
    with pytest.raises(OversizeError, match='"-1" counts from the end'):
        large(text, "-1.rows")
    assert plain(Document(text).rows("-1.rows")) == [4, 5, 6]


def test_errors_name_the_byte_of_the_whole_text():
    text = b'{"data":[' + b",".join(b'{"a":%d}' % n for n in range(30)) + b',{"a":NaN}]}'
    with pytest.raises(MalformedError) as caught:
        large(text, "data")
    assert caught.value.at == text.index(b"N")


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (b"[1,2]  ,3", 7), (b"12,", 2), (b'"a\\"" : 1', 6), (b"{}}", 2), (b"null]", 4),
        (b"[1,2", None), (b"12", None), (b"-", None), (b"1.", None), (b"1e+", None),
        (b'"\\u12', None), (b"tru", None), (b"", None), (b"true", 4), (b'"x"', 3), (b"[1]", 3),
    ],
)  # fmt: skip
def test_the_decoder_tells_where_a_value_ends_or_that_more_is_needed(text, end):
    """The scanner relies on this; a decoder with other messages must not pass."""
    assert value_end(memoryview(text), is_all=False) == end


def test_a_cursor_reads_values_across_the_ends_of_its_windows():
    text = b'   {"name" :  "a long text, longer than a window"  }   '
    cursor = Cursor(spooled(text), SpoolLimits(body=0, window=4))
    cursor.take(b"{", "")
    assert cursor.name() == "name"
    assert cursor.peek() == b'"'
    assert cursor.value(10) is None
    assert cursor.value(100) == Span(text.index(b'"a'), text.index(b"}"))
    cursor.take(b"}", "")
    cursor.end()


@settings(max_examples=80, deadline=None)
@given(st.lists(values, max_size=8), st.integers(1, 40), st.sampled_from(["\n", "\r\n", "\n \n"]))
def test_lines_are_those_of_a_short_text(found, window, ending):
    text = "".join(json.dumps(value) + ending for value in found).encode()
    lines = LargeLines(spooled(text), SpoolLimits(body=0, window=window, value=10**6))
    assert plain(lines.rows("")) == json.loads(json.dumps(found))
    short = Document(text, is_lines=True)
    for path in ("0", "1.a", "x", "2.0"):
        assert lines.lookup(path) == short.lookup(path)
        if not isinstance(short.rows(path), msgspec.Raw):
            assert plain(lines.rows(path)) == plain(short.rows(path))


def test_a_line_that_is_too_long_or_no_json_is_refused():
    limits = SpoolLimits(body=0, window=8, value=100)
    with pytest.raises(OversizeError):
        LargeLines(spooled(b'{"a":1}\n{"a":"%b"}\n' % (b"x" * 200)), limits)
    with pytest.raises(msgspec.DecodeError) as caught:
        plain(LargeLines(spooled(b'{"a":1}\n{"a":2}\n{"a":}\n'), limits).rows(""))
    assert "line that begins at byte 16" in str(caught.value)
