"""Texts inside properties that have a grammar."""

from __future__ import annotations

import pytest

from dil.sections.grammars import check_written_pattern, one_place, through_members
from dil.sections.reading import ShapeError
from dil.text.paths import compile_path


@pytest.mark.parametrize(
    ("path", "is_place", "is_member"),
    [
        ("$.a.b", True, True),
        ("$", True, False),
        ("$.a[0]", True, False),
        ("$[0].a", True, False),
        ("$.a[*]", False, False),
    ],
)
def test_a_path_through_members_names_at_least_one_and_nothing_else(
    path: str, is_place: bool, is_member: bool
) -> None:
    found = compile_path(path)
    assert (not one_place(found), not through_members(found)) == (is_place, is_member)


def test_a_pattern_that_cannot_be_read_cannot_be_written_either() -> None:
    with pytest.raises(ShapeError) as caught:
        check_written_pattern("yyyy-bb", "UTC", "the header")
    ((what, fix),) = caught.value.findings
    assert what.startswith("the header: ")
    assert fix
