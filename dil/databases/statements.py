"""How values and names are written in statements, whatever the engine.

A value's place in a statement is ``MARK``, which no name and no text of a statement can hold; a
driver's own placeholder takes its place when the statement is run.
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
    """Return a name as a statement holds it, whatever characters it has."""
    end = closing or opening
    return opening + name.replace(end, end * 2) + end
