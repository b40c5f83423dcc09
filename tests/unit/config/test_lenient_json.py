"""JSON values: strict first, lenient with a notice, exact numbers (rules F9 and F16)."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dil.model.json import compact
from dil.text.lenient_json import JsonError, balance, parse


def test_strict_json_gives_no_notice_and_keeps_the_order_of_members():
    value, difference = parse('{"b": 1, "a": [true, null, "x"]}')
    assert list(value.items()) == [("b", 1), ("a", [True, None, "x"])]
    assert difference == ""


@pytest.mark.parametrize("text", ['{"n": 12345678901234567890123}', "{n: 12345678901234567890123}"])
def test_long_integers_stay_exact(text):
    assert parse(text)[0] == {"n": 12345678901234567890123}


@pytest.mark.parametrize("text", ['{"n": 0.10000000000000000005}', "{n: 0.10000000000000000005}"])
def test_fractions_are_decimals(text):
    assert parse(text)[0] == {"n": Decimal("0.10000000000000000005")}


@pytest.mark.parametrize("number", ["1" * 5000, "1e9999999999999999999"])
@pytest.mark.parametrize("form", ['{"n": %s}', "{n: %s}"])
def test_a_number_that_cannot_be_kept_is_refused(form, number):
    with pytest.raises(JsonError, match=r"number|exponent"):
        parse(form % number)


@pytest.mark.parametrize(("beginning", "depth"), [("[", 200_000), ("{a:", 20_000)])
def test_brackets_that_are_nested_too_deep_are_told(beginning, depth):
    end = "]" if beginning == "[" else "}"
    with pytest.raises(JsonError, match="its brackets are nested too deep"):
        parse(f"{beginning * depth}1{end * depth}")


NUMBER = st.from_regex(
    r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True
)


@settings(max_examples=80)
@given(number=NUMBER)
@example(number="1e5")
@example(number="1.0")
@example(number="-0")
@example(number="1.50E-07")
def test_a_number_is_written_as_it_was_read(number):
    for text in (f'{{"n":{number}}}', f"{{n: {number}}}"):
        value, _ = parse(text)
        assert compact(value) == f'{{"n":{number}}}'
        assert compact(pickle.loads(pickle.dumps(value))) == f'{{"n":{number}}}'
        assert value["n"] == Decimal(number)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a': 'it''s'}", {"a": "it's"}),
        ("{a:1}", {"a": 1}),
        ("{a:{b:c}}", {"a": {"b": "c"}}),
        ('[1, 2,\n // why\n ]', [1, 2]),
        ('{"a": 1, # why }\n "b": "http://x//y"}', {"a": 1, "b": "http://x//y"}),
        ('{"a": /* why ] */ 1}', {"a": 1}),
        ("{u: http://h/p, d: 2020-01-01, y: yes, t: true, n: null}",
         {"u": "http://h/p", "d": "2020-01-01", "y": "yes", "t": True, "n": None}),
        ("{\ta:\t'\t'}", {"a": "\t"}),
        ("{a:'x',b_1 :\"y\" , // why\n é:[1]}", {"a": "x", "b_1": "y", "é": [1]}),
        ("{t: TRUE, f: False, n: NULL, s: 'NULL'}",
         {"t": True, "f": False, "n": None, "s": "NULL"}),
        ("{'a': 'x\n  y', b: 1}", {"a": "x\n  y", "b": 1}),
        ("[{name: f, value: s = 'open'}]", [{"name": "f", "value": "s = 'open'"}]),
        ('{w: name = "é", p: HH:\'T\'mm}', {"w": 'name = "é"', "p": "HH:'T'mm"}),
        ("[{u: /* which */ urn:li:1}, {u: // where\n http://h/p}]",
         [{"u": "urn:li:1"}, {"u": "http://h/p"}]),
        ("{a b: 'it\\'s', \"c d\" : 'e'}", {"a b": "it's", "c d": "e"}),
    ],
)  # fmt: skip
def test_what_dil_let_pass_is_read_with_a_notice(text, value):
    found, difference = parse(text)
    assert found == value
    assert difference


def test_an_escape_that_json_does_not_have_is_kept_with_a_notice():
    value, difference = parse(r'{"p": "(\s|@)", "q": "\\d\n\u00e9"}')
    assert value == {"p": r"(\s|@)", "q": "\\d\né"}
    assert "backslash" in difference


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r"\\d+\t\/", "\\d+\t/"),
        (r"\u00e9 \ud83d\ude00 \u0080", "é \U0001f600 \x80"),
        (r"it\'s", "it's"),
        (r"say \"hi\"", 'say "hi"'),
        (r"\s\\\s", "\\s\\\\s"),
    ],
)
def test_escapes_in_either_quotes_are_those_of_json(quote, written, value):
    found, difference = parse(f"{{a: {quote}{written}{quote}}}")
    assert found == {"a": value}
    assert difference


@pytest.mark.parametrize(
    "text",
    [r'["\ud83d\ude00",\n "\ud83d"]', r"['\\ud83d',\n '\ude00\ud83d']", r'["a",\n {"\ud83d": 1}]'],
)
def test_half_of_a_character_is_refused_where_it_stands(text):
    with pytest.raises(JsonError, match="half of a character") as caught:
        parse(text.replace(r"\n", "\n"))
    assert caught.value.line == 1


@pytest.mark.parametrize(
    "text",
    ["{a}", "{a: }", "[1,,2]", '{"say "hi""}', "", "{", '{"a" "b"}', "[&x 1]", "[!!int 1]", "[*x]",
     '{"a": 1, "a": 2}', "{a: 1, a: 2}"],
)  # fmt: skip
def test_all_else_is_refused(text):
    with pytest.raises(JsonError):
        parse(text)


@pytest.mark.parametrize("text", ['{"a": 1,\n "b": 2\n "c": 3}', "{'a': 'x\ny',\n b: }"])
def test_the_line_of_the_error_is_told(text):
    with pytest.raises(JsonError) as caught:
        parse(text)
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("text", "is_complete"),
    [
        ("[1]", True),
        ('["]"', False),
        ("{'}'", False),
        ("{'}'}", True),
        ('{"a\\"}"}', True),
        ("[ // ]\n", False),
        ("{it's}", True),
        ('["', False),
        ("[ /* ]", False),
    ],
)
def test_brackets_count_outside_strings_and_comments_only(text, is_complete):
    assert balance(text).is_complete is is_complete


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=80)
@given(value=st.lists(JSON, min_size=1))
def test_what_json_writes_is_read_back_and_balances_only_at_its_end(value):
    text = json.dumps(value)
    assert parse(text) == (value, "")
    assert balance(text).is_complete
    assert not balance(text[:-1]).is_complete
