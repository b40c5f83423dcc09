"""Which published rows of a derived dataset may repeat: those of an instant or later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.model.dataset import Commit, FileRows, Move, PublishedFile
from dil.model.derived import QueryStep
from dil.state.derived import published_rows
from dil.state.derived.dataset_chain import DatasetChain
from dil.state.derived.published_rows import rows_since
from dil.state.store.sql_store import SqlStateStore
from tests.unit.state.derived_store import NOW, Store, counting

ALWAYS = -(2**62)


class Published:
    """A derived dataset ``out``; each publish adds one file of 10 rows."""

    def __init__(self, folder: Path) -> None:
        self.inputs = Store(folder)
        self.inputs.root("in")
        self.store = SqlStateStore(self.inputs.database, "out", clock=lambda: NOW)
        self.lease = self.store.acquire_lease("r", lease_s=60)
        self.files: list[PublishedFile] = []
        self.runs = 0

    def publish(
        self,
        last_event_ms: int | None,
        *,
        column: str | None = "at",
        is_anew: bool = False,
        removes: tuple[PublishedFile, ...] = (),
        rows: int = 10,
    ) -> int | None:
        """Publish a file whose newest row has a time; return the time that the chain now has.

        If ``is_anew``, the file replaces all files before it.
        """
        self.inputs.add("in", 1)
        plan = self.inputs.plan("out", inputs=("in",))
        assert plan is not None
        self.runs += 1
        run = f"r{self.runs}"
        mode = "full" if is_anew else "append"
        removes = tuple(self.files) if is_anew else removes
        file = PublishedFile(f"file:///{run}", "", rows, 50, "ab" * 32, run)
        self.files += [file] if rows else []
        moves = (Move("file:///staged", file),) if rows else ()
        transform: dict[str, object] = {"inputs": ["in"], "mode": mode}
        if column is not None:
            transform["dedupe"] = {"keys": ["id"], "column": column, "withinMs": 1}
        step = QueryStep(json.dumps(transform), plan.event.inputs, last_event_ms=last_event_ms)
        commit = Commit(run, "c", "dil/out", moves, removes, "s", NOW, NOW, query=step)
        self.store.commit(self.lease, commit)
        head = self.store.head()
        assert head is not None
        return head["event"].get("lastEventMs")

    def since(self, instant_ms: int, column: str = "at") -> list[int]:
        """Return the first offsets of the files that may have rows of an instant or later."""
        with self.inputs.database.read() as tx:
            dataset = DatasetChain.of(tx, "out")
            found: tuple[FileRows, ...] = rows_since(
                dataset, dataset.head.block, column, instant_ms
            )
        return [part.offset for part in found]


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Published]:
    found = Published(tmp_path)
    yield found
    found.inputs.database.close()


def test_the_chain_keeps_the_greatest_time_of_all_rows_so_far(out: Published) -> None:
    assert out.publish(None) is None
    assert out.publish(200) is None  # the times of the rows before are unknown
    assert out.publish(200, is_anew=True) == 200
    assert out.publish(100) == 200
    assert out.publish(None) == 200  # no row had a time
    assert out.publish(None, rows=0) == 200
    assert out.publish(300) == 300


@pytest.mark.parametrize("column", [None, "changed"])
def test_times_of_another_column_are_unknown_until_all_rows_are_made_anew(
    out: Published, column: str | None
) -> None:
    out.publish(200)
    assert out.publish(900, column=column) is None
    assert out.publish(300) is None
    assert out.publish(300, is_anew=True) == 300


@pytest.mark.parametrize("page", [1, 20])
def test_files_of_blocks_before_an_instant_are_left_out(
    out: Published, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(published_rows, "_PAGE", page)
    for last_event_ms in (100, 200, 300):
        out.publish(last_event_ms)

    assert out.since(301) == []
    assert out.since(300) == [20]
    assert out.since(200) == [10, 20]
    assert out.since(ALWAYS) == [0, 10, 20]
    assert out.since(301, "changed") == [0, 10, 20]  # the chain has no such times


def test_times_before_a_change_of_the_rule_leave_nothing_out(out: Published) -> None:
    out.publish(100, column="changed")
    out.publish(300, is_anew=True)
    out.publish(400)

    assert out.since(301) == [20]
    assert out.since(200) == [10, 20]


def test_rows_whose_times_were_not_kept_are_never_left_out(out: Published) -> None:
    out.publish(None, column=None)
    out.publish(200)

    assert out.since(900) == [0, 10]


def test_all_files_are_read_if_older_ones_were_replaced(out: Published) -> None:
    out.publish(100)
    out.publish(300)
    out.publish(300, removes=(out.files[0],))

    assert out.since(200) == [10, 20]


def test_more_blocks_of_one_transform_need_no_more_statements(out: Published) -> None:
    def statements() -> int:
        with counting(out.inputs.database) as tx:
            dataset = DatasetChain.of(tx, "out")
            before = tx.statements
            rows_since(dataset, dataset.head.block, "at", ALWAYS)
            return tx.statements - before

    for _ in range(2):
        out.publish(100)
    few = statements()
    for _ in range(4):
        out.publish(100)
    assert statements() == few
