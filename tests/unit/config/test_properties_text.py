"""The property file grammar (rules F2 and F3)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.config.findings import Findings
from dil.config.properties_text import parse
from dil.errors import ConfigError


def read(text: str) -> dict[str, str]:
    findings = Findings()
    found = {entry.key: entry.text for entry in parse(text, "a.conf", findings)}
    findings.raise_problems()
    return found


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        (r"a=x\.y", "a", "x.y"),
        (r"a=x\\.y", "a", r"x\.y"),
        (r'a={"p":"\\\\d+"}', "a", r'{"p":"\\d+"}'),
        (r'a={"p":"(\\s|@)"}', "a", r'{"p":"(\s|@)"}'),
        ("a=1\\t2\\u00e9", "a", "1\t2é"),
        ("a=\\ud83d\\uDE00", "a", "\U0001f600"),
        (r"a=p\, q", "a", "p, q"),
        ("a : b c  ", "a", "b c"),
        ("a\tb=c", "a", "b=c"),
        ("  a  =  b", "a", "b"),
        (r"a\ b\=c=d", "a b=c", "d"),
        ("a", "a", ""),
        ("a=", "a", ""),
        ("a=b#c", "a", "b#c"),
        ('a=[1, 2],  "b" : "p , q"', "a", '[1, 2],  "b" : "p , q"'),
    ],
)
def test_a_line_is_read_as_java_properties(text, key, value):
    assert read(text) == {key: value}


def test_comments_and_blank_lines_are_skipped_even_with_a_backslash():
    assert read("# x \\\n! y\n\n  # z\na=1\n") == {"a": "1"}


def test_an_odd_number_of_backslashes_continues_a_line_and_drops_its_indent():
    assert read("a=b\\\n   c\nd=e\\\\\nf=g") == {"a": "bc", "d": "e\\", "f": "g"}


def test_a_continuation_at_the_end_of_the_file_ends_the_value():
    assert read("a=b\\") == {"a": "b"}


def test_brackets_go_on_over_lines_with_and_without_backslash():
    plain = 'ms.parameters=[\n  {"name":"a]"},\n  {"name":"b"}\n]\njob.name=x'
    dil = 'ms.parameters=[ \\\n  {"name":"a]"}, \\\n  {"name":"b"}]\njob.name=x'
    assert read(plain)["ms.parameters"] == '[\n  {"name":"a]"},\n  {"name":"b"}\n]'
    assert read(dil)["ms.parameters"] == '[ {"name":"a]"}, {"name":"b"}]'
    assert read(plain)["job.name"] == read(dil)["job.name"] == "x"


def test_brackets_inside_strings_and_comments_do_not_count():
    text = "a={'x': '}',  // it's }\n  \"y\": \"]\\\\\"}\", # ]\n  z: 1}\nb=2"
    assert read(text)["b"] == "2"


def test_a_scalar_property_that_begins_with_a_bracket_stays_on_its_line():
    found = read('ms.source.files.pattern=[^"]+\njob.name=[x\n')
    assert found == {"ms.source.files.pattern": '[^"]+', "job.name": "[x"}


def test_an_unbalanced_value_is_told_and_the_rest_is_still_read():
    findings = Findings()
    entries = list(parse('a=1\nb={"x":[1}\nc=2', "a.conf", findings))
    assert [entry.key for entry in entries] == ["a", "b", "c"]
    assert [(problem.key, problem.origin.line) for problem in findings.problems] == [("b", 2)]


def test_the_lines_of_an_unclosed_value_are_no_hocon_and_no_keys():
    findings = Findings()
    text = (
        'ms.parameters=[\n  {"name": "a",\n   "value": {"x": 1},\n  {\n    kind: "y"},\n# note\n'
        "job.name=x\nms.pagination: {}\n"
    )
    entries = list(parse(text, "a.conf", findings))
    assert [entry.key for entry in entries] == ["ms.parameters", "job.name", "ms.pagination"]
    assert [(problem.key, problem.origin.line) for problem in findings.problems] == [
        ("ms.parameters", 1)
    ]


def test_an_unclosed_value_is_told_before_the_hocon_behind_it():
    findings = Findings()
    text = "ms.parameters=[{\na=1\nms {\n"
    with pytest.raises(ConfigError) as caught:
        list(parse(text, "a.conf", findings))
    assert [problem.origin.line for problem in caught.value.problems] == [1, 3]


@pytest.mark.parametrize(
    "text", ['ms.pagination {"initialvalues":[0]}', "ms.pagination {initialvalues: [0]}"]
)
def test_a_blank_before_json_is_a_separator_and_no_hocon(text):
    assert read(text)["ms.pagination"].startswith("{")


def test_every_character_knows_its_line():
    text = 'x=0\nms.watermark=[\n  {"a":1},\n  {"b"\n ]\n'
    entries = list(parse(text + "]", "a.conf", Findings()))
    assert entries[0].origin.line == 1
    entry = next(parse("a=[1, \\\n 2, \\\n 3]", "a.conf", Findings()))
    assert entry.origin_at(entry.text.index("3")).line == 3


@pytest.mark.parametrize(
    "text",
    [
        "{\n a: 1\n}",
        'include "base.conf"',
        "ms {\n source = x\n}",
        "job.name {\n}",
        "{",
        "job { name = x }",
        "job { name: x }",
        "job{lock{enabled=true}}",
        'ms.http { "conn.max" = 5 }',
    ],
)
def test_hocon_is_refused_in_so_many_words(text):
    with pytest.raises(ConfigError, match="HOCON") as caught:
        list(parse(f"# c\n{text}", "a.conf", Findings()))
    assert caught.value.problems[0].origin.line == 2


def test_a_broken_unicode_escape_is_a_problem():
    findings = Findings()
    list(parse(r"a=\u12", "a.conf", findings))
    assert findings.problems[0].origin.line == 1


KEYS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp", "Cs"]), min_size=1
)


@settings(max_examples=60)
@given(key=KEYS, value=st.text(st.characters(codec="utf-8", exclude_categories=["Cs"])))
def test_what_is_escaped_by_the_rules_is_read_back(key, value):
    def escape(text: str) -> str:
        return "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in text)

    assert read(f"{escape(key)}={escape(value)}") == {key: value.rstrip()}
