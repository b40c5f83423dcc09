"""Finds, in a dataset's own chain, the rows whose event time may be at or after an instant.

Each block of a dataset that leaves out repeats has the greatest event time of all rows so far. So
blocks are read from the newest backwards, until one has a greatest event time before the instant:
its rows, and the rows of all blocks before it, are older.
"""

from __future__ import annotations

from collections.abc import Iterator

from dil.errors import StateError
from dil.model.dataset import FileRows
from dil.model.derived import dedupe_column
from dil.state.blocks.events import DataEvent
from dil.state.chain.chain_rows import config_event_at, read_stored
from dil.state.derived.dataset_chain import NONE_YET, DatasetChain
from dil.state.derived.inputs import StoredInput

_NEWEST_WITH_DATA = (
    "SELECT seq, block_hash, payload FROM mc_block"
    " WHERE dataset_id = ? AND seq <= ? AND has_data = 1 ORDER BY seq DESC LIMIT ?"
)
_PAGE = 20


def rows_since(
    dataset: DatasetChain, sequence: int, column: str, instant_ms: int
) -> tuple[FileRows, ...]:
    """Return the rows of the dataset at a block that may be of ``instant_ms`` or later.

    Files whose rows are certainly older are left out, if the chain shows that. ``column`` has the
    times of rows.

    Raises:
        StateError: a block is damaged.
    """
    end = dataset.at(sequence)
    after = NONE_YET
    transform = sequence + 1  # block of the transform in force; older blocks may have another one
    for number, event in _newest_first(dataset.chain, sequence):
        # Times that are unknown, or of another column, show nothing about older blocks.
        if event.last_event_ms is None:
            break
        if number < transform:
            found = dataset.chain.last_until(number, ("SetTransform",))
            if found is None or _time_column_at(dataset.chain, found) != column:
                break
            transform = found
        if event.last_event_ms < instant_ms:
            after = NONE_YET if event.last_offset is None else event.last_offset
            break
    try:
        return dataset.parts_at(end, after)
    except StateError:  # files before that position have changed since
        return dataset.parts_at(end)


def _time_column_at(chain: StoredInput, transform: int) -> str | None:
    event = config_event_at(chain.tx, chain.dataset_id, transform)
    return None if event is None else dedupe_column(event.body)


def _newest_first(chain: StoredInput, sequence: int) -> Iterator[tuple[int, DataEvent]]:
    last = sequence
    while True:
        page = chain.tx.rows(_NEWEST_WITH_DATA, chain.dataset_id, last, _PAGE)
        for number, stored_hash, payload in page:
            event = read_stored(chain.dataset_id, number, stored_hash, payload).event
            if isinstance(event, DataEvent):
                yield number, event
            last = number - 1
        if len(page) < _PAGE:
            return
