"""The chains of the IoT case, written in bulk."""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing

from tests.unit.state.derived_store import Store, mark

ROWS = 100  # of one input commit
JANUARY = 84_700  # the commit that closes the first month and writes its 500 rows
_ADDED = (
    '{"event":{"kind":"AddData","newCheckpoint":null,"newData":{"logicalHash":null,'
    '"offsetInterval":{"end":%d,"start":%d},"physicalHash":"f1220ab","size":9},'
    '"newSourceState":null,"newWatermark":"%s","prevCheckpoint":null,"prevOffset":%s},'
    '"prevBlockHash":"%s","sequenceNumber":%d,"systemTime":"2024-01-01T00:00:00.000000Z","v":1}'
)
_TAKEN = (
    '{"event":{"kind":"ExecuteQuery","newCheckpoint":null,"newData":%s,"newWatermark":"%s",'
    '"prevCheckpoint":null,"prevOffset":%s,"queryInputs":[{"datasetId":"in",'
    '"newBlockHash":"%s","newOffset":%d,"prevBlockHash":%s,"prevOffset":%s}]},'
    '"prevBlockHash":"%s","sequenceNumber":%d,"systemTime":"2024-01-01T00:00:00.000000Z","v":1}'
)
_MONTH = (
    '{"logicalHash":null,"offsetInterval":{"end":499,"start":0},"physicalHash":"f1220ab","size":9}'
)
_BLOCK = "INSERT INTO mc_block VALUES (?, ?, ?, ?, ?, '2024-01-01T00:00:00.000000Z', ?, ?)"


def _null_or(number: int) -> str:
    return "null" if number < 0 else str(number)


def _name_hash(text: str) -> str:
    return "f1220" + hashlib.sha256(text.encode()).hexdigest()


def _input_blocks(heads: dict[str, str], count: int, rows: int) -> Iterator[tuple[object, ...]]:
    """Yield the input's rows behind block 1, and keep the hash of the last one."""
    for sequence in range(2, count + 2):
        start = (sequence - 2) * rows
        previous = heads["in"]
        body = _ADDED % (
            start + rows - 1, start, mark(0), _null_or(start - 1), previous, sequence
        )  # fmt: skip
        heads["in"] = _name_hash(body)
        yield "in", sequence, heads["in"], previous, "AddData", 1, body.encode()


def _output_blocks(heads: dict[str, str], commits: int) -> Iterator[tuple[object, ...]]:
    """Yield the derived dataset's rows behind block 2, and keep the hash of the last one."""
    consumed = "null"
    for number in range(1, commits + 1):
        taken = heads["in"] if number == commits else _name_hash(str(number))
        data = _MONTH if number == JANUARY else "null"
        offset = "499" if number > JANUARY else "null"
        first = ROWS * (number - 1) - 1
        previous = heads["out"]
        body = _TAKEN % (
            data, mark(0), offset, taken, first + ROWS, consumed, _null_or(first), previous,
            number + 2,
        )  # fmt: skip
        consumed = f'"{taken}"'
        heads["out"] = _name_hash(body)
        has_data = int(data != "null")
        yield "out", number + 2, heads["out"], previous, "ExecuteQuery", has_data, body.encode()


def write_long_chains(store: Store, *, commits: int, input_blocks: int) -> None:
    """Create dataset ``in``, and ``out``, derived from it, which took it commit by commit.

    Args:
        store: An empty store.
        commits: Of the derived dataset, one for each ROWS rows of the input.
        input_blocks: Of the input; its commits but the last one are of no interest, so several
            are joined into one block to save time.
    """
    store.root("in")
    store.derived("out", "in")
    heads = {"in": store.hash_of("in", 1), "out": store.hash_of("out", 2)}
    store.database.close()
    with closing(sqlite3.connect(store.database.path)) as connection, connection:
        for pragma in ("synchronous = OFF", "journal_mode = OFF", "cache_size = -100000"):
            connection.execute(f"PRAGMA {pragma}")
        rows = commits // input_blocks * ROWS
        connection.executemany(_BLOCK, _input_blocks(heads, input_blocks, rows))
        connection.executemany(_BLOCK, _output_blocks(heads, commits))
        for dataset, sequence in (("in", input_blocks + 1), ("out", commits + 2)):
            connection.execute(
                "UPDATE mc_head SET block_hash = ?, seq = ?, data_seq = ? WHERE dataset_id = ?",
                (heads[dataset], sequence, sequence, dataset),
            )
