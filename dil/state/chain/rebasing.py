"""Whether a plan still holds although other writers moved the head (rule C21)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from dil.model.dataset import Commit
from dil.state.blocks.block import Block, parse_block
from dil.state.blocks.events import DataEvent
from dil.state.blocks.source_state import KIND, UnitSummary
from dil.state.databases import sql
from dil.state.databases.database import Transaction

# What changes the meaning of rows or of state that a plan was made on.
_CONFLICTING = frozenset({"SetDataSchema", "SetTransform", "ResetState"})


@dataclass(frozen=True, slots=True)
class PlannedHead:
    """The head that a plan was made on; sequence -1 and no hash for an empty chain."""

    sequence: int
    hash: str | None


def planned_now(tx: Transaction, job: str) -> PlannedHead:
    """Return the head as it is now."""
    row = tx.row(sql.HEAD, job)
    return PlannedHead(-1, None) if row is None else PlannedHead(row[4], row[0])


def still_holds(tx: Transaction, job: str, planned: PlannedHead, commit: Commit) -> bool:
    """Return whether a commit may go behind the present head.

    It may when the planned head is still part of the chain and all blocks behind it are
    configuration that leaves rows and state alone, or data of other work units. Reads only those
    blocks: none when the head did not move.
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
    newer = tx.rows(sql.BLOCKS_SINCE, job, planned.sequence)
    return all(_leaves_alone(parse_block(bytes(payload)), commit, mine) for _, payload in newer)


def _leaves_alone(block: Block, commit: Commit, mine: Collection[str]) -> bool:
    event = block.event
    if not isinstance(event, DataEvent):
        return event.kind not in _CONFLICTING
    if event.new_data is not None and any(file.signature not in mine for file in commit.removes):
        return False  # a replace of everything does not know of these files
    state = event.new_source_state
    if state is None or state.kind != KIND:
        return False
    return all(row["sig"] not in mine for row in UnitSummary.delta_of(state))
