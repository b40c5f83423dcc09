"""A job that runs as a stream of micro-batches: how it runs, and which micro-batch a run is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dil.model.json import JsonObject
from dil.model.work_unit import Plan

# The checkpoint of a job's newest micro-batch; its members are those of the block, too.
STREAM = "stream"


class StreamMode(StrEnum):
    """``ms.stream.mode`` of a job that is a stream."""

    INGEST = "ingest"
    STATEFUL = "stateful"


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """How a job runs as a stream.

    ``every_ms`` is how often a service looks for new work, None for a run that ends when it has
    caught up. A micro-batch has at most so many work units (``max_units``), and about so many rows
    and bytes; None for no limit. ``checkpoint_dir`` is an absolute path or URI. ``stop_file`` is a
    local path, empty for none.
    """

    every_ms: int | None = None
    max_units: int | None = None
    max_rows: int | None = None
    max_bytes: int | None = None
    checkpoint_dir: str = ""
    stop_file: str = ""
    mode: StreamMode = StreamMode.INGEST

    @property
    def is_service(self) -> bool:
        """Return whether it goes on until it is stopped."""
        return self.every_ms is not None


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Which micro-batch a run is: ``number`` counts from 0 inside of its ``epoch``."""

    epoch: str
    number: int

    @classmethod
    def of(cls, members: JsonObject) -> MicroBatch | None:
        """Return the micro-batch of some members, None if they name none."""
        epoch, number = members.get("epoch"), members.get("batchId")
        if not isinstance(epoch, str) or not isinstance(number, int):
            return None
        return cls(epoch, number)

    def members(self) -> JsonObject:
        """Return the members that the block and the checkpoint keep, without the end."""
        return {"epoch": self.epoch, "batchId": self.number}


@dataclass(frozen=True, slots=True)
class StreamState:
    """The newest micro-batch that the chain knows; ``end`` is the offset at which it ends."""

    batch: MicroBatch
    end: JsonObject

    @classmethod
    def of(cls, members: JsonObject) -> StreamState | None:
        """Return the state in a checkpoint, None if no micro-batch was committed."""
        batch, end = MicroBatch.of(members), members.get("end")
        return None if batch is None else cls(batch, end if isinstance(end, dict) else {})


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found: all that is due, and the runs that were finished before.

    ``recovered`` are their ids, and ``notes`` what people should know of them. ``takes`` says of a
    derived dataset what its one micro-batch takes, and of which inputs; more may be due behind it.
    ``why_nothing`` says why nothing is due, empty if something is.
    """

    plan: Plan
    recovered: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    takes: str = ""
    why_nothing: str = ""
