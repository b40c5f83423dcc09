"""Builds the blocks of a derived dataset, and checks all rules before they are written.

The blocks are drafted on the head at the time of the commit (rule C21). If another query has
consumed the same input since a query was planned, the planned query breaks a rule (V32, V33); it is
never rebased (rule C22).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from dil.model.dataset import Commit
from dil.model.derived import QueryStep, dedupe_column
from dil.model.job import QueryMode
from dil.model.json import JsonObject
from dil.model.stream import STREAM
from dil.state.blocks.canonical import instant_of, watermark_text
from dil.state.blocks.events import ConfigEvent, DataEvent
from dil.state.blocks.input_validation import InputChain
from dil.state.chain.writer import ChainWriter, event_limits
from dil.state.databases.database import Transaction


def draft_query(writer: ChainWriter, commit: Commit, step: QueryStep) -> int | None:
    """Draft the blocks of a run's query: the configuration first, then the data.

    Returns:
        The sequence of the data block, None if the query changed nothing (V23).

    Raises:
        StateError: a rule would break; nothing is written.
    """
    writer.begin("Derivative")
    before, transform = writer.transform, json.loads(step.transform)
    if before != transform:
        writer.draft(ConfigEvent("SetTransform", transform))
    if commit.moves and (writer.schema is None or commit.schema not in ("", writer.schema)):
        writer.set_schema(commit.schema)
    sequence = writer.next_sequence
    event = writer.data_event(commit)
    watermark = _held_back(step.watermark, event.new_watermark, commit)
    event = replace(event, inputs=step.inputs, new_watermark=watermark, judged=step.judged)
    event = replace(event, stream=_stream_of(commit, event))
    event = replace(event, last_event_ms=_last_event_ms(event, step, transform, before))
    if event.new_data is not None:
        event = replace(event, new_data=replace(event.new_data, logical_hash=step.logical_hash))
    return sequence if writer.draft_if_changed(event, replaced={}) else None


def _held_back(reached: str | None, before: str | None, commit: Commit) -> str | None:
    """Return the watermark that the inputs have reached, or the rows' event watermark if lower."""
    limits = event_limits(commit)
    if reached is None or None in limits:
        return before if limits else reached
    found = min([reached, *(watermark_text(each) for each in limits if each is not None)])
    return found if before is None else max(found, before)


def _last_event_ms(
    event: DataEvent, step: QueryStep, transform: JsonObject, before: JsonObject | None
) -> int | None:
    """Return the greatest event time of all rows so far; rows without one do not count.

    The greatest time is unknown (None) if the dataset has rows whose times were not read, or are in
    another column, until the dataset is rebuilt. ``before`` is the transform of the earlier rows.
    """
    column, known = dedupe_column(transform), event.last_event_ms
    if event.prev_offset is not None and column != dedupe_column(before):
        known = None
    if event.new_data is None:
        return known
    if column is None:
        return None
    if transform.get("mode") == QueryMode.FULL:
        return step.last_event_ms
    if event.prev_offset is not None and known is None:
        return None
    found = (known, step.last_event_ms)
    return max((each for each in found if each is not None), default=None)


def _stream_of(commit: Commit, event: DataEvent) -> JsonObject | None:
    """Return the micro-batch of an event and its end in the inputs; None for other runs.

    All rows of the inputs before the watermark ``done`` (epoch ms UTC) are consumed.
    """
    members = commit.checkpoints.get(STREAM)
    if members is None:
        return None
    end: JsonObject = {
        "v": 1,
        "epoch": members["epoch"],
        "done": None if event.new_watermark is None else instant_of(event.new_watermark),
        "inputs": {
            each.dataset_id: {"hash": each.last_block, "offset": each.last_offset}
            for each in event.inputs or ()
        },
    }
    return {**members, "end": end}


def require_sound_query(
    tx: Transaction, job: str, commit: Commit, step: QueryStep, chains: Mapping[str, InputChain]
) -> None:
    """Check a query against its inputs before its rows become visible; write nothing.

    A begun publish is always finished, even if the inputs change meanwhile: only the rules about
    the dataset's own chain are checked again when the block is written.

    Raises:
        StateError: a rule would break.
    """
    writer = ChainWriter(tx, job, commit.system_time, horizon=commit.horizon, chains=chains)
    draft_query(writer, commit, step)
