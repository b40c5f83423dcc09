"""The JSON form of the metadata chain's events (rules C11 to C13).

Fields that Open Data Fabric defines are always written, absent ones as null; our own fields
(``parts``, ``removes``, ``lateData``, ``changelogData``, ``judgedBy``, ``stream``,
``lastEventMs``, and ``closed`` of an input) are left out if absent (rule C10). Reading checks the
type of each known field and ignores unknown members.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from dil.model.derived import InputSlice, Judged
from dil.model.json import JsonObject, JsonValue
from dil.model.on_demand import OnDemand
from dil.state.blocks.events import (
    DATA_KINDS,
    Changelog,
    Checkpoint,
    ConfigEvent,
    DataEvent,
    Event,
    Seed,
    SideFile,
    SideFiles,
    Slice,
    SliceFile,
    SourceState,
)

# Open Data Fabric's newer word for ExecuteQuery; read, never written.
EXECUTE_TRANSFORM = "ExecuteTransform"
_Field = TypeVar("_Field", str, int, list[Any], dict[str, Any])


def required(fields: Mapping[str, Any], name: str, kind: type[_Field]) -> _Field:
    """Return a field, which must be of the type ``kind``.

    Raises:
        KeyError: the field is missing.
        TypeError: the field has another type, or ``fields`` is not an object.
    """
    found = fields[name]
    if isinstance(found, bool) or not isinstance(found, kind):
        raise TypeError(f"{name} is {found!r}")
    return found


def optional(fields: Mapping[str, Any], name: str, kind: type[_Field]) -> _Field | None:
    """Return a field, which must be of the type ``kind``, or None for an explicit null.

    Raises:
        KeyError: the field is missing.
        TypeError: the field has another type, or ``fields`` is not an object.
    """
    return None if fields[name] is None else required(fields, name, kind)


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
    if event.late is not None:
        fields["lateData"] = _late_json(event.late)
    if event.changelog is not None:
        parts = [_side_json(part) for part in event.changelog.parts]
        fields["changelogData"] = {"parts": parts, "isBegun": event.changelog.is_begun}
    if event.judged is not None:
        fields["judgedBy"] = {
            "watermark": event.judged.watermark,
            "column": event.judged.column,
            "lateAction": event.judged.action,
        }
    if event.stream is not None:
        fields["stream"] = event.stream
    if event.last_event_ms is not None:
        fields["lastEventMs"] = event.last_event_ms
    return fields


def from_json(fields: Mapping[str, Any]) -> Event:
    """Return the event that a JSON form describes; ODF's newer name ExecuteTransform is read, too.

    Raises:
        KeyError: a field that events of this kind must have is missing.
        TypeError: a field has another type.
    """
    kind = required(fields, "kind", str)
    if kind == "Seed":
        return Seed(required(fields, "datasetId", str), required(fields, "datasetKind", str))
    if kind not in DATA_KINDS and kind != EXECUTE_TRANSFORM:
        return ConfigEvent(kind, {name: item for name, item in fields.items() if name != "kind"})
    inputs = None
    if kind != "AddData":
        inputs = tuple(_read_input(item) for item in required(fields, "queryInputs", list))
    return DataEvent(
        prev_checkpoint=optional(fields, "prevCheckpoint", str),
        prev_offset=optional(fields, "prevOffset", int),
        new_data=_read_slice(fields["newData"]),
        new_checkpoint=_read_checkpoint(fields["newCheckpoint"]),
        new_watermark=optional(fields, "newWatermark", str),
        new_source_state=_read_source_state(fields.get("newSourceState")),
        inputs=inputs,
        late=_read_late(fields.get("lateData")),
        changelog=_read_changelog(fields.get("changelogData")),
        judged=_read_judged(fields.get("judgedBy")),
        stream=optional(fields, "stream", dict) if "stream" in fields else None,
        last_event_ms=optional(fields, "lastEventMs", int) if "lastEventMs" in fields else None,
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
        parts = new_data.parts
        fields["parts"] = OnDemand(lambda place: _part_json(parts[place]), range(len(parts)))
    if new_data.removes:
        fields["removes"] = [_part_json(part) for part in new_data.removes]
    return fields


def _part_json(part: SliceFile) -> JsonObject:
    fields: dict[str, JsonValue] = {
        "path": part.path,
        "rows": part.rows,
        "start": part.start,
        "end": part.end,
        "physicalHash": part.physical_hash,
        "size": part.size,
    }
    if part.timelabel is not None:
        fields["timelabel"] = part.timelabel
    return fields


def _late_json(late: SideFiles) -> JsonObject:
    return {
        "parts": [_side_json(part) for part in late.parts],
        "removes": list(late.removes),
    }


def _side_json(part: SideFile) -> JsonObject:
    return {
        "path": part.path,
        "rows": part.rows,
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
    fields: JsonObject = {
        "datasetId": item.dataset_id,
        "prevBlockHash": item.prev_block_hash,
        "newBlockHash": item.new_block_hash,
        "prevOffset": item.prev_offset,
        "newOffset": item.new_offset,
    }
    return fields if item.closed is None else {**fields, "closed": item.closed}


def _read_slice(fields: Mapping[str, Any] | None) -> Slice | None:
    if fields is None:
        return None
    interval = optional(fields, "offsetInterval", dict)
    parts = fields.get("parts")
    return Slice(
        logical_hash=optional(fields, "logicalHash", str),
        physical_hash=optional(fields, "physicalHash", str),
        start=None if interval is None else required(interval, "start", int),
        end=None if interval is None else required(interval, "end", int),
        size=required(fields, "size", int),
        parts=None if parts is None else tuple(_read_part(part) for part in parts),
        removes=tuple(_read_part(part) for part in fields.get("removes", ())),
    )


def _read_part(fields: Mapping[str, Any]) -> SliceFile:
    return SliceFile(
        path=required(fields, "path", str),
        rows=required(fields, "rows", int),
        start=optional(fields, "start", int),
        end=optional(fields, "end", int),
        physical_hash=required(fields, "physicalHash", str),
        size=required(fields, "size", int),
        timelabel=optional(fields, "timelabel", str) if "timelabel" in fields else None,
    )


def _read_late(fields: Mapping[str, Any] | None) -> SideFiles | None:
    if fields is None:
        return None
    return SideFiles(_side_parts(fields), tuple(map(str, required(fields, "removes", list))))


def _read_changelog(fields: Mapping[str, Any] | None) -> Changelog | None:
    if fields is None:
        return None
    return Changelog(_side_parts(fields), is_begun=fields["isBegun"] is True)


def _read_judged(fields: Mapping[str, Any] | None) -> Judged | None:
    if fields is None:
        return None
    return Judged(
        optional(fields, "watermark", int),
        required(fields, "column", str),
        required(fields, "lateAction", str),
    )


def _side_parts(fields: Mapping[str, Any]) -> tuple[SideFile, ...]:
    return tuple(
        SideFile(
            path=required(part, "path", str),
            rows=required(part, "rows", int),
            physical_hash=required(part, "physicalHash", str),
            size=required(part, "size", int),
        )
        for part in required(fields, "parts", list)
    )


def _read_checkpoint(fields: Mapping[str, Any] | None) -> Checkpoint | None:
    if fields is None:
        return None
    return Checkpoint(required(fields, "physicalHash", str), required(fields, "size", int))


def _read_source_state(fields: Mapping[str, Any] | None) -> SourceState | None:
    if fields is None:
        return None
    return SourceState(
        source_name=required(fields, "sourceName", str),
        kind=required(fields, "kind", str),
        value=required(fields, "value", dict),
    )


def _read_input(fields: Mapping[str, Any]) -> InputSlice:
    return InputSlice(
        dataset_id=required(fields, "datasetId", str),
        prev_block_hash=optional(fields, "prevBlockHash", str),
        new_block_hash=optional(fields, "newBlockHash", str),
        prev_offset=optional(fields, "prevOffset", int),
        new_offset=optional(fields, "newOffset", int),
        closed=_read_closed(fields.get("closed")),
    )


def _read_closed(found: object) -> bool | None:
    if found is None or isinstance(found, bool):
        return found
    raise TypeError(f"closed is {found!r}")
