"""Finds, in a dataset's own chain, the rows whose event time may be at or after an instant.

Each block of a dataset that leaves out repeats has the greatest event time of all rows so far. So
blocks are read backwards from the newest, up to the first after which all rows are older.
"""

from __future__ import annotations

from collections.abc import Iterator

from dil.errors import StateError
from dil.model.file_rows import FileRows
from dil.state.blocks.events import DataEvent
from dil.state.chain.chain_rows import read_stored
from dil.state.derived.dataset_chain import NONE_YET, DatasetChain
from dil.state.derived.inputs import StoredInput

_NEWEST_WITH_DATA = (
    "SELECT seq, block_hash, payload FROM mc_block"
    " WHERE dataset_id = ? AND seq <= ? AND has_data = 1 ORDER BY seq DESC LIMIT ?"
)
_PAGE = 20


def rows_since(dataset: DatasetChain, sequence: int, instant_ms: int) -> tuple[FileRows, ...]:
    """Return the rows of the dataset at a block that may be of ``instant_ms`` or later.

    Files whose rows are certainly older are left out, if the chain shows that.

    Raises:
        StateError: a block is damaged.
    """
    end = dataset.at(sequence)
    after = NONE_YET
    for event in _newest_first(dataset.chain, sequence):
        if event.last_event_ms is not None and event.last_event_ms < instant_ms:
            after = NONE_YET if event.last_offset is None else event.last_offset
            break
    try:
        return dataset.parts_at(end, after)
    except StateError:  # files before that position have changed since
        return dataset.parts_at(end)


def _newest_first(chain: StoredInput, sequence: int) -> Iterator[DataEvent]:
    last = sequence
    while True:
        page = chain.tx.rows(_NEWEST_WITH_DATA, chain.dataset_id, last, _PAGE)
        for number, stored_hash, payload in page:
            event = read_stored(chain.dataset_id, number, stored_hash, payload).event
            if isinstance(event, DataEvent):
                yield event
            last = number - 1
        if len(page) < _PAGE:
            return
