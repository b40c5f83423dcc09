"""Decides whether a plan is still valid after other writers moved the head (rule C21)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from dil.model.dataset import Commit
from dil.state.blocks.block import Block, parse_block
from dil.state.blocks.events import DataEvent
from dil.state.blocks.source_state import KIND, UnitSummary
from dil.state.databases import sql
from dil.state.databases.database import Transaction

# Events that change the meaning of the rows or of the state that a plan used.
_CONFLICTING = frozenset({"SetDataSchema", "SetTransform", "ResetState"})


@dataclass(frozen=True, slots=True)
class PlannedHead:
    """The head that a plan used; sequence -1 and no hash for an empty chain."""

    sequence: int
    hash: str | None


def planned_now(tx: Transaction, job: str) -> PlannedHead:
    """Return the head as it is now."""
    row = tx.row(sql.HEAD, job)
    return PlannedHead(-1, None) if row is None else PlannedHead(row[4], row[0])


def still_holds(tx: Transaction, job: str, planned: PlannedHead, commit: Commit) -> bool:
    """Return whether a commit may be written after the present head.

    It may if the planned head is still part of the chain, and each later block is a configuration
    that leaves rows and state unchanged, or data of other work units. Only the later blocks are
    read: none if the head did not move.
    """
    now = planned_now(tx, job)
    if now == planned:
        return True
    if commit.act is not None or now.sequence <= planned.sequence:
        return False
    if planned.sequence >= 0:
        row = tx.row(sql.BLOCK, job, planned.sequence)
        if row is None or row[0] != planned.hash:
            return False
    mine = {outcome.signature for outcome in (*commit.run.outcomes, *commit.run.skipped)}
    mine.update(commit.run.forgotten)
    newer = tx.rows(sql.BLOCKS_SINCE, job, planned.sequence)
    return all(_leaves_alone(parse_block(bytes(payload)), commit, mine) for _, payload in newer)


def _leaves_alone(block: Block, commit: Commit, mine: Collection[str]) -> bool:
    event = block.event
    if not isinstance(event, DataEvent):
        return event.kind not in _CONFLICTING
    if event.new_data is not None and any(file.signature not in mine for file in commit.removes):
        return False  # the files that this commit replaces would not include the block's files
    state = event.new_source_state
    if state is None or state.kind != KIND:
        return False
    return all(row["sig"] not in mine for row in UnitSummary.delta_of(state))
