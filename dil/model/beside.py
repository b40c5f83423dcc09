"""The columns that side tables have and the dataset lacks, as lines of a schema."""

from __future__ import annotations

from collections.abc import Iterable

# The columns that a changelog adds to each row.
OP = "op"
OP_COLUMN = f"{OP}: int32"
LATE_COLUMNS = (
    "_late_at: timestamp[us, tz=UTC]",
    "_watermark: timestamp[us, tz=UTC]",
    "_timelabel: string",
    "_batch: string",
)


def with_columns(schema: str, lines: Iterable[str]) -> str:
    r"""Return the text of a schema, followed by the columns of ``lines`` that it lacks.

    >>> with_columns("id: int64", ["id: string", "op: int32"])
    'id: int64\nop: int32'
    """
    known = schema.splitlines()
    names = {line.partition(": ")[0] for line in known}
    new = (line for line in lines if line.partition(": ")[0] not in names)
    return "\n".join([*known, *new])
