"""A range of rows in one file of a dataset, which a chain names and a task reads."""

from __future__ import annotations

from dataclasses import dataclass

from dil.errors import StateError


@dataclass(frozen=True, slots=True)
class FileRows:
    """``count`` rows of a file, from row ``first`` on (counted from 0).

    ``rows`` is the number of all rows of the file, as its chain records it.
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


def gone_file(path: str) -> StateError:
    """Return the error for a file that left its dataset before its rows were read."""
    return StateError(
        f"{path} is gone: its rows were replaced, withdrawn or put together with others since",
        "Read the dataset at a later block, or its newest state. `dil state log` shows which block"
        " removed the file.",
    )
