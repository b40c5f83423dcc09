"""Rows of one file of a dataset: as named by a chain, and as read by a task."""

from __future__ import annotations

from dataclasses import dataclass

from dil.errors import StateError


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


def gone_file(path: str) -> StateError:
    """Return the error for a file that left its dataset before its rows were read."""
    return StateError(
        f"{path} is gone: its rows were replaced, withdrawn or put together with others since",
        "Read the dataset at a later block, or its newest state. `dil state log` shows which block"
        " removed the file.",
    )
