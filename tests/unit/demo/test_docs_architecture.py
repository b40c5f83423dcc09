"""The page of the architecture fits the code: rooms, their order, and the files that it names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
ROOMS = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
# Modules that are no rooms: they import nothing, or only the command line.
APART = {"__init__", "__main__", "safe_path"}


def layers() -> list[list[str]]:
    """Return the rooms of each layer, as import-linter checks them, from the top down."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    first = tomllib.loads(text)["tool"]["importlinter"]["contracts"][0]
    return [
        [room.strip().removeprefix("dil.") for room in layer.split("|")]
        for layer in first["layers"]
    ]


def test_the_rooms_are_those_of_the_code() -> None:
    folders = {path.parent.name for path in (ROOT / "dil").glob("*/__init__.py")}
    modules = {path.stem for path in (ROOT / "dil").glob("*.py")} - APART

    assert sorted(ROOMS) == sorted(folders | modules)


def test_the_rooms_come_in_the_order_in_which_imports_run() -> None:
    assert [room for layer in layers() for room in layer] == ROOMS


def test_the_picture_shows_the_layers() -> None:
    picture = (ROOT / "docs/pictures/house.svg").read_text(encoding="utf-8")
    shown = re.findall(
        r'y="(\d+)" text-anchor="middle" font-size="12" fill="#222222">(\w+)<', picture
    )
    heights = sorted({int(height) for height, _ in shown})

    assert [[room for at, room in shown if int(at) == height] for height in heights] == layers()


def test_every_file_that_is_named_exists() -> None:
    named = set(re.findall(r"`((?:dil|connectors|docs|tests)/[\w./]+)`", PAGE))

    assert len(named) > 40
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_contributing_begins_with_the_architecture() -> None:
    text = (ROOT / "docs/contributing.md").read_text(encoding="utf-8")

    assert text.index("(architecture.md)") < text.index("\n## ")
