"""Reads the text of a recorded schema without Arrow: a line ``name: type`` for each column."""

from __future__ import annotations

NOT_NULL = " not null"


def column_types(text: str) -> dict[str, str]:
    """Return the type of each column in Arrow's words, without ``not null``."""
    parts = (line.partition(": ") for line in text.splitlines())
    return {name: kind.removesuffix(NOT_NULL) for name, _, kind in parts}


def regardless_of_nulls(kind: str) -> str:
    """Return the text of a type without its words about nulls inside."""
    return kind.replace(NOT_NULL, "")
