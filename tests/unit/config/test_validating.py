"""How a section is made of what a job writes, with pydantic and without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
from annotated_types import Ge, Le, MinLen

from dil.config.sections import validate
from dil.model.section import Blank, Int, Section, StandsFor, Text, Written, prop


@dataclass(frozen=True, slots=True)
class Chosen(Section):
    """Numbers with bounds, one of which stands for another, and a text with a least length."""

    count: Annotated[Int, StandsFor({0: 7}), Ge(1), Le(9)] = prop("count", "", default=3)
    name: Annotated[Text, MinLen(2)] = prop("name", "", default="none")


class Texts:
    """Reads a text as the number that it is, and an empty one as nothing written."""

    def value(self, written: Written, type_: object, text: object) -> object:
        del written
        if text == "":
            raise Blank
        return int(str(text)) if type_ is int else text


@pytest.mark.parametrize("other", [{}, {"name": "ab"}], ids=["plain", "by pydantic"])
@pytest.mark.parametrize(
    ("text", "count", "is_wrong"),
    [
        ("1", 1, False),
        ("9", 9, False),
        ("0", 7, False),
        ("", 3, False),
        ("10", 3, True),
        ("-1", 3, True),
        ("x", 3, True),
    ],
)
def test_a_number_is_what_its_type_says(
    other: dict[str, str], text: str, count: int, is_wrong: bool
) -> None:
    found, wrong = validate(Chosen, {"count": text, **other}, Texts())

    assert (found.count, [each["loc"] for each in wrong]) == (count, [("count",)] * is_wrong)


def test_a_type_may_have_constraints_that_only_pydantic_knows() -> None:
    assert validate(Chosen, {"name": "ab"}, Texts())[0].name == "ab"
    found, wrong = validate(Chosen, {"name": "a"}, Texts())
    assert (found.name, [each["loc"] for each in wrong]) == ("none", [("name",)])
