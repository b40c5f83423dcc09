"""Writes values and names in statements, for all engines.

A value's place in a statement is ``MARK``, which cannot occur in a name or a text of a statement;
the driver's own placeholder replaces it when the statement is run.
"""

from __future__ import annotations

MARK = "\0"


def with_percents(statement: str) -> str:
    """Return a statement with the placeholders of PyMySQL and psycopg."""
    return statement.replace("%", "%%").replace(MARK, "%s")


def with_questions(statement: str) -> str:
    """Return a statement with the placeholders of SQLite and DuckDB."""
    return statement.replace(MARK, "?")


def with_numbers(statement: str) -> str:
    """Return a statement with the placeholders of a PostgreSQL server."""
    parts = statement.split(MARK)
    return "".join(f"${number}{part}" if number else part for number, part in enumerate(parts))


def quoted(name: str, opening: str = '"', closing: str = "") -> str:
    """Return a name in quotes for a statement, whatever characters the name has."""
    end = closing or opening
    return opening + name.replace(end, end * 2) + end
