"""The interface between steps that put rows aside and the store of these rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row of a batch that is put aside: its position from 0, the column, and the reason.

    ``reason`` never holds the value; ``kind`` is the part of the reason that equal failures share.
    """

    row: int
    column: str
    reason: str
    kind: str = ""


class Rejects(Protocol):
    """Keeps the rows that the steps of one attempt put aside.

    A step that calls ``add`` also counts these rows in its ``dropped``, so that the number of rows
    read is the sum of rows written and rows dropped.
    """

    def begin(self, page: int, rows: int) -> None:
        """Announce a batch of ``rows`` rows of a page, before the first step gets it.

        ``page`` counts from 1; 0 means that the page is unknown.
        """

    def add(self, batch: pa.RecordBatch, rejected: Sequence[RejectedRow]) -> None:
        """Keep the rejected rows of a batch as the step got them: in order, each row once.

        Raises:
            ConversionError: the job allows fewer rows to be put aside.
            WriteError: the rows cannot be written.
        """

    def discard(self, column: str, values: int) -> None:
        """Count values of a column that were left out while their rows were kept."""


class NoRejects:
    """Keeps nothing, for chains outside a task."""

    def begin(self, page: int, rows: int) -> None:
        """Record nothing."""

    def add(self, batch: pa.RecordBatch, rejected: Sequence[RejectedRow]) -> None:
        """Drop the rows."""

    def discard(self, column: str, values: int) -> None:
        """Count nothing."""
