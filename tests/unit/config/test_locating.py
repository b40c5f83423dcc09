"""Problems inside a long value point to the line of the member that they name."""

from __future__ import annotations

import pytest

from dil.config.entry import Entry
from dil.config.locating import located
from dil.errors import Origin, Problem

LINES = """\
[
{"name": "a",
"units": ["x",
"y"]},
{"name": "b",
"range": {"from": "y"}}
]"""


def line_of(text: str, what: str) -> int | None:
    breaks = tuple(index + 1 for index, letter in enumerate(text) if letter == "\n")
    origin = Origin("a.conf", 1)
    problem = Problem(origin, "ms.watermark", what, "")
    found = located(problem, {"ms.watermark": Entry("ms.watermark", text, origin, breaks)})
    return found.origin.line if found.origin else None


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("[1] has no type", 5),
        ("[1].range is wrong", 6),
        ("[1].range.until is missing", 6),
        ('"b" has no type', 5),
        ('[0].units has the unknown word "y"', 4),
        ('[1] has the unknown word "y"', 6),
        ("[7] has no type", 1),
        ("[0][1] is no text", 2),
        ("is no JSON array", 1),
    ],
)
def test_a_problem_points_to_the_deepest_member_that_it_names_and_that_exists(what, line):
    assert line_of(LINES, what) == line


@pytest.mark.parametrize(
    "text",
    [
        '[\n{"name": "a\\d"},\n{"name": "b"}]',
        '[\n{"name": "a"},\n{"name": "b"',
    ],
)
def test_a_value_without_lines_of_its_own_keeps_the_line_of_its_key(text):
    assert line_of(text, "[1] has no type") == 1
