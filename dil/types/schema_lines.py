"""The text of a recorded schema, read without Arrow: a line ``name: type`` for each column."""

from __future__ import annotations

from collections.abc import Iterable

NOT_NULL = " not null"
# The column that a changelog adds to each row.
OP = "op"
OP_COLUMN = f"{OP}: int32"
# The columns that late rows have beside those of the dataset.
LATE_COLUMNS = (
    "_late_at: timestamp[us, tz=UTC]",
    "_watermark: timestamp[us, tz=UTC]",
    "_timelabel: string",
    "_batch: string",
)


def column_types(text: str) -> dict[str, str]:
    """Return the type of each column in Arrow's words, without ``not null``."""
    parts = (line.partition(": ") for line in text.splitlines())
    return {name: kind.removesuffix(NOT_NULL) for name, _, kind in parts}


def regardless_of_nulls(kind: str) -> str:
    """Return the text of a type without its words about nulls inside."""
    return kind.replace(NOT_NULL, "")


def with_columns(schema: str, lines: Iterable[str]) -> str:
    r"""Return the text of a schema, followed by the columns of ``lines`` that it lacks.

    >>> with_columns("id: int64", ["id: string", "op: int32"])
    'id: int64\nop: int32'
    """
    known = schema.splitlines()
    names = {line.partition(": ")[0] for line in known}
    new = (line for line in lines if line.partition(": ")[0] not in names)
    return "\n".join([*known, *new])
