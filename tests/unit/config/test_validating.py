"""How a section is made of what a job writes, with pydantic and without it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
from annotated_types import Ge, Le, MinLen

from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.read_context import JobReadContext
from dil.config.sections import read_section
from dil.errors import Origin
from dil.model.secondary import SecondaryRetry
from dil.model.section import Int, Section, StandsFor, Text, Texts, ValueType, Written, prop
from dil.secrets import SecretResolver


@dataclass(frozen=True, slots=True)
class Chosen(Section):
    """Numbers with bounds, one of which stands for another, and a text with a least length."""

    count: Annotated[Int, StandsFor({0: 7}), Ge(1), Le(9)] = prop("count", "", default=3)
    name: Annotated[Text, MinLen(2)] = prop("name", "", default="none")
    others: Texts = prop("others", "", default=())
    pause: Annotated[SecondaryRetry, Written(ValueType.JSON_OBJECT)] = prop(
        "pause", "", default=SecondaryRetry()
    )


def read(written: dict[str, str]) -> tuple[Chosen, list[tuple[str, str]]]:
    """Return the section, and keys and texts of the problems."""
    findings = Findings()
    around = JobReadContext(SecretResolver({}, Path()), "UTC")
    entries = {key: Entry(key, text, Origin("f", 1)) for key, text in written.items()}
    found = read_section(Chosen, entries, around, findings)
    return found, [(each.key, f"{each.what}. {each.fix}") for each in findings.problems]


@pytest.mark.parametrize("other", [{}, {"name": "ab"}], ids=["plain", "by pydantic"])
@pytest.mark.parametrize(
    ("text", "count", "is_wrong"),
    [
        ("1", 1, False),
        ("9", 9, False),
        ("0", 7, False),
        ("10", 3, True),
        ("-1", 3, True),
        ("x", 3, True),
    ],
)
def test_a_number_is_what_its_type_says(
    other: dict[str, str], text: str, count: int, is_wrong: bool
) -> None:
    found, problems = read({"count": text, "others": "a, b", **other})

    assert (found.count, found.others) == (count, ("a", "b"))
    assert [key for key, _ in problems] == ["count"] * is_wrong
    assert all("Allowed: 1 to 9." in text for _, text in problems)


def test_a_type_may_have_constraints_that_only_pydantic_knows() -> None:
    assert read({"name": "ab"})[0].name == "ab"
    found, ((key, text),) = read({"name": "a", "count": "4"})

    assert (found.name, found.count, key) == ("none", 4, "name")
    assert text.startswith('is "a". ')
    assert "at least 2" in text


def test_json_is_read_as_the_model_of_its_field() -> None:
    assert read({"pause": '{"delayInSec": "5"}'})[0].pause == SecondaryRetry(delay_s=5)
    found, ((key, text),) = read({"pause": '{"delay": 5}'})

    assert (found.pause, key) == (SecondaryRetry(), "pause")
    assert 'unknown member "delay"' in text
