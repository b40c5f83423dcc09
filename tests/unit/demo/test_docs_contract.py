"""The docs name each check of the contract suite for connectors, and what a harness has to give."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from dil.testing.source_contract import SourceContract, SourceHarness

PAGE = Path(__file__).parents[3] / "docs/writing-a-connector.md"
LINE = re.compile(r"^\| `(test_\w+)` \| (.+) \| (.+) \|$", re.MULTILINE)


def lines() -> list[tuple[str, str, str]]:
    return LINE.findall(PAGE.read_text(encoding="utf-8"))


def members(of: type) -> dict[str, object]:
    return {name: member for name, member in vars(of).items() if not name.startswith("_")}


def test_each_check_has_one_line_in_the_order_of_the_suite() -> None:
    checks = [name for name in members(SourceContract) if name.startswith("test_")]
    assert [name for name, _expects, _by in lines()] == checks


def test_each_line_names_what_its_check_takes_of_the_harness_and_no_member_is_left_out() -> None:
    known = {*members(SourceHarness), *SourceHarness.__annotations__}
    named: set[str] = set()
    for check, _expects, by in lines():
        given = set(re.findall(r"`(\w+)`", by))
        assert given <= known, check
        source = inspect.getsource(getattr(SourceContract, check))
        direct = {name for name in known if f"source.{name}" in source}
        # Each check fills the source; that is named where it asks for nothing else.
        assert direct - {"fill"} <= given, check
        named |= given
    assert named == known
