"""Properties are read from sections, by class: a name that is looked up is checked by nobody."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from dil.config.table import ALIASES, TABLE

ROOT = Path(__file__).parents[3]
HOLDERS = {"properties", "_properties", "values", "_values"}
READERS = {
    "get", "typed", "text", "integer", "optional_integer", "milliseconds", "boolean", "secret",
}  # fmt: skip


def constants(tree: ast.Module) -> dict[str, str]:
    """Return the texts that a module gives names to."""
    found: dict[str, str] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                found[name] = text
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=texts)):
                pairs = zip(names, texts, strict=False)
                found |= {
                    name.id: text.value
                    for name, text in pairs
                    if isinstance(name, ast.Name) and isinstance(text, ast.Constant)
                }
    return found


def reads(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the keys by which something is looked up in properties."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=holder, slice=key):
                pass
            case ast.Call(func=ast.Attribute(value=holder, attr=attr), args=[key, *_]) if (
                attr in READERS
            ):
                pass
            case _:
                continue
        name = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
        if name in HOLDERS:
            yield key


def test_no_module_looks_a_property_up_by_its_name() -> None:
    trees = {
        str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8"))
        for package in ("dil", "connectors")
        for path in (ROOT / package).rglob("*.py")
    }
    shared: dict[str, str] = {}
    for place, tree in trees.items():
        if place.startswith("dil/spi/"):
            shared |= constants(tree)
    found = []
    for place, tree in trees.items():
        known = {**shared, **constants(tree)}
        for key in reads(tree):
            text = key.value if isinstance(key, ast.Constant) else known.get(ast.unparse(key))
            if text in TABLE or text in ALIASES:
                found.append((place, key.lineno, text))

    assert found == []
