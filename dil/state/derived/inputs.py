"""The input chains of derived datasets, read from the same store by indexed queries.

Blocks never change and a chain has no branches. So of two blocks in a chain, the block with the
smaller sequence is an ancestor of the other block (V34).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dil.state.blocks.block import Block
from dil.state.blocks.event_json import EXECUTE_TRANSFORM
from dil.state.blocks.events import ConfigEvent, DataEvent, Event, Slice
from dil.state.blocks.input_validation import InputChain
from dil.state.chain.chain_rows import blocks_in_pages, damaged, data_event_at, read_stored
from dil.state.databases import sql
from dil.state.databases.database import Row, Transaction

SEQUENCE_OF = "SELECT seq FROM mc_block WHERE dataset_id = ? AND block_hash = ?"
HASH_AT = "SELECT block_hash FROM mc_block WHERE dataset_id = ? AND seq = ?"
LAST_OF_KIND = (
    "SELECT seq FROM mc_block WHERE dataset_id = ? AND event_kind = ? AND seq <= ?"
    " ORDER BY seq DESC LIMIT 1"
)
FIRST_OF_KIND = (
    "SELECT seq FROM mc_block WHERE dataset_id = ? AND event_kind = ? AND seq > ?"
    " ORDER BY seq LIMIT 1"
)
BLOCKS_WITH_DATA = (
    "SELECT seq, block_hash, payload FROM mc_block"
    " WHERE dataset_id = ? AND seq > ? AND seq <= ? AND has_data = 1 ORDER BY seq"
)
ANY_DATA = (
    "SELECT seq FROM mc_block"
    " WHERE dataset_id = ? AND seq > ? AND seq <= ? AND has_data = 1 LIMIT 1"
)
PAGE_WITH_DATA = f"{BLOCKS_WITH_DATA} LIMIT ?"
PAGE_OF_EVENTS = (
    "SELECT seq, block_hash, payload FROM mc_block WHERE dataset_id = ? AND seq > ? AND seq <= ?"
    " AND event_kind IN ('AddData', 'ExecuteQuery', 'ExecuteTransform') ORDER BY seq LIMIT ?"
)
PAGE_OF_RESETS = (
    "SELECT seq, block_hash, payload FROM mc_block WHERE dataset_id = ?"
    " AND event_kind = 'ResetState' AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
)
PAGE_OF_LABEL_EVENTS = (
    "SELECT seq, block_hash, payload FROM mc_block WHERE dataset_id = ? AND seq > ? AND seq <= ?"
    " AND event_kind IN ('CloseBooks', 'ReopenBooks') ORDER BY seq LIMIT ?"
)
# A dataset has only one of these kinds (V08), a root dataset the first.
DATA_EVENTS = ("AddData", "ExecuteQuery", EXECUTE_TRANSFORM)


@dataclass(frozen=True, slots=True)
class StoredInput(InputChain):
    """One input's chain inside a transaction; lookups take the same time in a chain of any length.

    ``sequence`` is the head's sequence; ``data_sequence``, ``source_sequence`` and
    ``schema_sequence`` are the sequences of the newest block of their kind, None if there is none.
    """

    tx: Transaction
    dataset_id: str
    sequence: int
    data_sequence: int | None
    source_sequence: int | None
    schema_sequence: int | None

    def sequence_of(self, block_hash: str) -> int | None:
        """Return the sequence number of a block, None if the chain has no such block."""
        return _only(self.tx.row(SEQUENCE_OF, self.dataset_id, block_hash))

    def hash_at(self, sequence: int) -> str:
        """Return the hash of a block.

        Raises:
            StateError: the chain has no such block.
        """
        row = self.tx.row(HASH_AT, self.dataset_id, sequence)
        if row is None:
            raise damaged(f"V04: block {sequence} of job {json.dumps(self.dataset_id)} is missing")
        return str(row[0])

    def data_at(self, block_hash: str) -> DataEvent | None:
        """Return the nearest data event at or before a block, None if there is none."""
        sequence = self.sequence_of(block_hash)
        return None if sequence is None else self.data_until(sequence)

    def data_until(self, sequence: int) -> DataEvent | None:
        """Return the nearest data event at or before a sequence, None if there is none."""
        nearest = self.data_sequence
        if nearest is not None and nearest > sequence:
            nearest = self.last_until(sequence, DATA_EVENTS)
        return None if nearest is None else data_event_at(self.tx, self.dataset_id, nearest)

    def blocks_with_data(self, first: int, last: int) -> Iterator[Block]:
        """Yield the blocks ``(first, last]`` that add or remove rows, in their order.

        Raises:
            StateError: a block is damaged.
        """
        for row in self.tx.rows(BLOCKS_WITH_DATA, self.dataset_id, first, last):
            yield read_stored(self.dataset_id, *row)

    def slices(self, first: int, last: int) -> Iterator[tuple[int, Slice]]:
        """Yield the data of blocks ``(first, last]`` with their sequences, page by page.

        Raises:
            StateError: a block is damaged.
        """
        for number, event in self.events_with_data(first, last):
            if event.new_data is not None:
                yield number, event.new_data

    def events_with_data(self, first: int, last: int) -> Iterator[tuple[int, DataEvent]]:
        """Yield the data events of blocks ``(first, last]`` that add or remove rows."""
        return _data(self._events(PAGE_WITH_DATA, first, last))

    def data_events(self, first: int, last: int) -> Iterator[tuple[int, DataEvent]]:
        """Yield all data events of blocks ``(first, last]`` with their sequences, page by page.

        Raises:
            StateError: a block is damaged.
        """
        return _data(self._events(PAGE_OF_EVENTS, first, last))

    def label_events(self, first: int, last: int) -> Iterator[tuple[int, ConfigEvent]]:
        """Yield the events of blocks ``(first, last]`` that close or reopen labels, with sequences.

        Raises:
            StateError: a block is damaged.
        """
        for number, event in self._events(PAGE_OF_LABEL_EVENTS, first, last):
            if isinstance(event, ConfigEvent):
                yield number, event

    def _events(self, query: str, first: int, last: int) -> Iterator[tuple[int, Event]]:
        blocks = blocks_in_pages(self.tx, self.dataset_id, query, first, last)
        return ((block.sequence, block.event) for block in blocks)

    def acts(self, first: int, last: int) -> Mapping[int, str]:
        """Return, by block number, the verbs of acts whose files are in blocks ``(first, last]``.

        An act's name is in the block before its files, where a reader may have stopped.
        """
        return {
            number + 1: str(event.body["act"])
            for number, event in self._events(PAGE_OF_RESETS, first - 1, last - 1)
            if isinstance(event, ConfigEvent) and "act" in event.body
        }

    def last_offset_at(self, sequence: int) -> int:
        """Return the last offset at a block, -1 (not 0) before the first row."""
        data = self.data_until(sequence)
        return -1 if data is None or data.last_offset is None else data.last_offset

    def has_data_in(self, first: int, last: int) -> bool:
        """Return whether blocks ``(first, last]`` add or remove rows."""
        return self.tx.row(ANY_DATA, self.dataset_id, first, last) is not None

    def first_after(self, sequence: int, kinds: Sequence[str]) -> int | None:
        """Return the sequence of the first block after ``sequence`` that is of one of ``kinds``."""
        found = [
            _only(self.tx.row(FIRST_OF_KIND, self.dataset_id, kind, sequence)) for kind in kinds
        ]
        return min((each for each in found if each is not None), default=None)

    def last_until(self, sequence: int, kinds: Sequence[str]) -> int | None:
        """Return the sequence of the last block, up to ``sequence``, of one kind.

        The kind is the first of ``kinds`` that has a block there; None if none of them has one.
        """
        for kind in kinds:
            found = _only(self.tx.row(LAST_OF_KIND, self.dataset_id, kind, sequence))
            if found is not None:
                return found
        return None


def open_input(tx: Transaction, dataset_id: str) -> StoredInput | None:
    """Return an input's chain, None if the store has no chain of this name."""
    row = tx.row(sql.HEAD, dataset_id)
    if row is None:
        return None
    _, data_sequence, source_sequence, schema_sequence, sequence = row
    return StoredInput(tx, dataset_id, sequence, data_sequence, source_sequence, schema_sequence)


def _data(events: Iterable[tuple[int, Event]]) -> Iterator[tuple[int, DataEvent]]:
    return ((number, event) for number, event in events if isinstance(event, DataEvent))


def _only(row: Row | None) -> int | None:
    return None if row is None else int(row[0])
