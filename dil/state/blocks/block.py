"""Blocks, and the facts about a chain that the next block needs.

Planning and appending only need the head block and the nearest data event, never a walk back (rule
C8): a ``ChainHead`` holds both, and the configuration in force.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dil.model.derived import InputSlice
from dil.model.json import JsonObject, JsonValue
from dil.state.blocks.canonical import canonical_pieces, hash_of_pieces, system_time_text
from dil.state.blocks.event_json import from_json, optional, required, to_json
from dil.state.blocks.events import (
    SOURCE_KINDS,
    ConfigEvent,
    DataEvent,
    Event,
    Seed,
)

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Block:
    """One commit of a dataset's chain; ``system_time`` is UTC with six fraction digits."""

    sequence: int
    previous_hash: str | None
    system_time: str
    event: Event
    version: int = FORMAT_VERSION

    @property
    def content(self) -> bytes:
        """Return the canonical bytes from which the hash is computed."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """Yield the content in pieces: a large run's content is never in memory as a whole."""
        return canonical_pieces(self.as_json())

    @cached_property
    def hash(self) -> str:
        """Return the block's own hash, which is not stored inside it."""
        return hash_of_pieces(self.pieces())

    def as_json(self) -> JsonObject:
        """Return the block without its hash."""
        return {
            "v": self.version,
            "sequenceNumber": self.sequence,
            "prevBlockHash": self.previous_hash,
            "systemTime": self.system_time,
            "event": to_json(self.event),
        }


def read_block(fields: Mapping[str, Any]) -> Block:
    """Return the block that a JSON form describes; unknown members are ignored.

    Raises:
        KeyError: a field is missing.
        TypeError: a field is of another type.
        ValueError: the block has a format that this release does not know.
    """
    version = required(fields, "v", int)
    if version != FORMAT_VERSION:
        raise ValueError(f"format {version} is unknown, this dil reads format {FORMAT_VERSION}")
    return Block(
        sequence=required(fields, "sequenceNumber", int),
        previous_hash=optional(fields, "prevBlockHash", str),
        system_time=required(fields, "systemTime", str),
        event=from_json(required(fields, "event", dict)),
        version=version,
    )


def parse_block(content: bytes) -> Block:
    """Return the block in some canonical bytes.

    Raises:
        KeyError: a field is missing.
        TypeError: a field is of another type.
        ValueError: the bytes are not JSON, or of a format that this release does not know.
    """
    return read_block(json.loads(content))


@dataclass(frozen=True, slots=True)
class ChainHead:
    """The end of a chain: head block, last data event, and the configuration in force.

    ``reset`` names the members that the next data event may drop, because ResetState events after
    the last data event allow it: checkpoint, sourceState, watermark.
    """

    hash: str
    head: Block
    dataset_kind: str
    data: DataEvent | None = None
    data_sequence: int | None = None
    source: ConfigEvent | None = None
    source_sequence: int | None = None
    schema: str | None = None
    schema_sequence: int | None = None
    reset: frozenset[str] = frozenset()

    @property
    def last_offset(self) -> int | None:
        """Return the offset of the newest row of the dataset (C1)."""
        return self.data.last_offset if self.data else None


def advance(tip: ChainHead | None, block: Block, stored_hash: str | None = None) -> ChainHead:
    """Return the head after a block was appended; nothing is checked here.

    ``stored_hash`` is for chains of other tools, whose hashes are kept and not recomputed.
    """
    event = block.event
    block_hash = stored_hash or block.hash
    if tip is None:
        kind = event.dataset_kind if isinstance(event, Seed) else ""
        return ChainHead(hash=block_hash, head=block, dataset_kind=kind)
    fields: dict[str, Any] = {name: getattr(tip, name) for name in ChainHead.__slots__}
    fields.update(hash=block_hash, head=block)
    if isinstance(event, DataEvent):
        fields.update(data=event, data_sequence=block.sequence, reset=frozenset())
    elif isinstance(event, ConfigEvent):
        if event.kind in SOURCE_KINDS:
            fields.update(source=event, source_sequence=block.sequence)
        elif event.kind == "SetDataSchema":
            fields.update(schema=str(event.body.get("schema")), schema_sequence=block.sequence)
        elif event.kind == "ResetState":
            fields.update(reset=tip.reset | frozenset(map(str, listed(event, "fields"))))
    return ChainHead(**fields)


def next_block(tip: ChainHead | None, event: Event, system_time: int) -> Block:
    """Return the block for the next ``event``; its time is never before the last block's (V05)."""
    text = system_time_text(system_time)
    if tip is None:
        return Block(0, None, text, event)
    return Block(tip.head.sequence + 1, tip.hash, max(text, tip.head.system_time), event)


def carried(tip: ChainHead) -> DataEvent:
    """Return a data event that changes nothing and has all members that must be copied (C1 to C6).

    The caller replaces the members that change. If there is a transform, every input is repeated.
    Inputs that a later SetTransform added begin with nulls (C5, C7).
    """
    is_derived = tip.dataset_kind == "Derivative"
    return carried_on(tip.data, transform_inputs(tip.source) if is_derived else None)


def carried_on(last: DataEvent | None, inputs: Sequence[str] | None) -> DataEvent:
    """Return the copied members of the last data event, for these inputs in their order.

    ``inputs`` is None in a root dataset.
    """
    slices = None if inputs is None else tuple(_carried_input(last, name) for name in inputs)
    if last is None:
        return DataEvent(inputs=slices)
    return DataEvent(
        prev_checkpoint=last.checkpoint_hash,
        prev_offset=last.last_offset,
        new_data=None,
        new_checkpoint=last.new_checkpoint,
        new_watermark=last.new_watermark,
        new_source_state=last.new_source_state,
        inputs=slices,
        last_event_ms=last.last_event_ms,
    )


def transform_inputs(source: ConfigEvent | None) -> tuple[str, ...]:
    """Return the dataset ids in the SetTransform in force, in the order of the transform."""
    if source is None or source.kind != "SetTransform":
        return ()
    return tuple(map(str, listed(source, "inputs")))


def listed(event: ConfigEvent, name: str) -> Sequence[JsonValue]:
    """Return a member of a config event that should be a list; an empty list if it is none."""
    found = event.body.get(name)
    return found if isinstance(found, list | tuple) else ()


def carried_input(last: DataEvent | None, dataset_id: str) -> InputSlice | None:
    """Return the slice of ``dataset_id`` in the last data event, None if it had none."""
    for item in (last.inputs or ()) if last else ():
        if item.dataset_id == dataset_id:
            return item
    return None


def _carried_input(last: DataEvent | None, dataset_id: str) -> InputSlice:
    item = carried_input(last, dataset_id)
    if item is None:
        return InputSlice(dataset_id, None, None, None, None)
    return InputSlice(dataset_id, item.last_block, None, item.last_offset, None, item.closed)
