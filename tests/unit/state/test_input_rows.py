"""Which rows a query reads of an input whose labels, late rows and files come and go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dil.errors import StateError
from dil.model.closed_labels import CLOSED_LABELS
from dil.model.dataset import EXPIRY
from dil.state.blocks.events import Changelog, ConfigEvent, SideFile, SideFiles, Slice, SliceFile
from dil.state.chain import chain_rows
from dil.state.derived.dataset_chain import DatasetChain, Position
from dil.state.derived.input_rows import InputReading, InputRows, recorded_reading
from dil.state.derived.inputs import open_input
from dil.state.derived.planning import end_with_files
from dil.state.runs.details import change_checkpoint
from dil.text.windows import label_text
from tests.unit.state.derived_store import NOW, Store, transform

DAY = 86_400_000
LABEL = label_text(NOW)


def slice_with(file: SliceFile, *removes: SliceFile) -> Slice:
    return Slice(None, "f1220aa", file.start, file.end, 9, (file,), removes)


def file_of(start: int, content: str = "aa", label: str | None = LABEL) -> SliceFile:
    """Return a file of 10 rows; equal content means equal rows."""
    return SliceFile(f"file:///{start}", 10, start, start + 9, f"f1220{content}", 9, label)


def late(name: str, content: str | None = None) -> SideFile:
    return SideFile(f"file:///late/{name}", 1, f"f1220{content or name}", 9)


class Input:
    """The chain of a dataset ``in``; each method that changes it appends a block."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)
        self.store.root("in")

    def add(self, file: SliceFile, *removes: SliceFile) -> None:
        self.store.append("in", new_data=slice_with(file, *removes))

    def remove(self, *files: SliceFile) -> None:
        self.store.append("in", new_data=Slice(None, None, None, None, 0, (), files))

    def begin(self, act: str) -> None:
        """Begin an operator's act, whose files are in the next block."""
        body = {"fields": ["sourceState"], "reason": "", "act": act, "actId": f"{act}-1"}
        self.store.config("in", ConfigEvent("ResetState", {**body, "dataBlocks": 1}))

    def label_events(self, *kinds: str) -> None:
        """Close or reopen the label of the files, once for each kind."""
        body = {"timelabel": LABEL, "windowEnd": NOW + DAY}
        self.store.config("in", *(ConfigEvent(f"{kind}Books", body) for kind in kinds))
        closed = [[NOW, NOW + DAY]] if kinds[-1] == "Close" else []
        with self.store.database.write() as tx:
            change_checkpoint(tx, "in", CLOSED_LABELS, {"closed": closed})

    def late(self, *parts: SideFile, removes: tuple[str, ...] = ()) -> None:
        self.store.append("in", late=SideFiles(parts, removes))

    @contextmanager
    def chain(self) -> Iterator[DatasetChain]:
        with self.store.database.read() as tx:
            yield DatasetChain(open_input(tx, "in"))

    @contextmanager
    def reading(self, since: int = -1, **how: bool) -> Iterator[InputReading]:
        """Read all blocks after one."""
        with self.chain() as chain:
            reached = chain.at(since) if since >= 0 else Position()
            yield InputReading(chain.chain, reached, chain.chain.sequence, **how)

    def end(self, first: int, end: int) -> int:
        with self.chain() as chain:
            return end_with_files(chain.chain, first, end)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Input]:
    """Blocks 0 and 1 are Seed and schema; rows 0-9 are in block 2."""
    found = Input(tmp_path)
    found.add(file_of(0))
    yield found
    found.store.database.close()


# Closed labels


def test_rows_without_a_label_are_refused_where_only_closed_labels_are_read(data: Input) -> None:
    data.add(file_of(10, label=None))
    data.label_events("Close")
    with (
        data.reading(reads_closed=True) as reading,
        pytest.raises(StateError, match="file:///10 has no timelabel") as caught,
    ):
        reading.rows()
    assert 'Remove "closed" from ms.query.inputs' in caught.value.fix


def test_a_compaction_of_a_label_that_was_read_brings_it_no_rows(data: Input) -> None:
    data.label_events("Close")
    data.begin("compact")
    data.add(file_of(10, content="bb"), file_of(0))
    with data.reading(3, reads_closed=True) as reading:
        assert not reading.has_changes()


def test_rows_that_come_for_a_label_that_was_read_are_refused(data: Input) -> None:
    data.label_events("Close")
    data.store.config("in", ConfigEvent("ResetState", {"fields": ["watermark"]}))  # of no act
    data.add(file_of(10), file_of(0))
    with (
        data.reading(3, reads_closed=True) as reading,
        pytest.raises(StateError, match=f"block 5 .*adds rows of the timelabel {LABEL}, which"),
    ):
        reading.has_changes()


# Late rows


def test_late_rows_that_were_read_and_taken_away_are_refused(data: Input) -> None:
    data.late(late("a"))
    data.late(removes=("file:///late/a",))
    with (
        data.reading(3, reads_late=True) as reading,
        pytest.raises(StateError, match=r"block 4 .*takes late rows away that were read before"),
    ):
        reading.rows()


def test_late_rows_that_an_undo_brought_back_are_not_read_again(data: Input) -> None:
    data.late(late("a"))
    data.late(removes=("file:///late/a",))
    data.late(late("b", content="a"), late("c"))
    with data.reading(3, reads_late=True) as reading:
        assert [file.path for _, file in reading.late_files()] == ["file:///late/c"]


# Positions in a chain


def test_a_reading_of_blocks_that_the_chain_lost_is_unknown(data: Input) -> None:
    """A copy of the store was put back, so that newer blocks are gone."""
    data.add(file_of(10))
    item = data.store.slice("in", (2, 3), 9, 19)
    with data.chain() as chain:
        kept = recorded_reading(chain.chain, item, transform("in").body)
        assert kept is not None
        assert (kept.first, kept.last) == (2, 3)
        for gone in ({"prev_block_hash": "f1220bb"}, {"new_block_hash": "f1220bb"}):
            lost = replace(item, **gone)
            assert recorded_reading(chain.chain, lost, transform("in").body) is None


def test_a_job_that_published_nothing_has_no_chain_to_read(data: Input) -> None:
    with (
        data.store.database.read() as tx,
        pytest.raises(StateError, match='job "absent" has no publish in its state') as caught,
    ):
        DatasetChain.of(tx, "absent")
    assert "state.store.enabled=false keeps no chain" in caught.value.fix


def test_a_block_that_the_store_lost_is_named(data: Input) -> None:
    with data.store.database.write() as tx:
        tx.change("DELETE FROM mc_block WHERE seq = 1")
    with data.chain() as chain, pytest.raises(StateError, match=r"^V04: block 1 .*is missing"):
        chain.at(1)


def test_rows_of_another_tool_name_no_files(data: Input) -> None:
    data.store.append("in", new_data=Slice(None, "f1220ab", 10, 19, 100))
    with (
        data.chain() as chain,
        pytest.raises(StateError, match=r"block 3 .*names no files") as caught,
    ):
        chain.parts_at(chain.head)
    assert "another tool" in caught.value.fix


def test_an_input_of_which_nothing_was_taken_yet_has_no_rows(data: Input) -> None:
    with data.chain() as chain:
        assert InputReading(chain.chain, Position(), -1).rows() == InputRows()


def test_a_reader_without_limits_reads_to_the_end(data: Input) -> None:
    data.add(file_of(10))
    with data.chain() as chain:
        assert chain.next_end(chain.at(2), rows=None, files=None, until=chain.head) == chain.head


def test_many_acts_and_labels_are_read_page_by_page(
    data: Input, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_rows, "PAGE", 1)
    for start in (10, 20):
        data.begin("compact")
        data.add(file_of(start), file_of(start - 10))
    data.label_events("Close", "Reopen", "Close")
    with data.reading(2) as reading:
        assert reading.rows().parts == ()
    with data.reading(reads_closed=True) as reading:
        assert [part.offset for part in reading.rows().parts] == [20]


# Files that an act put away and brought back


def test_rows_come_back_only_as_the_same_content(data: Input) -> None:
    data.begin("undo")
    data.remove(file_of(0))
    data.begin("undo")
    data.add(file_of(10))
    with data.reading(2) as reading:
        assert reading.rows().parts == ()  # equal content: the reader has these rows

    data.begin("undo")
    data.add(file_of(20, content=""), file_of(10))
    with data.reading(6) as reading, pytest.raises(StateError, match=r"block 8 .*takes rows away"):
        reading.rows()


def test_a_slice_is_cut_where_its_files_still_exist(data: Input) -> None:
    data.add(file_of(10))
    assert data.end(2, 3) == 3  # no act removed files
    data.begin("compact")
    data.add(file_of(20), file_of(10))
    data.add(file_of(30))
    assert data.end(2, 3) == 5
    assert data.end(3, 6) == 6


def test_a_slice_goes_on_to_the_block_that_brings_removed_files_back(data: Input) -> None:
    data.begin("forget")
    data.remove(file_of(0))
    data.add(file_of(10, content="bb"))
    data.begin("undo")
    data.add(file_of(20))
    assert data.end(2, 4) == 7


def test_a_slice_ends_where_it_was_cut_if_removed_files_never_return(data: Input) -> None:
    data.begin("forget")
    data.remove(file_of(0))
    data.begin("compact")
    data.add(file_of(10, content="bb"))
    assert data.end(2, 4) == 4


def test_a_slice_that_ends_at_the_name_of_an_act_goes_on_to_the_files_of_the_act(
    data: Input,
) -> None:
    data.begin("forget")
    data.remove(file_of(0))
    data.begin("undo")
    data.add(file_of(10))
    assert data.end(2, 5) == 6


def test_an_equal_file_that_came_before_a_file_left_does_not_stand_for_it(data: Input) -> None:
    data.add(file_of(10))
    data.begin("forget")
    data.remove(file_of(0))
    data.begin("undo")
    data.add(file_of(20))
    assert data.end(2, 5) == 7


def test_a_slice_that_goes_on_into_a_changelog_needs_no_files_of_the_dataset(data: Input) -> None:
    data.add(file_of(10))
    add_changes(data, 2)
    data.add(file_of(30), file_of(10))
    data.add(file_of(40), file_of(20))
    assert data.end(2, 3) == 5


def test_a_slice_does_not_go_on_for_files_that_were_gone_again_at_its_end(data: Input) -> None:
    data.add(file_of(10))
    data.add(file_of(20))
    data.add(file_of(30), file_of(20))
    data.add(file_of(40), file_of(10))
    back = replace(file_of(50), path="file:///20")
    data.begin("undo")
    data.add(back)
    data.add(file_of(60), back)
    assert data.end(2, 3) == 6


def test_a_slice_ends_where_it_was_cut_if_no_block_says_who_removed_a_file(data: Input) -> None:
    """The reader of the rows reports that the file is gone."""
    data.begin("forget")
    with data.store.database.write() as tx:
        tx.change("DELETE FROM live_file WHERE uri = 'file:///0'")
    assert data.end(1, 2) == 2


# Borders of a part


def add_changes(data: Input, number: int, *, is_begun: bool = False) -> None:
    """Append a block with 10 rows and a changelog of one file."""
    changelog = Changelog((late(f"changes-{number}"),), is_begun)
    new = slice_with(file_of(10 * number))
    data.store.append("in", new_data=new, changelog=changelog)


def test_a_changelog_that_starts_over_before_anything_was_read_is_read_from_there(
    data: Input,
) -> None:
    add_changes(data, 1, is_begun=True)
    add_changes(data, 2, is_begun=True)
    with data.reading() as reading:
        assert reading.changed_files() == [(4, late("changes-2"))]


def test_a_changelog_that_starts_over_after_rows_that_were_read_is_refused(data: Input) -> None:
    add_changes(data, 1, is_begun=True)
    with data.reading(since=2) as reading, pytest.raises(StateError):
        reading.changed_files()


def test_changed_rows_without_a_changelog_are_refused(data: Input) -> None:
    add_changes(data, 1)
    data.add(file_of(20))
    with data.reading(since=2) as reading, pytest.raises(StateError):
        reading.changed_files()


def test_whole_readings_have_the_late_rows_of_all_blocks_behind_the_other_rows(
    data: Input,
) -> None:
    data.late(late("a"))
    data.late(late("b"))
    with data.reading(since=3, reads_whole=True, reads_late=True) as reading:
        parts = reading.rows().parts
    assert [(part.uri, part.offset) for part in parts] == [
        ("file:///0", 0), ("file:///late/a", 10), ("file:///late/b", 11),
    ]  # fmt: skip


def test_late_rows_alone_are_a_change_for_a_reader_of_late_rows(data: Input) -> None:
    data.late(late("a"))
    with data.reading(since=2, reads_late=True) as reading:
        assert reading.has_changes()
    with data.reading(since=2) as reading:
        assert not reading.has_changes()


def test_a_label_that_was_read_may_be_reopened_and_closed_only_without_a_change(
    data: Input,
) -> None:
    data.label_events("Close")
    data.label_events("Reopen")
    data.label_events("Close")
    with data.reading(since=3, reads_closed=True) as reading:
        assert reading.closed_labels() == frozenset()
    data.label_events("Reopen")
    data.add(file_of(10))
    data.label_events("Close")
    with data.reading(since=3, reads_closed=True) as reading, pytest.raises(StateError):
        reading.closed_labels()


def test_rows_of_a_read_label_that_grew_old_may_go(data: Input) -> None:
    data.label_events("Close")
    data.begin(EXPIRY)
    data.remove(file_of(0))
    with data.reading(since=3, reads_closed=True) as reading:
        assert not reading.has_changes()


def test_rows_that_an_act_took_away_again_never_came_to_a_read_label(data: Input) -> None:
    data.label_events("Close")
    data.add(file_of(10))
    data.begin("undo")
    data.remove(file_of(10))
    with data.reading(since=3, reads_closed=True) as reading:
        assert not reading.has_changes()
