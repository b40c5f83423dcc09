"""The page on upgrading says of versions, formats and properties what the code does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from dil.config.table import GROUPS
from dil.state.databases.tables import FORMAT

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/upgrading.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_versions_that_are_needed_are_those_of_the_project() -> None:
    bounds = dict(
        bound.groups()
        for bound in map(re.compile(r"(pyarrow)>=([\d.]+)$").match, PROJECT["dependencies"])
        if bound
    )
    assert f"pyarrow {bounds['pyarrow']} or newer" in TEXT
    pythons = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if ":: 3." in each]
    assert f"Python is {pythons[0]} to {pythons[-1]}" in TEXT


def test_the_format_of_the_state_is_that_of_the_code() -> None:
    assert f"gives the store format {FORMAT}" in TEXT


def test_each_property_that_is_named_exists() -> None:
    known = {each.name for group in GROUPS for each in group.properties}
    named = set(re.findall(r"`((?:ms|source|fs|extract)\.[a-z.]+)(?:=[^`]*)?`", TEXT))
    assert len(named) > 8
    # ms.x.* and beginnings of names stand for many.
    assert {name for name in named if not name.endswith(".")} - known == set()
