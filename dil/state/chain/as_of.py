"""State in the past: the block in force at an instant, and the work units at a block.

Blocks never go back in time (V05), so an instant is found by binary search on the sequence (rule
C20). Only the present index is stored; at an earlier block, the index is the sum of the deltas up
to that block.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dil.state.blocks.block import Block
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
from dil.state.chain.chain_rows import damaged, read_stored
from dil.state.databases import sql
from dil.state.databases.database import Transaction

SYSTEM_TIME = "SELECT system_time FROM mc_block WHERE dataset_id = ? AND seq = ?"
PAGE_OF_KIND = (
    "SELECT seq, block_hash, payload FROM mc_block"
    " WHERE dataset_id = ? AND event_kind = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
)
_PAGE = 200


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
        if _system_time(tx, job, middle) <= limit:
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
    for block in _data_blocks(tx, job, sequence):
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
            row = None if is_removal(fields) else _row(fields)
            if row is not None:
                self.rows[row.signature] = row
            self.digest = replace_in_digest(
                self.digest, old.hash if old else None, row.hash if row else None
            )
        self.stated = UnitSummary.of(state).digest


def _system_time(tx: Transaction, job: str, sequence: int) -> str:
    row = tx.row(SYSTEM_TIME, job, sequence)
    if row is None:
        raise damaged(f"V04: block {sequence} of job {json.dumps(job)} is missing")
    return str(row[0])


def _data_blocks(tx: Transaction, job: str, sequence: int) -> Iterator[Block]:
    last = -1
    while True:
        page = tx.rows(PAGE_OF_KIND, job, "AddData", last, sequence, _PAGE)
        for found, stored_hash, payload in page:
            yield read_stored(job, found, stored_hash, payload)
            last = found
        if len(page) < _PAGE:
            return


def _row(fields: Mapping[str, Any]) -> UnitRow:
    return UnitRow(
        signature=fields["sig"],
        low=fields["low"],
        expected_high=fields["expectedHigh"],
        high=fields["high"],
        status=fields["status"],
        attempts=fields["attempts"],
        cursor=fields["cursor"],
    )
