"""Folders ``column=value``, written and read back."""

from hypothesis import given
from hypothesis import strategies as st

from dil.text.hive_folders import NULL, hive_folder, hive_values

SHORT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@given(SHORT, SHORT)
def test_a_value_comes_back_as_it_was(column: str, text: str) -> None:
    assert hive_values(hive_folder([column], [text])) == {column: text}


def test_null_and_an_empty_text_are_one() -> None:
    folder = hive_folder(["a", "b"], [None, ""])
    assert folder == f"a={NULL}/b={NULL}"
    assert hive_values(folder) == {"a": None, "b": None}


def test_other_folders_name_no_column() -> None:
    assert hive_values("lake/day=1/part/x==y") == {"day": "1", "x": "=y"}
