"""Rules V30 to V40 for the inputs of a derived dataset (docs/semantics/chain.md).

Each input chain is read through ``InputChain``; with a block table every lookup is one indexed
query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from dil.errors import StateError
from dil.model.derived import InputSlice
from dil.state.blocks.block import Block, ChainHead, carried_input, transform_inputs
from dil.state.blocks.events import DataEvent
from dil.state.blocks.validation import Violation


class InputChain(Protocol):
    """The lookups in one input's chain."""

    def sequence_of(self, block_hash: str) -> int | None:
        """Return the sequence number of a block, None if the chain has no such block."""

    def data_at(self, block_hash: str) -> DataEvent | None:
        """Return the nearest data event at or before a block, None if there is none."""


def input_violations(
    block: Block, tip: ChainHead, chains: Mapping[str, InputChain] | None
) -> list[Violation]:
    """Return every rule about inputs that ``block`` breaks as the next block after ``tip``.

    Args:
        block: A block with ExecuteQuery.
        tip: The end of the derived dataset's own chain.
        chains: The input chains by dataset id. If it is None, the rules that need these chains are
            not checked: V34, V37, V38.
    """
    event = block.event
    if not isinstance(event, DataEvent) or event.inputs is None:
        return []
    found = list(_set_rules(event.inputs, tip))
    for item in event.inputs:
        if chains is None:
            found += (*_carry_rules(item, tip), *_own_progress_rules(item))
            continue
        chain = chains.get(item.dataset_id)
        if chain is None:
            found.append(Violation("V39", f"input {item.dataset_id} has no chain"))
            continue
        found += _carry_rules(item, tip)
        progress = list(_progress_rules(item, chain))
        found += progress
        # If the consumed part is unknown, there is no watermark to compare with.
        is_known = not {"V34", "V35"} & {broken.code for broken in progress}
        if is_known and _is_raised(event, tip):
            found += _watermark_rule(item, chain, event.new_watermark)
    return found


def require_known_interval(item: InputSlice, chain: InputChain) -> int:
    """Return the sequence up to which an input was consumed, -1 if nothing was consumed.

    Raises:
        StateError: the last consumed block is no longer in the input's chain (V40): the input was
            reset, and reading it from its beginning would double rows.
    """
    if item.prev_block_hash is None:
        return -1
    sequence = chain.sequence_of(item.prev_block_hash)
    if sequence is None:
        raise StateError(
            f"V40: InvalidInputInterval: input {item.dataset_id} no longer has block "
            f"{item.prev_block_hash}, up to which it was consumed",
            "The input was started over, or its state was restored from an older copy, so its rows"
            " may have been read already. Restore the input's state from a copy that"
            " has that block. If there is none, start this dataset over, too: give it another"
            " job.name and table, or move its folder and state away.",
        )
    return sequence


def _set_rules(inputs: tuple[InputSlice, ...], tip: ChainHead) -> Iterator[Violation]:
    ids = tuple(item.dataset_id for item in inputs)
    if tip.source is None or tip.source.kind != "SetTransform":
        yield Violation("V30", "ExecuteQuery before any SetTransform")
        return
    wanted = transform_inputs(tip.source)
    if not ids or len(set(ids)) != len(ids):
        yield Violation("V39", f"inputs {ids} are empty or named twice")
    if ids != wanted:
        yield Violation("V31", f"inputs are {ids}, the transform names {wanted}")


def _carry_rules(item: InputSlice, tip: ChainHead) -> Iterator[Violation]:
    last = carried_input(tip.data, item.dataset_id)
    block_hash = last.last_block if last else None
    offset = last.last_offset if last else None
    if item.prev_block_hash != block_hash:
        yield Violation("V32", f"prevBlockHash is {item.prev_block_hash}, not {block_hash}")
    if item.prev_offset != offset:
        yield Violation("V33", f"prevOffset is {item.prev_offset}, not {offset}")


def _own_progress_rules(item: InputSlice) -> Iterator[Violation]:
    if item.new_offset is None:
        return
    if item.new_block_hash is None:
        yield Violation("V35", f"newOffset {item.new_offset} without newBlockHash")
    elif item.new_offset <= item.reached:
        yield Violation("V36", f"newOffset {item.new_offset} is not above {item.prev_offset}")


def _progress_rules(item: InputSlice, chain: InputChain) -> Iterator[Violation]:
    if item.new_block_hash is not None and not _is_forward(item, chain):
        yield Violation("V34", f"block {item.new_block_hash} is not after the last one")
        return
    yield from _own_progress_rules(item)
    if item.new_block_hash is None:
        return
    data = chain.data_at(item.new_block_hash)
    last = data.last_offset if data else None
    expected = last if last is not None and last > item.reached else None
    if item.new_offset != expected:
        yield Violation("V37", f"newOffset is {item.new_offset}, the input gives {expected}")


def _is_forward(item: InputSlice, chain: InputChain) -> bool:
    new = chain.sequence_of(item.new_block_hash or "")
    if new is None:
        return False
    if item.prev_block_hash is None:
        return True
    previous = chain.sequence_of(item.prev_block_hash)
    return previous is not None and previous < new


def _is_raised(event: DataEvent, tip: ChainHead) -> bool:
    """Return whether the watermark is higher than before; a repeated watermark (C3) is not.

    If V38 were checked for a repeated watermark, an input that SetTransform added, which begins
    with nulls (C7), would forbid every commit: V17 demands the old watermark, V38 demands none.
    """
    return tip.data is None or event.new_watermark != tip.data.new_watermark


def _watermark_rule(
    item: InputSlice, chain: InputChain, watermark: str | None
) -> Iterator[Violation]:
    if watermark is None:
        return
    data = chain.data_at(item.last_block) if item.last_block else None
    limit = data.new_watermark if data else None
    if limit is None or watermark > limit:
        yield Violation("V38", f"newWatermark {watermark} is above that of the input, {limit}")
