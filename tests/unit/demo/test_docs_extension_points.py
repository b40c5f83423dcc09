"""The pages on writing an extension name methods that the interfaces have."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs").glob("writing-a-*.md"))
CALL = re.compile(r"`(?:\w+\.)*(\w+)\([^`]*\)`")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def defined() -> set[str]:
    """Return the names of all functions, methods and fields of the public interfaces."""
    files = [path for room in ("spi", "model") for path in (ROOT / "dil" / room).glob("*.py")]
    found = set()
    for node in (node for path in files for node in ast.walk(ast.parse(path.read_text("utf-8")))):
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)  # a field may hold a function
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_each_method_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    examples = " ".join(FENCE.findall(text))
    named = set(CALL.findall(FENCE.sub("", text)))
    assert named
    assert {name for name in named - defined() if f"{name}(" not in examples} == set()
