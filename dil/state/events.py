"""Events of the metadata chain as values, and their JSON form (metadata-chain.md section 2).

Fields that Open Data Fabric defines are always written, absent ones as null; fields of our own
(``parts``, ``removes``) are left out when absent (spec README 26).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from dil.model.json import JsonObject

DATA_KINDS = frozenset({"AddData", "ExecuteQuery"})
CONFIG_KINDS = frozenset(
    {
        "SetPollingSource", "AddPushSource", "DisablePollingSource", "DisablePushSource",
        "SetTransform", "SetDataSchema", "SetVocab", "SetInfo", "SetLicense", "SetAttachments",
        "ResetState", "ArchiveSegment", "CloseBooks", "ReopenBooks",
    }
)  # fmt: skip
SOURCE_KINDS = frozenset({"SetPollingSource", "SetTransform"})
EXTENSION_PREFIX = "ext."


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a slice. Offsets ``start`` to ``end`` are closed; without rows end = start - 1.

    Both offsets are None for a file that was published while no chain was kept.
    """

    path: str
    rows: int
    start: int | None
    end: int | None
    physical_hash: str
    size: int


@dataclass(frozen=True, slots=True)
class Slice:
    """What one data event adds and, in ``removes``, takes away.

    ``start`` and ``end`` are the closed offset interval; both are None when the event adds no row.
    ``parts`` is None for slices of other tools, which name no files.
    """

    logical_hash: str | None
    physical_hash: str | None
    start: int | None
    end: int | None
    size: int
    parts: tuple[Part, ...] | None = None
    removes: tuple[Part, ...] = ()

    @property
    def rows(self) -> int:
        """Return the number of rows by the offset interval."""
        return 0 if self.start is None or self.end is None else self.end - self.start + 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One file of engine state."""

    physical_hash: str
    size: int


@dataclass(frozen=True, slots=True)
class SourceState:
    """State of the source after an event; ``value`` depends on ``kind``."""

    source_name: str
    kind: str
    value: JsonObject


@dataclass(frozen=True, slots=True)
class InputSlice:
    """Which blocks and rows of one input a query took; both intervals are half-open ``(]``."""

    dataset_id: str
    prev_block_hash: str | None
    new_block_hash: str | None
    prev_offset: int | None
    new_offset: int | None

    @property
    def last_block(self) -> str | None:
        """Return the hash of the last block taken so far."""
        return self.new_block_hash or self.prev_block_hash

    @property
    def last_offset(self) -> int | None:
        """Return the last offset taken so far. Null is not 0."""
        return self.prev_offset if self.new_offset is None else self.new_offset


@dataclass(frozen=True, slots=True)
class DataEvent:
    """AddData, or ExecuteQuery when ``inputs`` is not None."""

    prev_checkpoint: str | None = None
    prev_offset: int | None = None
    new_data: Slice | None = None
    new_checkpoint: Checkpoint | None = None
    new_watermark: str | None = None
    new_source_state: SourceState | None = None
    inputs: tuple[InputSlice, ...] | None = None

    @property
    def kind(self) -> str:
        """Return the name of the event."""
        return "AddData" if self.inputs is None else "ExecuteQuery"

    @property
    def last_offset(self) -> int | None:
        """Return the offset of the newest row after this event, None before the first one."""
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
    """Any other event; ``body`` holds its fields without ``kind``."""

    kind: str
    body: JsonObject


Event: TypeAlias = Seed | DataEvent | ConfigEvent


def to_json(event: Event) -> JsonObject:
    """Return the event's JSON form."""
    if isinstance(event, Seed):
        return {
            "kind": event.kind,
            "datasetId": event.dataset_id,
            "datasetKind": event.dataset_kind,
        }
    if isinstance(event, ConfigEvent):
        return {"kind": event.kind, **event.body}
    fields: dict[str, Any] = {
        "kind": event.kind,
        "prevCheckpoint": event.prev_checkpoint,
        "prevOffset": event.prev_offset,
        "newData": _slice_json(event.new_data) if event.new_data else None,
        "newCheckpoint": _checkpoint_json(event.new_checkpoint),
        "newWatermark": event.new_watermark,
    }
    if event.inputs is None:
        fields["newSourceState"] = _source_state_json(event.new_source_state)
    else:
        fields["queryInputs"] = [_input_json(item) for item in event.inputs]
    return fields


def from_json(fields: Mapping[str, Any]) -> Event:
    """Return the event that a JSON form describes; also reads ODF's newer word ExecuteTransform.

    Raises:
        KeyError: a field that every event of this kind has is missing.
    """
    kind = fields["kind"]
    if kind == "Seed":
        return Seed(fields["datasetId"], fields["datasetKind"])
    if kind not in DATA_KINDS and kind != "ExecuteTransform":
        return ConfigEvent(kind, {name: item for name, item in fields.items() if name != "kind"})
    checkpoint = fields["newCheckpoint"]
    inputs = None
    if kind != "AddData":
        inputs = tuple(_read_input(item) for item in fields["queryInputs"])
    return DataEvent(
        prev_checkpoint=fields["prevCheckpoint"],
        prev_offset=fields["prevOffset"],
        new_data=_read_slice(fields["newData"]),
        new_checkpoint=checkpoint and Checkpoint(checkpoint["physicalHash"], checkpoint["size"]),
        new_watermark=fields["newWatermark"],
        new_source_state=_read_source_state(fields.get("newSourceState")),
        inputs=inputs,
    )


def _slice_json(new_data: Slice) -> JsonObject:
    interval = None
    if new_data.start is not None:
        interval = {"start": new_data.start, "end": new_data.end}
    fields: dict[str, Any] = {
        "logicalHash": new_data.logical_hash,
        "physicalHash": new_data.physical_hash,
        "offsetInterval": interval,
        "size": new_data.size,
    }
    if new_data.parts is not None:
        fields["parts"] = [_part_json(part) for part in new_data.parts]
    if new_data.removes:
        fields["removes"] = [_part_json(part) for part in new_data.removes]
    return fields


def _part_json(part: Part) -> JsonObject:
    return {
        "path": part.path,
        "rows": part.rows,
        "start": part.start,
        "end": part.end,
        "physicalHash": part.physical_hash,
        "size": part.size,
    }


def _checkpoint_json(checkpoint: Checkpoint | None) -> JsonObject | None:
    if checkpoint is None:
        return None
    return {"physicalHash": checkpoint.physical_hash, "size": checkpoint.size}


def _source_state_json(state: SourceState | None) -> JsonObject | None:
    if state is None:
        return None
    return {"sourceName": state.source_name, "kind": state.kind, "value": state.value}


def _input_json(item: InputSlice) -> JsonObject:
    return {
        "datasetId": item.dataset_id,
        "prevBlockHash": item.prev_block_hash,
        "newBlockHash": item.new_block_hash,
        "prevOffset": item.prev_offset,
        "newOffset": item.new_offset,
    }


def _read_slice(fields: Mapping[str, Any] | None) -> Slice | None:
    if fields is None:
        return None
    interval = fields["offsetInterval"] or {"start": None, "end": None}
    parts = fields.get("parts")
    return Slice(
        logical_hash=fields["logicalHash"],
        physical_hash=fields["physicalHash"],
        start=interval["start"],
        end=interval["end"],
        size=fields["size"],
        parts=None if parts is None else tuple(_read_part(part) for part in parts),
        removes=tuple(_read_part(part) for part in fields.get("removes", ())),
    )


def _read_part(fields: Mapping[str, Any]) -> Part:
    return Part(
        path=fields["path"],
        rows=fields["rows"],
        start=fields["start"],
        end=fields["end"],
        physical_hash=fields["physicalHash"],
        size=fields["size"],
    )


def _read_source_state(fields: Mapping[str, Any] | None) -> SourceState | None:
    if fields is None:
        return None
    return SourceState(fields["sourceName"], fields["kind"], fields["value"])


def _read_input(fields: Mapping[str, Any]) -> InputSlice:
    return InputSlice(
        dataset_id=fields["datasetId"],
        prev_block_hash=fields["prevBlockHash"],
        new_block_hash=fields["newBlockHash"],
        prev_offset=fields["prevOffset"],
        new_offset=fields["newOffset"],
    )
