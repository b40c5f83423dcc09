"""A job that runs as a stream of micro-batches: its settings, and the micro-batch of a run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dil.model.json import JsonObject
from dil.model.work_unit import Plan

# The kind of the checkpoint of a job's newest micro-batch; the block has the same members.
STREAM = "stream"


class StreamMode(StrEnum):
    """``ms.stream.mode`` of a job that is a stream."""

    INGEST = "ingest"
    STATEFUL = "stateful"


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """The settings by which a job runs as a stream.

    ``every_ms`` is the time between two looks of a service for new work, None for a run that ends
    when it has caught up. A micro-batch has at most ``max_units`` work units, and about as many
    rows and bytes as the other limits say; None is no limit. ``checkpoint_dir`` is an absolute path
    or URI. ``stop_file`` is a local path, empty for none.
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
        """Return whether the stream runs until it is stopped."""
        return self.every_ms is not None


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The micro-batch of a run; ``number`` counts from 0 in each ``epoch``."""

    epoch: str
    number: int

    @classmethod
    def of(cls, members: JsonObject) -> MicroBatch | None:
        """Return the micro-batch that these members name; None if they name none."""
        epoch, number = members.get("epoch"), members.get("batchId")
        if not isinstance(epoch, str) or not isinstance(number, int):
            return None
        return cls(epoch, number)

    def members(self) -> JsonObject:
        """Return the members that the block and the checkpoint keep, except the end."""
        return {"epoch": self.epoch, "batchId": self.number}


@dataclass(frozen=True, slots=True)
class StreamState:
    """The newest micro-batch that the chain knows; ``end`` is the offset at which it ends."""

    batch: MicroBatch
    end: JsonObject

    @classmethod
    def of(cls, members: JsonObject) -> StreamState | None:
        """Return the state in a checkpoint; None if no micro-batch was committed."""
        batch, end = MicroBatch.of(members), members.get("end")
        return None if batch is None else cls(batch, end if isinstance(end, dict) else {})


@dataclass(frozen=True, slots=True)
class Look:
    """The result of one look for work: all due work, and the earlier runs that it finished first.

    ``recovered`` are the ids of the finished runs, and ``notes`` are sentences for people about
    them. ``takes`` has, for a derived dataset, the input slices that its one micro-batch takes;
    more may be due after them. ``why_nothing`` says why nothing is due, empty if something is.
    """

    plan: Plan
    recovered: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    takes: str = ""
    why_nothing: str = ""
