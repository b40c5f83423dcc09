"""Rows of one file of a dataset: as named by a chain, and as read by a task."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileRows:
    """``count`` rows of a file that has ``rows`` by the chain, from row ``first`` on, from 0.

    ``offset`` is that of the first one taken in the dataset, and ``size`` that of the file in
    bytes; both are 0 where they are not needed. ``timelabel`` is that of the file, None for none.
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
