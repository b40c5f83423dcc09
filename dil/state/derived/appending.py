"""Appending to the chain of a derived dataset, with every rule checked first.

Data events are never rebased over another ExecuteQuery: its inputs would be consumed twice
(rule C22). Over config events that change nothing a transaction depends on, a block
is only given its new place (rule C21).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dil.model.dataset import Commit
from dil.model.derived import QueryStep
from dil.state.blocks.block import Block, Tip, advance, next_block
from dil.state.blocks.canonical import watermark_text
from dil.state.blocks.events import ConfigEvent, DataEvent, Seed
from dil.state.blocks.input_validation import InputChain, input_violations
from dil.state.blocks.validation import file_violations, require, violations
from dil.state.chain.chain_rows import append, moved_head, read_tip, resets_since
from dil.state.chain.event_limit import event_limits
from dil.state.chain.writer import ChainWriter
from dil.state.databases.database import Transaction
from dil.state.derived.inputs import open_input
from dil.state.derived.planning import QueryPlan


@dataclass(frozen=True, slots=True)
class QueryCommit:
    """What a query did; times epoch ms UTC.

    ``event`` is the plan's with the results put in. ``horizon`` is the latest instant that a
    watermark may name beside the system time (V18). ``schema`` is that of the new files (V14),
    None without any. ``custom_watermark`` leaves V38 out.
    """

    event: DataEvent
    system_time: int
    horizon: int
    schema: str | None = None
    custom_watermark: bool = False


def append_events(
    tx: Transaction, dataset_id: str, events: Sequence[Seed | ConfigEvent], system_time: int
) -> Tip | None:
    """Append Seed and config events, such as SetTransform and SetDataSchema, as one act.

    Returns:
        The chain's new end; without events, its end.

    Raises:
        StateError: a rule would be broken; nothing is written.
        CommitConflictError: another writer moved the head meanwhile.
    """
    writer = ChainWriter(tx, dataset_id, system_time)
    for event in events:
        writer.draft(event)
    writer.write()
    return writer.tip


def draft_query(writer: ChainWriter, commit: Commit, step: QueryStep) -> int | None:
    """Draft the blocks of a run's query: what they are built on, then its data.

    Returns:
        The sequence of the data block, None when the query changed nothing (V23).

    Raises:
        StateError: a rule would be broken; nothing is written.
    """
    writer.begin("Derivative")
    transform = json.loads(step.transform)
    if writer.transform != transform:
        writer.draft(ConfigEvent("SetTransform", transform))
    if commit.moves and (writer.schema is None or commit.schema not in ("", writer.schema)):
        writer.set_schema(commit.schema)
    sequence = writer.next_sequence
    event = writer.data_event(commit)
    watermark = _held_back(step.watermark, event.new_watermark, commit)
    event = replace(event, inputs=step.inputs, new_watermark=watermark)
    if event.new_data is not None:
        event = replace(event, new_data=replace(event.new_data, logical_hash=step.logical_hash))
    return sequence if writer.draft_if_changed(event, replaced={}) else None


def _held_back(reached: str | None, before: str | None, commit: Commit) -> str | None:
    """Return the watermark that inputs have reached, unless that of the rows is not so far."""
    limits = event_limits(commit)
    if reached is None or None in limits:
        return before if limits else reached
    found = min([reached, *(watermark_text(each) for each in limits if each is not None)])
    return found if before is None else max(found, before)


def require_sound_query(
    tx: Transaction, job: str, commit: Commit, step: QueryStep, chains: Mapping[str, InputChain]
) -> None:
    """Check a query against its inputs before anything of it becomes visible; write nothing.

    A publish that was begun is always finished, whatever becomes of the inputs meanwhile: what the
    chain of the dataset alone tells is checked once more when the block is written.

    Raises:
        StateError: a rule would be broken.
    """
    writer = ChainWriter(tx, job, commit.system_time, horizon=commit.horizon, chains=chains)
    draft_query(writer, commit, step)


def append_query(
    tx: Transaction,
    dataset_id: str,
    plan: QueryPlan,
    commit: QueryCommit,
    *,
    size_of: Callable[[str], int | None] | None = None,
) -> Block | None:
    """Append the ExecuteQuery block of a planned transaction.

    Args:
        tx: A writing transaction over a store that also holds the inputs.
        dataset_id: The derived dataset.
        plan: What ``plan_query`` returned; it says on which head.
        commit: The event and what it is checked against.
        size_of: Size in bytes of a file, see ``file_violations``; None leaves V20 out.

    Returns:
        The block that was written, None when the event changes nothing (V23).

    Raises:
        CommitConflictError: a query, or what a query depends on, was appended since: plan again.
        StateError: a rule would be broken; nothing is written.
    """
    tip = read_tip(tx, dataset_id)
    if tip is None or not _stands(tx, dataset_id, plan, tip):
        raise moved_head(dataset_id)
    event = commit.event
    block = next_block(tip, event, commit.system_time)
    broken = violations(block, tip, horizon=commit.horizon, schema=commit.schema)
    broken += input_violations(
        block, tip, _chains(tx, event), custom_watermark=commit.custom_watermark
    )
    if size_of is not None:
        broken += file_violations(event, size_of)
    if [each.code for each in broken] == ["V23"]:
        return None
    require(broken, block.sequence)
    append(tx, dataset_id, tip, (block,), advance(tip, block))
    return block


def _stands(tx: Transaction, dataset_id: str, plan: QueryPlan, tip: Tip) -> bool:
    """Return whether a plan still holds: at most harmless config events were appended since."""
    if tip.hash == plan.head:
        return True
    own = open_input(tx, dataset_id)
    if own is None or own.sequence_of(plan.head) != plan.head_sequence:
        return False
    shape = (tip.source_sequence or 0, tip.schema_sequence or 0)
    return (
        tip.data_sequence == plan.data_sequence
        and max(shape) <= plan.head_sequence
        and not resets_since(tx, dataset_id, plan.head_sequence, tip.head.sequence)
    )


def _chains(tx: Transaction, event: DataEvent) -> dict[str, InputChain]:
    found = {item.dataset_id: open_input(tx, item.dataset_id) for item in event.inputs or ()}
    return {name: chain for name, chain in found.items() if chain is not None}
