"""Blocks, and the little that must be known of a chain to append the next one.

Planning and appending need the head block and the nearest data event alone, never a walk back
(metadata-chain.md 5.1): a ``Tip`` holds both, and the configuration in force.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dil.model.json import JsonObject
from dil.state.canonical import canonical, content_hash, system_time_text
from dil.state.events import (
    SOURCE_KINDS,
    ConfigEvent,
    DataEvent,
    Event,
    InputSlice,
    Seed,
    from_json,
    to_json,
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

    @cached_property
    def content(self) -> bytes:
        """Return the canonical bytes that the hash is made of."""
        return canonical(self.as_json())

    @cached_property
    def hash(self) -> str:
        """Return the block's own hash, which is not stored inside it."""
        return content_hash(self.content)

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
    """Return the block that a JSON form describes; a member ``hash`` is ignored.

    Raises:
        KeyError: a field is missing.
    """
    return Block(
        sequence=fields["sequenceNumber"],
        previous_hash=fields["prevBlockHash"],
        system_time=fields["systemTime"],
        event=from_json(fields["event"]),
        version=fields["v"],
    )


def parse_block(content: bytes) -> Block:
    """Return the block of some canonical bytes.

    Raises:
        KeyError: a field is missing.
        ValueError: the bytes are no JSON.
    """
    return read_block(json.loads(content))


@dataclass(frozen=True, slots=True)
class Tip:
    """The end of a chain: head block, last data event, and the configuration in force.

    ``reset`` names what ResetState events after the last data event allow to be dropped:
    checkpoint, sourceState, watermark.
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


def advance(tip: Tip | None, block: Block, stored_hash: str | None = None) -> Tip:
    """Return the tip after a block was appended; nothing is checked here.

    ``stored_hash`` is for chains of other tools, whose hashes we keep and do not recompute.
    """
    event = block.event
    block_hash = stored_hash or block.hash
    if tip is None:
        kind = event.dataset_kind if isinstance(event, Seed) else ""
        return Tip(hash=block_hash, head=block, dataset_kind=kind)
    fields: dict[str, Any] = {name: getattr(tip, name) for name in Tip.__slots__}
    fields.update(hash=block_hash, head=block)
    if isinstance(event, DataEvent):
        fields.update(data=event, data_sequence=block.sequence, reset=frozenset())
    elif isinstance(event, ConfigEvent):
        fields.update(_configured(tip, event, block.sequence))
    return Tip(**fields)


def next_block(tip: Tip | None, event: Event, system_time: int) -> Block:
    """Return the block that carries ``event`` next; its time never runs backwards (V05)."""
    text = system_time_text(system_time)
    if tip is None:
        return Block(0, None, text, event)
    return Block(tip.head.sequence + 1, tip.hash, max(text, tip.head.system_time), event)


def carried(tip: Tip) -> DataEvent:
    """Return the data event that changes nothing: all that a writer must copy (C1 to C6).

    A caller replaces what it changes. Under a transform every input is repeated, and inputs that
    SetTransform added since start with nulls (C5, C7).
    """
    last = tip.data
    inputs = None
    if tip.dataset_kind == "Derivative":
        inputs = tuple(_carried_input(last, name) for name in transform_inputs(tip.source))
    if last is None:
        return DataEvent(inputs=inputs)
    return DataEvent(
        prev_checkpoint=last.checkpoint_hash,
        prev_offset=last.last_offset,
        new_data=None,
        new_checkpoint=last.new_checkpoint,
        new_watermark=last.new_watermark,
        new_source_state=last.new_source_state,
        inputs=inputs,
    )


def transform_inputs(source: ConfigEvent | None) -> tuple[str, ...]:
    """Return the dataset ids that the SetTransform in force names, in its order."""
    if source is None or source.kind != "SetTransform":
        return ()
    inputs = source.body["inputs"]
    return tuple(inputs) if isinstance(inputs, list | tuple) else ()


def carried_input(last: DataEvent | None, dataset_id: str) -> InputSlice | None:
    """Return the slice of ``dataset_id`` in the last data event, None when it had none."""
    for item in (last.inputs or ()) if last else ():
        if item.dataset_id == dataset_id:
            return item
    return None


def _carried_input(last: DataEvent | None, dataset_id: str) -> InputSlice:
    item = carried_input(last, dataset_id)
    if item is None:
        return InputSlice(dataset_id, None, None, None, None)
    return InputSlice(dataset_id, item.last_block, None, item.last_offset, None)


def _configured(tip: Tip, event: ConfigEvent, sequence: int) -> dict[str, Any]:
    if event.kind in SOURCE_KINDS:
        return {"source": event, "source_sequence": sequence}
    if event.kind == "SetDataSchema":
        return {"schema": event.body["schema"], "schema_sequence": sequence}
    if event.kind == "ResetState":
        fields = event.body["fields"]
        named = fields if isinstance(fields, list | tuple) else ()
        return {"reset": tip.reset | frozenset(map(str, named))}
    return {}
