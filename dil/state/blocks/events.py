"""Events of the metadata chain as values (rule C11); see ``event_json``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dil.model.derived import InputSlice, Judged
from dil.model.json import JsonObject

DATA_KINDS = frozenset({"AddData", "ExecuteQuery"})
CLOSE_BOOKS, REOPEN_BOOKS = "CloseBooks", "ReopenBooks"
CONFIG_KINDS = frozenset(
    {
        "SetPollingSource", "AddPushSource", "DisablePollingSource", "DisablePushSource",
        "SetTransform", "SetDataSchema", "SetVocab", "SetInfo", "SetLicense", "SetAttachments",
        "ResetState", "ArchiveSegment", CLOSE_BOOKS, REOPEN_BOOKS,
    }
)  # fmt: skip
SOURCE_KINDS = frozenset({"SetPollingSource", "SetTransform"})
EXTENSION_PREFIX = "ext."


@dataclass(frozen=True, slots=True)
class SliceFile:
    """One file of a slice; ``start`` and ``end`` are the offsets of its first and last row.

    In a file without rows ``end`` is ``start - 1``. Both offsets are None for a file that was
    published while no chain was kept.
    """

    path: str
    rows: int
    start: int | None
    end: int | None
    physical_hash: str
    size: int
    timelabel: str | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """The files that one data event adds and, in ``removes``, removes.

    ``start`` and ``end`` are the offset interval, both inclusive; both are None if the event adds
    no row. ``parts`` is None for slices of other tools, which name no files.
    """

    logical_hash: str | None
    physical_hash: str | None
    start: int | None
    end: int | None
    size: int
    parts: Sequence[SliceFile] | None = None
    removes: tuple[SliceFile, ...] = ()

    @property
    def rows(self) -> int:
        """Return the number of rows in the offset interval."""
        return 0 if self.start is None or self.end is None else self.end - self.start + 1


@dataclass(frozen=True, slots=True)
class SideFile:
    """One file of rows beside the dataset.

    The rows have no offsets, and readers of the dataset do not see them.
    """

    path: str
    rows: int
    physical_hash: str
    size: int


@dataclass(frozen=True, slots=True)
class SideFiles:
    """The files of late rows that one data event adds and, by path in ``removes``, removes."""

    parts: tuple[SideFile, ...] = ()
    removes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Changelog:
    """The files of rows that one data event changed, in the order of their rows.

    ``is_begun`` says that the files begin with all rows that the dataset had before the event: a
    new reader of the changelog begins here.
    """

    parts: tuple[SideFile, ...] = ()
    is_begun: bool = False


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One file with state of an engine."""

    physical_hash: str
    size: int


@dataclass(frozen=True, slots=True)
class SourceState:
    """The state of the source after an event; ``kind`` determines the form of ``value``."""

    source_name: str
    kind: str
    value: JsonObject


@dataclass(frozen=True, slots=True)
class DataEvent:
    """AddData, or ExecuteQuery if ``inputs`` is not None.

    ``late`` has the event's changes beside the dataset, None if there are none. ``changelog`` has
    the rows that the event changed, None if they were not recorded. ``judged`` says by which
    watermark rows were judged late. ``stream`` names the micro-batch of an ExecuteQuery, None for
    an ordinary run; an AddData has it in its source state. ``last_event_ms`` is the greatest event
    time (epoch ms UTC) of all rows so far, for a dataset that leaves out repeats; None if it is
    unknown.
    """

    prev_checkpoint: str | None = None
    prev_offset: int | None = None
    new_data: Slice | None = None
    new_checkpoint: Checkpoint | None = None
    new_watermark: str | None = None
    new_source_state: SourceState | None = None
    inputs: tuple[InputSlice, ...] | None = None
    late: SideFiles | None = None
    changelog: Changelog | None = None
    judged: Judged | None = None
    stream: JsonObject | None = None
    last_event_ms: int | None = None

    @property
    def kind(self) -> str:
        """Return the name of the event."""
        return "AddData" if self.inputs is None else "ExecuteQuery"

    @property
    def last_offset(self) -> int | None:
        """Return the offset of the newest row after this event, None if there is no row yet."""
        if self.new_data is None or self.new_data.end is None:
            return self.prev_offset
        return self.new_data.end

    @property
    def checkpoint_hash(self) -> str | None:
        """Return the hash of the checkpoint in force after this event."""
        return self.new_checkpoint.physical_hash if self.new_checkpoint else None


@dataclass(frozen=True, slots=True)
class Seed:
    """The event of block 0. ``dataset_kind`` is Root or Derivative."""

    dataset_id: str
    dataset_kind: str

    @property
    def kind(self) -> str:
        """Return the name of the event."""
        return "Seed"


@dataclass(frozen=True, slots=True)
class ConfigEvent:
    """Any other event; ``body`` has its fields without ``kind``."""

    kind: str
    body: JsonObject


Event: TypeAlias = Seed | DataEvent | ConfigEvent
