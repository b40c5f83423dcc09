"""State in the past: the block in force at an instant, and the work units at a block.

Blocks never go back in time (V05), so an instant is found by binary search on the sequence (rule
C20). Only the present index is stored; at an earlier block, the index is the sum of the deltas up
to that block.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from dil.state.blocks.canonical import system_time_text
from dil.state.blocks.events import DataEvent, SourceState
from dil.state.blocks.source_state import (
    KIND,
    NO_ROWS,
    UnitRow,
    UnitSummary,
    is_removal,
    replace_in_digest,
)
from dil.state.chain.chain_rows import blocks_in_pages, damaged
from dil.state.databases import sql
from dil.state.databases.database import Transaction

_SYSTEM_TIME = "SELECT system_time FROM mc_block WHERE dataset_id = ? AND seq = ?"
_PAGE_OF_DATA = (
    "SELECT seq, block_hash, payload FROM mc_block WHERE dataset_id = ?"
    " AND event_kind = 'AddData' AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
)


def sequence_as_of(tx: Transaction, job: str, instant_ms: int) -> int | None:
    """Return the sequence of the last block with ``systemTime <= instant_ms`` (12.3).

    Args:
        tx: A transaction of the store; about log2(blocks) rows are read.
        job: The dataset.
        instant_ms: Epoch milliseconds UTC.

    Returns:
        None if the chain is empty or began later.

    Raises:
        StateError: a block is missing.
    """
    head = tx.row(sql.HEAD, job)
    if head is None:
        return None
    limit = system_time_text(instant_ms)
    low, high = -1, int(head[4])
    while low < high:
        middle = (low + high + 1) // 2
        row = tx.row(_SYSTEM_TIME, job, middle)
        if row is None:
            raise damaged(f"V04: block {middle} of job {json.dumps(job)} is missing")
        if row[0] <= limit:
            low = middle
        else:
            high = middle - 1
    return None if low < 0 else low


def units_as_of(tx: Transaction, job: str, sequence: int) -> Mapping[str, UnitRow]:
    """Return, by signature, the work units just after a block, computed from the blocks' deltas.

    This reads the data blocks up to that block page by page; memory grows with the number of work
    units, not of blocks. The rows must give the digest in the last of these blocks.

    Raises:
        StateError: a block is damaged, or the deltas do not add up (V22).
    """
    index = _Index()
    for block in blocks_in_pages(tx, job, _PAGE_OF_DATA, -1, sequence):
        state = block.event.new_source_state if isinstance(block.event, DataEvent) else None
        try:
            index.add(state)
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(
                f"V21: the source state in block {block.sequence} of job {json.dumps(job)} cannot "
                f"be read: {error!r}"
            ) from error
    if index.digest != index.stated:
        raise damaged(
            f"V22: the deltas of job {json.dumps(job)} up to block {sequence} give digest "
            f"{index.digest}, the block states {index.stated}"
        )
    return index.rows


@dataclass(slots=True)
class _Index:
    """The work-unit index while deltas are added; ``stated`` is the digest in the last block."""

    rows: dict[str, UnitRow] = field(default_factory=dict)
    digest: str = NO_ROWS
    stated: str = NO_ROWS

    def add(self, state: SourceState | None) -> None:
        if state is None or state.kind != KIND:
            # Only after ResetState (V19): the index was given up, with all earlier rows.
            self.rows, self.digest, self.stated = {}, NO_ROWS, NO_ROWS
            return
        for fields in UnitSummary.delta_of(state):
            old = self.rows.pop(str(fields["sig"]), None)
            row = None if is_removal(fields) else UnitRow.of(fields)
            if row is not None:
                self.rows[row.signature] = row
            self.digest = replace_in_digest(
                self.digest, old.hash if old else None, row.hash if row else None
            )
        self.stated = UnitSummary.of(state).digest
