"""A range of rows in one file of a dataset, which a chain names and a task reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileRows:
    """``count`` rows of a file from row ``first`` on (from 0); the chain says it has ``rows``.

    ``offset`` is the offset in the dataset of the first row taken, and ``size`` is the size of the
    file in bytes; both are 0 if they are not needed. ``timelabel`` is the file's label, None for
    none.
    """

    uri: str
    rows: int
    first: int
    count: int
    size: int = 0
    offset: int = 0
    timelabel: str | None = None

    @classmethod
    def whole(cls, uri: str, rows: int) -> FileRows:
        """Return all rows of a file."""
        return cls(uri, rows, 0, rows)
