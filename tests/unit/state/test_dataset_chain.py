"""Which rows of a dataset a reader takes: all at a block, between offsets, or new since a block."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.errors import StateError
from dil.model.dataset import FileRows
from dil.state.blocks.events import ConfigEvent, Slice, SliceFile
from dil.state.derived.dataset_chain import (
    NONE_YET,
    START,
    DatasetChain,
    Position,
    as_json,
    from_json,
)
from tests.unit.state.derived_store import HOUR, NOW, Store

DATASET = "orders"


def file_at(start: int, rows: int) -> SliceFile:
    return SliceFile(f"file:///{start}", rows, start, start + rows - 1, "f1220aa", 9)


class Dataset:
    """A dataset in a store of its own; each method that changes it appends a block or two."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)
        self.store.root(DATASET)

    def add(self, rows: int, *removes: SliceFile) -> None:
        self.store.add(DATASET, rows, removes=removes)

    def compact(self, *removes: SliceFile) -> None:
        body = {"fields": ["sourceState"], "reason": "", "act": "compact", "actId": "compact-1"}
        self.store.config(DATASET, ConfigEvent("ResetState", {**body, "dataBlocks": 1}))
        self.add(sum(part.rows for part in removes), *removes)

    @contextmanager
    def chain(self) -> Iterator[DatasetChain]:
        with self.store.database.read() as tx:
            yield DatasetChain.of(tx, DATASET)

    def at(self, sequence: int, after: int = NONE_YET) -> list[range]:
        with self.chain() as chain:
            return offsets(chain.parts_at(chain.at(sequence), after))

    def between(self, start: Position, end: Position) -> list[range]:
        with self.chain() as chain:
            return offsets(chain.parts_between(start, end))

    @property
    def head(self) -> Position:
        with self.chain() as chain:
            return chain.head


@pytest.fixture
def orders(tmp_path: Path) -> Dataset:
    """Blocks 0 and 1 are Seed and schema; rows 0-9 in block 2, 10-19 in 3, 20-24 in 4."""
    dataset = Dataset(tmp_path)
    for rows in (10, 10, 5):
        dataset.add(rows)
    return dataset


def offsets(parts: Sequence[FileRows]) -> list[range]:
    return [range(part.offset, part.offset + part.count) for part in parts]


def test_a_dataset_is_read_as_it_was_at_a_block(orders: Dataset) -> None:
    assert orders.at(1) == []
    assert orders.at(3) == [range(10), range(10, 20)]
    assert orders.at(4) == [range(10), range(10, 20), range(20, 25)]


def test_rows_after_an_offset_are_cut_in_the_file_that_holds_it(orders: Dataset) -> None:
    assert orders.at(4, after=12) == [range(13, 20), range(20, 25)]
    assert orders.at(4, after=19) == [range(20, 25)]
    assert orders.at(4, after=24) == []
    with orders.chain() as chain:
        (part,) = chain.parts_at(chain.position_of_offset(15), 12)
    assert (part.uri, part.first, part.count, part.rows) == ("file:///10", 3, 3, 10)


def test_an_offset_that_the_dataset_has_not_reached_is_refused(orders: Dataset) -> None:
    with orders.chain() as chain, pytest.raises(StateError):
        chain.position_of_offset(25)
    with orders.chain() as chain, pytest.raises(StateError):
        chain.at(5)


def test_an_instant_names_the_last_block_until_then(orders: Dataset) -> None:
    with orders.chain() as chain:
        assert chain.at_instant(NOW + HOUR).block == 4
        with pytest.raises(StateError):
            chain.at_instant(NOW - HOUR)


def test_what_a_later_block_took_away_is_in_no_view_of_that_block(orders: Dataset) -> None:
    orders.add(7, file_at(10, 10))

    assert orders.at(5) == [range(10), range(20, 25), range(25, 32)]
    assert orders.at(4) == [range(10), range(10, 20), range(20, 25)]


def test_rows_that_were_read_and_taken_away_since_cannot_be_read_as_new_ones(
    orders: Dataset,
) -> None:
    with orders.chain() as chain:
        before, unread = chain.at(4), chain.at(2)
    orders.add(7, file_at(10, 10))

    with pytest.raises(StateError, match="block 5"):
        orders.between(before, orders.head)
    with pytest.raises(StateError, match="block 5"):
        orders.at(5, after=12)
    # Who had not read them finds what took their place.
    assert orders.between(unread, orders.head) == [range(20, 25), range(25, 32)]


def test_a_compaction_brings_no_row_twice(orders: Dataset) -> None:
    with orders.chain() as chain:
        caught_up, nothing = chain.at(4), START
    orders.compact(file_at(0, 10), file_at(10, 10))
    orders.add(3)

    assert orders.between(caught_up, orders.head) == [range(45, 48)]
    assert orders.between(nothing, orders.head) == [range(20, 25), range(25, 45), range(45, 48)]


def test_a_compaction_of_read_and_unread_rows_is_refused(orders: Dataset) -> None:
    with orders.chain() as chain:
        behind = chain.at(2)
    orders.compact(file_at(0, 10), file_at(10, 10))

    with pytest.raises(StateError, match="compaction"):
        orders.between(behind, orders.head)
    with pytest.raises(StateError, match="compaction"):
        orders.at(orders.head.block, after=4)


def test_a_compacted_file_is_read_in_pieces_by_its_offsets(orders: Dataset) -> None:
    orders.compact(file_at(0, 10), file_at(10, 10))

    with orders.chain() as chain:
        first = chain.parts_at(chain.position_of_offset(30))
        assert offsets(first) == [range(20, 25), range(25, 31)]
        assert offsets(chain.parts_at(chain.head, 30)) == [range(31, 45)]


def test_a_stream_goes_on_only_in_the_chain_that_it_began_in(orders: Dataset) -> None:
    strange = orders.head._replace(hash="f1220ff")

    with pytest.raises(StateError, match="V40"):
        orders.between(strange, orders.head)
    with pytest.raises(StateError, match="V40"):
        orders.between(orders.head._replace(block=9), orders.head)


def test_a_position_comes_back_from_its_json() -> None:
    position = Position(4, 12, "f1220aa", is_inside=True)

    assert from_json(as_json(position)) == position
    with pytest.raises(StateError):
        from_json({**as_json(position), "v": 2})


def test_an_unread_block_that_a_compaction_took_is_read_with_it(orders: Dataset) -> None:
    start = orders.head
    orders.add(4)
    orders.add(4)
    orders.compact(file_at(25, 4), file_at(29, 4))
    orders.add(4)

    with orders.chain() as chain:
        end = chain.next_end(start, rows=4, files=None, until=chain.head)
        assert end.block == chain.head.block - 1
        assert offsets(chain.parts_between(start, end)) == [range(33, 41)]


@given(
    steps=st.lists(st.tuples(st.sampled_from("aarc"), st.integers(1, 6)), min_size=1, max_size=12),
    limit=st.integers(1, 8),
    by_files=st.booleans(),
)
def test_a_stream_has_each_row_once_whatever_is_published_and_put_together(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, int]],
    limit: int,
    by_files: bool,
) -> None:
    """a: rows are added; r: one micro-batch is read; c: all files are put together."""
    dataset = Dataset(tmp_path_factory.mktemp("chain"))
    live: list[SliceFile] = []
    names: dict[int, int] = {}  # the row behind each offset
    position, seen, next_row = START, [], 0
    limits = {"rows": None if by_files else limit, "files": limit if by_files else None}

    def read() -> bool:
        nonlocal position
        with dataset.chain() as chain:
            end = chain.next_end(position, **limits, until=chain.head)
            if end == position:
                return False
            for part in chain.parts_between(position, end):
                assert any(part.uri == file.path for file in live), "a file that is gone"
                seen.extend(names[part.offset + number] for number in range(part.count))
            position = from_json(as_json(end))
        return True

    for step, number in steps:
        last = dataset.head.offset
        match step:
            case "a":
                dataset.add(number)
                names.update((last + 1 + n, next_row + n) for n in range(number))
                next_row += number
                live.append(file_at(last + 1, number))
            case "c" if len(live) > 1 and not position.is_inside:
                gone = [each for file in live for each in range(file.start, file.end + 1)]
                is_read = {names[each] in seen for each in gone}
                if len(is_read) > 1:
                    continue  # refused, as another test shows
                dataset.compact(*live)
                names.update((last + 1 + n, names[each]) for n, each in enumerate(gone))
                live = [file_at(last + 1, len(gone))]
            case "r":
                read()
    while read():
        pass

    assert sorted(seen) == list(range(next_row))


@pytest.mark.parametrize("offset", [0, 8, 9, 10, 18, 23, 24])
def test_the_rows_after_a_row_are_all_those_behind_it(orders: Dataset, offset: int) -> None:
    found = [row for each in orders.at(4, offset) for row in each]
    assert found == list(range(offset + 1, 25))


def test_a_reader_that_takes_the_last_row_has_reached_the_end(orders: Dataset) -> None:
    with orders.chain() as chain:
        assert chain.next_end(START, rows=25, files=None, until=chain.head) == chain.head


def test_a_reader_inside_a_block_goes_to_its_end_first(orders: Dataset) -> None:
    """A later block may take away files of which the reader has only some rows."""
    with orders.chain() as chain:
        inside = chain.next_end(START, rows=5, files=None, until=chain.at(2))
    orders.add(5, file_at(0, 10))
    with orders.chain() as chain:
        assert chain.next_end(inside, rows=99, files=None, until=chain.head) == chain.at(2)


def test_a_reader_that_has_the_first_row_of_a_block_has_seen_what_it_removed(
    orders: Dataset,
) -> None:
    orders.add(10, file_at(0, 10))
    assert orders.at(5, after=25) == [range(26, 35)]


def test_a_file_of_which_only_the_first_row_was_read_is_not_taken_away(orders: Dataset) -> None:
    orders.add(10, file_at(10, 10))
    with pytest.raises(StateError):
        orders.at(5, after=10)


def test_a_compaction_of_a_file_whose_last_row_was_read_brings_no_row_twice(
    orders: Dataset,
) -> None:
    parts = (file_at(25, 5), file_at(30, 5))
    orders.store.append(DATASET, new_data=Slice(None, "f1220aa", 25, 34, 18, parts))
    orders.compact(parts[0])
    assert orders.at(orders.head.block, after=29) == [range(30, 35)]


def test_a_block_that_is_taken_with_a_later_one_takes_its_own_compaction_along(
    orders: Dataset,
) -> None:
    start = orders.head
    orders.add(4)
    orders.add(4)
    orders.compact(file_at(25, 4))
    orders.compact(file_at(29, 4))
    with orders.chain() as chain:
        end = chain.next_end(start, rows=4, files=None, until=chain.head)
        assert offsets(chain.parts_between(start, end)) == [range(33, 37), range(37, 41)]
