"""One run's commit: block, work units, coverage, file offsets and intent in one transaction.

A publish that was begun can always be committed: nothing here depends on anything but the
commit, the store and the fencing token, and the block is built on whatever the head is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dil.errors import StateError
from dil.model.dataset import Commit
from dil.state.acts import amending
from dil.state.blocks.block import Block, Tip, advance, carried, next_block
from dil.state.blocks.canonical import instant_of, watermark_text
from dil.state.blocks.events import ConfigEvent, DataEvent, Event, Part, Seed
from dil.state.blocks.source_state import UnitSummary
from dil.state.blocks.validation import require, violations
from dil.state.chain import slices
from dil.state.chain.chain_rows import append, read_tip
from dil.state.databases import sql
from dil.state.databases.database import Transaction
from dil.state.runs import run_rows
from dil.state.work_units.unit_rows import UnitChanges, UnitIndex


@dataclass(frozen=True, slots=True)
class _Draft:
    """A data block that was built and not yet written, with the config blocks before it."""

    before: Tip | None
    blocks: tuple[Block, ...]
    after: Tip
    changes: UnitChanges


def check_commit(commit: Commit) -> None:
    """Refuse a commit that could not be recorded, before anything of it becomes visible.

    Raises:
        StateError: a success ends at or before its start.
    """
    for outcome in commit.outcomes:
        if outcome.high is not None and outcome.high <= outcome.low:
            raise StateError(
                f"work unit {outcome.signature} is said to have succeeded up to {outcome.high}, "
                f"which is not after its start {outcome.low}",
                "This is a defect of dil: nothing was published. Please report it.",
            )


def committed_block(tx: Transaction, job: str, run_id: str) -> tuple[bool, int | None]:
    """Tell whether a run is committed, and the sequence of its block when it has one."""
    row = tx.row(sql.COMMITTED, job, run_id)
    return (False, None) if row is None else (True, row[0])


def record(tx: Transaction, job: str, commit: Commit) -> int | None:
    """Record a commit that is not yet recorded; return its block's sequence, None without one.

    Raises:
        CommitConflictError: another writer moved the head.
        StateError: another run's intent is unfinished, or a rule of the chain would break.
    """
    check_commit(commit)
    _drop_intent(tx, job, commit.run_id)
    if commit.act is not None:
        sequence = amending.record_act(tx, job, commit, commit.act)
        tx.change(sql.ADD_COMMITTED, job, commit.run_id, sequence)
        return sequence
    counters = run_rows.read_counters(tx, job)
    sequence = None
    parts: Sequence[Part] = ()
    if commit.watermarks:
        index = UnitIndex(tx, job, counters.era)
        draft = _drafted(tx, job, commit, index)
        counters = replace(counters, era=index.era)
        if draft is not None:
            append(tx, job, draft.before, draft.blocks, draft.after)
            sequence = draft.after.head.sequence
            parts = slices.parts_of(draft.after.data)
    slices.keep_offsets(tx, job, commit.removes, parts)
    tx.change(sql.ADD_COMMITTED, job, commit.run_id, sequence)
    _set_status(tx, job, commit)
    rows = sum(move.target.rows for move in commit.moves)
    run_rows.write_counters(tx, job, replace(counters, last_rows=rows or counters.last_rows))
    return sequence


def _drop_intent(tx: Transaction, job: str, run_id: str) -> None:
    pending = tx.row(sql.INTENT, job)
    if pending is not None and pending[0] != run_id:
        raise run_rows.unfinished_intent(job, pending[0])
    tx.change(sql.DROP_INTENT, job, run_id)


def _drafted(tx: Transaction, job: str, commit: Commit, index: UnitIndex) -> _Draft | None:
    """Return the blocks to append, None when the commit changes nothing (V23)."""
    before = read_tip(tx, job)
    tip, blocks = before, []
    for event in _config_events(before, job, commit):
        block = next_block(tip, event, commit.system_time)
        require(violations(block, tip), block.sequence)
        tip = advance(tip, block)
        blocks.append(block)
    if tip is None:
        raise AssertionError("a chain begins with Seed")
    has_data = bool(commit.moves or commit.removes)
    changes = index.apply(commit.outcomes, tip.head.sequence + 1, has_data=has_data)
    index.leave_out(commit.skipped, tip.head.sequence + 1, changes)
    event = _data_event(tx, job, commit, tip, index, changes)
    block = next_block(tip, event, commit.system_time)
    broken = violations(block, tip, horizon=commit.horizon, replaced=changes.replaced)
    if [each.code for each in broken] == ["V23"]:
        return None
    require(broken, block.sequence)
    return _Draft(before, (*blocks, block), advance(tip, block), changes)


def _config_events(tip: Tip | None, job: str, commit: Commit) -> Iterator[Event]:
    if tip is None:
        yield Seed(job, "Root")
    in_force = tip.source.body.get("configDigest") if tip and tip.source else None
    if in_force != commit.config_digest:
        # The digest alone: properties may hold secrets, and state outlives them.
        body = {"sourceName": commit.source_name, "configDigest": commit.config_digest}
        yield ConfigEvent("SetPollingSource", body)
    schema = tip.schema if tip else None
    if commit.moves and (schema is None or commit.schema not in ("", schema)):
        yield ConfigEvent("SetDataSchema", {"schema": commit.schema})


def _data_event(
    tx: Transaction, job: str, commit: Commit, tip: Tip, index: UnitIndex, changes: UnitChanges
) -> DataEvent:
    base = carried(tip)
    summary = index.summary(UnitSummary.of(base.new_source_state), changes)
    return replace(
        base,
        new_data=slices.slice_of(tx, job, commit, base.prev_offset),
        new_watermark=_watermark(base.new_watermark, summary, commit),
        new_source_state=summary.as_state(commit.source_name, list(changes.rows.values())),
    )


def _watermark(before: str | None, summary: UnitSummary, commit: Commit) -> str | None:
    """Return the time below which all is committed (8.8); it never moves back (C3).

    Partitions may end in the future, but what a source will hold then is not committed, so the
    horizon caps it: V18 can never refuse a publish that is already visible.
    """
    limits = [commit.horizon]
    if commit.left_low is not None:
        limits.append(commit.left_low)
    if summary.frontier is None:
        return before
    reached = min(summary.frontier, *limits)
    if before is not None and instant_of(before) >= reached:
        return before
    return watermark_text(reached)


def _set_status(tx: Transaction, job: str, commit: Commit) -> None:
    """Mark the run as published, so that a crash before its end never publishes it twice.

    What earlier runs staged is superseded with it: it was adopted, or is of an older plan.
    """
    succeeded = sum(outcome.succeeded for outcome in commit.outcomes)
    if not succeeded and not commit.moves:
        return
    status = "success" if succeeded == len(commit.outcomes) else "partial"
    tx.change(sql.COMMITTED_RUN, status, job, commit.run_id)
    tx.change(sql.SUPERSEDED_RUNS, job, commit.run_id)


def describe(job: str, commit: Commit) -> str:
    """Return one line about a commit for logs; names counts, never data."""
    if commit.act is not None:
        units = len(commit.act.changed) + len(commit.act.removed)
        return f"job {json.dumps(job)} {commit.act.verb} {commit.run_id}: work units {units}"
    return (
        f"job {json.dumps(job)} run {commit.run_id}: work units {len(commit.outcomes)}, "
        f"files added {len(commit.moves)}, removed {len(commit.removes)}"
    )
