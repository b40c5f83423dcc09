"""The rows of a dataset whose event time may be at or after an instant, by its own chain.

Each block of a dataset that leaves out repeats has the greatest event time of all rows so far. So
the blocks are looked at from the newest one back, to the first behind which all rows are older.
"""

from __future__ import annotations

from collections.abc import Iterator

from dil.errors import StateError
from dil.model.dedupe import time_column
from dil.model.file_rows import FileRows
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
    """Return the rows, as the dataset is at a block, that may be of ``instant_ms`` or later.

    Rows of files that are surely older are left out, as far as the chain tells. ``column`` has the
    times of rows.

    Raises:
        StateError: a block is damaged.
    """
    end = dataset.at(sequence)
    after = NONE_YET
    for number, event in _newest_first(dataset.chain, sequence):
        # Where nobody knows the times, or they are of another column, older blocks say no more.
        if event.last_event_ms is None or _time_column_at(dataset.chain, number) != column:
            break
        if event.last_event_ms < instant_ms:
            after = NONE_YET if event.last_offset is None else event.last_offset
            break
    try:
        return dataset.parts_at(end, after)
    except StateError:  # files before that place were changed since
        return dataset.parts_at(end)


def _time_column_at(chain: StoredInput, sequence: int) -> str | None:
    at = chain.last_until(sequence, ("SetTransform",))
    event = config_event_at(chain.tx, chain.dataset_id, at)
    return None if event is None else time_column(event.body)


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
