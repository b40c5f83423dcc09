"""The seam between steps that put rows aside and the place where those rows are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """One row of a batch that is put aside: its 0-based position, the column, and why.

    ``reason`` never holds the value, ``kind`` is the part of it that equal failures share.
    """

    row: int
    column: str
    reason: str
    kind: str = ""


class Rejects(Protocol):
    """Where a step of one attempt leaves the rows that it does not hand on.

    A step that calls ``add`` counts the same rows in its ``dropped``, so that rows read are rows
    written and rows dropped.
    """

    def begin(self, page: int, rows: int) -> None:
        """Say that a batch of ``rows`` rows of a page comes to the first step.

        ``page`` counts from 1; 0 means that the page is unknown.
        """

    def add(self, batch: pa.RecordBatch, rejected: Sequence[RejectedRow]) -> None:
        """Keep rows of a batch as the step got it; ``rejected`` is in order, each row once.

        Raises:
            ConversionError: the job allows fewer rows to be put aside.
            WriteError: they cannot be written.
        """

    def discard(self, column: str, values: int) -> None:
        """Count values of a column that were left out while their rows were kept."""


class NoRejects:
    """Keeps nothing: for chains outside a task."""

    def begin(self, page: int, rows: int) -> None:
        """Take no note."""

    def add(self, batch: pa.RecordBatch, rejected: Sequence[RejectedRow]) -> None:
        """Drop the rows."""

    def discard(self, column: str, values: int) -> None:
        """Count nothing."""
