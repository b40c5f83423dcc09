"""What the table calls working is read by code, and what the sections of a job hold is used."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from dil.config.table import SECTIONS as SECTIONS_OF_PROPERTIES
from dil.config.table import TABLE
from dil.model import job as sections
from dil.model.section import Support, property_name

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
# These only list names, or tell about them.
TABLES = {ROOT / "dil/config" / name for name in ("table.py", "deprecated.py", "docs.py")}
ABOUT_A_NAME = {"problem", "notice", "single", "is_sound", "prop"}


def modules(*without: Path) -> Iterator[Path]:
    for folder in ("dil", "connectors"):
        for path in (ROOT / folder).rglob("*.py"):
            if path not in TABLES and not any(path.is_relative_to(one) for one in without):
                yield path


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text("utf-8"))))


@cache
def attributes_of(path: Path) -> set[str]:
    return attributes_read(nodes_of(path))


def texts_read(nodes: list[ast.AST]) -> set[str]:
    """Return the texts of a module, less those that only name a property in a finding."""
    told = {
        id(argument)
        for node in nodes
        if isinstance(node, ast.Call) and _name(node.func) in ABOUT_A_NAME
        for argument in node.args
    }
    return {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told
    }


def _name(function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def attributes_read(nodes: Iterable[ast.AST]) -> set[str]:
    return {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


def test_every_property_that_works_is_read() -> None:
    """By its name, or as the field of its section."""
    names = set[str]().union(*map(texts_read, map(nodes_of, modules())))
    attributes = set[str]().union(*map(attributes_of, modules()))
    fields = {
        property_name(field): field.name
        for section in SECTIONS_OF_PROPERTIES
        for field in dataclasses.fields(section)
    }
    working = {name for name, entry in TABLE.items() if entry.support is Support.WORKS}
    unread = {name for name in working - names if fields.get(name) not in attributes}

    assert sorted(unread) == []


SECTIONS = [
    section
    for section in vars(sections).values()
    if dataclasses.is_dataclass(section) and section.__module__ == sections.__name__
]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_every_field_of_a_job_is_used_outside_of_configuration(section: type) -> None:
    elsewhere = modules(ROOT / "dil/config", ROOT / "dil/model")
    used = set[str]().union(*map(attributes_of, elsewhere))
    for name, member in vars(section).items():
        if isinstance(member, property) and name in used:  # it is used by what the property makes
            source = textwrap.dedent(inspect.getsource(member.fget))
            used |= attributes_read(ast.walk(ast.parse(source)))

    assert [field.name for field in dataclasses.fields(section) if field.name not in used] == []
