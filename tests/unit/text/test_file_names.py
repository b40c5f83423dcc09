"""Names that a source chose stay below their folder and fit a file system."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.text.file_names import (
    HIVE_NULL,
    RESERVED,
    fitted,
    hive_folder,
    hive_values,
    relative_name,
)

SHORT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a", "a"),
        ("/a//b/./c.gz", "a/b/c.gz"),
        ("./a", "a"),
        ("a b\\c", "a b\\c"),
        ("a/b.._", "a/b.._"),
    ],
)
def test_a_name_is_a_path_without_a_slash_in_front(text: str, name: str) -> None:
    assert relative_name(text) == name


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names no file"),
        ("  ", "names no file"),
        ("/", "names no file"),
        ("a/", "names no file"),
        ("a/.", "names no file"),
        (".", "names no file"),
        ("..", "leads out"),
        ("a/../b", "leads out"),
        ("a\0b", "characters"),
        ("\ud800", "characters"),
        ("a\r\nb", "control characters"),
        ("a\x1b[2J", "control characters"),
        ("a\u2028b", "control characters"),
        ("a/_DIL/b", "kept for other things"),
        (".hidden", 'has ".hidden" in it'),
        ("a/_x/b", 'has "_x" in it'),
        ("a/..b", 'has "..b" in it'),
        ("...", "readers skip"),
        ("ä" * 128 + "/b", "a folder with more than 255 bytes"),
    ],
)
def test_what_names_no_file_below_the_folder_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        relative_name(text)


@given(st.text(alphabet=st.sampled_from("ab./_\\ \0") | st.characters(), max_size=40))
def test_no_text_leads_out_of_the_folder(text: str) -> None:
    try:
        name = relative_name(text)
    except ValueError:
        return
    parts = name.split("/")
    assert not any(part.startswith(("_", ".")) for part in parts)
    assert all(parts)
    assert not re.search("[\x00-\x1f\x7f]", name)
    assert not RESERVED & {part.casefold() for part in parts}


@given(st.text(alphabet="aä.€", min_size=1, max_size=600))
def test_a_cut_name_has_at_most_255_bytes_and_a_short_one_stays(text: str) -> None:
    name = fitted(f"d/{text}")
    assert len(name.removeprefix("d/").encode()) <= 255
    if len(text.encode()) <= 255:
        assert name == f"d/{text}"


def test_a_cut_name_keeps_its_ending_and_stays_different() -> None:
    one, two = fitted("a" * 300 + "1.csv.gpg"), fitted("a" * 300 + "2.csv.gpg")
    assert one != two
    assert one.endswith(".csv.gpg")
    assert len(one.encode()) == 255


@given(SHORT, SHORT)
def test_a_value_comes_back_as_it_was(column: str, text: str) -> None:
    assert hive_values(hive_folder([column], [text])) == {column: text}


def test_null_and_an_empty_text_are_one() -> None:
    folder = hive_folder(["a", "b"], [None, ""])
    assert folder == f"a={HIVE_NULL}/b={HIVE_NULL}"
    assert hive_values(folder) == {"a": None, "b": None}


def test_other_folders_name_no_column() -> None:
    assert hive_values("lake/day=1/part/x==y") == {"day": "1", "x": "=y"}
