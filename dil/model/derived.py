"""The input slices of a derived dataset's run, and the query in its commit."""

from __future__ import annotations

from dataclasses import dataclass

# The options of a run that rebuilds a derived dataset from its inputs, and the whole command.
MADE_ANEW = "-D ms.query.mode=full -D ms.publish.mode=replace"
RUN_ANEW = f"dil run JOB.conf {MADE_ANEW} (of a stream with -D ms.stream.mode=none, too)"


@dataclass(frozen=True, slots=True)
class InputSlice:
    """The blocks and rows of one input that a query took; both intervals are half-open ``(]``.

    ``closed`` says whether the query read only rows of closed timelabels; None if that is unknown,
    because an earlier release wrote the block.
    """

    dataset_id: str
    prev_block_hash: str | None
    new_block_hash: str | None
    prev_offset: int | None
    new_offset: int | None
    closed: bool | None = None

    @property
    def last_block(self) -> str | None:
        """Return the hash of the last block that was taken so far."""
        return self.new_block_hash or self.prev_block_hash

    @property
    def last_offset(self) -> int | None:
        """Return the last offset that was taken so far; None if no row was taken."""
        return self.prev_offset if self.new_offset is None else self.new_offset

    @property
    def reached(self) -> int:
        """Return the last offset that was taken before this slice, -1 before the first row."""
        return -1 if self.prev_offset is None else self.prev_offset

    @property
    def rows(self) -> int:
        """Return the number of records in the slice; 0 if it has no new offset."""
        return 0 if self.new_offset is None else self.new_offset - self.reached


@dataclass(frozen=True, slots=True)
class Judged:
    """The settings by which rows of a query were judged late; they suffice to judge the rows again.

    ``watermark`` is epoch ms UTC, None while no row is late; ``action`` is ms.late.action.
    """

    watermark: int | None
    column: str
    action: str


@dataclass(frozen=True, slots=True)
class QueryStep:
    """The query of a commit: it makes the commit's data event an ExecuteQuery.

    ``transform`` is the body of the SetTransform that has to be in force, as compact JSON;
    ``inputs`` are the slices, in the order of that body. ``watermark`` is the dataset's watermark
    after the commit, in the form of a block. ``logical_hash`` covers the new rows in the order of
    their offsets, None if the job does not set it. ``judged`` is None if rows are not judged by
    their event time. ``last_event_ms`` is the greatest event time (epoch ms UTC) of the query's
    rows, including repeats; None if the job does not need it, or no row has an event time.
    """

    transform: str
    inputs: tuple[InputSlice, ...]
    watermark: str | None = None
    logical_hash: str | None = None
    judged: Judged | None = None
    last_event_ms: int | None = None
