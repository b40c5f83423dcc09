"""Java regular expressions; expected matches were made with java.util.regex of Java 17."""

import pickle
import re

import pytest

from dil.text.java_regex import RegexError, compile_java


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (".*", "a\nb", False),
        (".*", "a\x85b", False),
        ("(?s).*", "a\nb", True),
        ("a.c", "a\u2028c", False),
        (r"\d+", "١٢", False),
        (r"\w+", "é", False),
        (r"\s", "\xa0", False),
        (r"\h", "\xa0", True),
        (r"\H", "\xa0", False),
        (r"\v", "\x85", True),
        (r"a\Rb", "a\r\nb", True),
        (r"(?i)straße", "STRAßE", True),
        (r"(?i)é", "É", False),
        (r"a(?i)b|c", "C", True),
        (r"a(?i)b|c", "AB", False),
        (r"(a(?i)b)c", "aBC", False),
        (r"(?i:a)b", "Ab", True),
        (r"(?i)a(?-i)b", "AB", False),
        (r"[a-z&&[^aeiou]]+", "xyz", True),
        (r"[a-z&&[^aeiou]]+", "xaz", False),
        (r"[\w&&[^\d]]", "5", False),
        (r"[a-c[x-z]]+", "axz", True),
        (r"[]a]+", "]a", True),
        (r"[a-]+", "a-", True),
        (r"[\w-x]+", "q-x", True),
        (r"[^\H\d]", " ", True),
        (r"[^\H\d]", "5", False),
        (r"(?i)[^a]", "A", False),
        (r"\p{Alpha}+", "abcé", False),
        (r"\p{Punct}", "`", True),
        (r"\P{Digit}+", "abc", True),
        (r"\p{L}+", "abcé漢", True),
        (r"\p{Lu}\pL", "Éa", True),
        (r"[\p{L}\p{Nd}_]+", "é_٣", True),
        (r"\Qa.b*\E+", "a.b**", True),
        (r"[\Q^]\E]+", "^]", True),
        (r"a\Q1", "a1", True),
        (r"\x41\u0042\x{43}\0104", "ABCD", True),
        (r"\uD83D\uDE00", "\U0001f600", True),
        (r"\e\a\t\cA", "\x1b\a\t\x01", True),
        (r"a++b", "aab", True),
        (r"a++ab", "aab", False),
        (r"(?>a|ab)c", "abc", False),
        (r"(?<year>\d{4})-\k<year>", "2020-2020", True),
        (r"(a)\11", "aa1", True),
        (r"(?x) a b # c", "ab", True),
        (r"(?x) a\ b +", "a bb", True),
        (r"\$\{x\}", "${x}", True),
        (r"a]}", "a]}", True),
        (r"\bé\b", "é", True),
        (r"\B", "", True),
    ],
)
def test_full_matches_are_those_of_java(pattern: str, text: str, matches: bool) -> None:
    assert bool(compile_java(pattern).fullmatch(text)) is matches


@pytest.mark.parametrize(
    ("pattern", "text", "span"),
    [
        ("a$", "a\n", (0, 1)),
        ("a$", "a\r\n", (0, 1)),
        ("a$", "a\u2029", (0, 1)),
        ("a$", "a\n\n", None),
        (r"a\Z", "a\r", (0, 1)),
        (r"a\z", "a\n", None),
        ("\r$", "\r\n", None),
        ("(?m)^b", "a\rb", (2, 3)),
        ("(?m)^", "", None),
        ("(?m)a$", "a\x85b", (0, 1)),
        ("(?m)^$", "a\r\n", None),
        ("^b", "a\nb", None),
        ("(?<=a)b", "ab", (1, 2)),
    ],
)
def test_anchors_stand_where_java_puts_them(
    pattern: str, text: str, span: tuple[int, int] | None
) -> None:
    found = compile_java(pattern).search(text)

    assert (found.span() if found else None) == span


def test_group_numbers_and_names_are_those_of_the_java_pattern() -> None:
    pattern = compile_java(r"(?i)([a-z&&[^x]]+)(?:-)(?<rest>\d+)")

    match = pattern.fullmatch("AB-12")
    assert match is not None
    assert match.groups() == ("AB", "12")
    assert match["rest"] == "12"


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "[a",
        "a**",
        "*",
        "a{,3}",
        "a{x}",
        "{1}",
        "\\",
        r"\y",
        r"\X",
        r"\G",
        r"\b{g}",
        r"\p{IsGreek}",
        r"\p{javaLowerCase}",
        r"\p",
        r"(?i)\p{Lower}",
        "(?u)a",
        "(?U)a",
        "(?d)a",
        "(?q)a",
        "(?#comment)",
        r"\1(a)",
        r"(a)\2",
        "[^a[b]]",
        "[^a&&b]",
        "[a&&]",
        "[a&&[b]c]",
        "[z-a]",
        r"[a-\d]",
        r"[\b]",
        "(?x)[a b]",
        "(?<=a+)b",
        r"\x{110000}",
        "(?<1a>b)",
    ],
)
def test_what_has_no_equivalent_is_refused_and_named(pattern: str) -> None:
    with pytest.raises(ValueError, match=re.escape(pattern)):
        compile_java(pattern)


def test_a_refusal_tells_its_reason_apart_from_the_pattern() -> None:
    with pytest.raises(RegexError) as caught:
        compile_java(".*[.csv")
    assert caught.value.reason == "a character class is not closed"
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
