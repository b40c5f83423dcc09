"""A run whose head moved goes behind it where its plan still holds, and nowhere else."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dil.errors import CommitConflictError
from dil.model.dataset import Commit, Move, OperatorAct, PublishedFile, RunWork, WorkUnitOutcome
from dil.model.job import StateSpec
from dil.spi.state_store import StateStore
from dil.state import open_store
from dil.state.blocks.block import advance, carried, next_block
from dil.state.blocks.events import ConfigEvent, SourceState
from dil.state.blocks.verification import verify_chain
from dil.state.chain.chain_rows import append, read_tip
from dil.state.databases.sqlite_database import SqliteDatabase

NOW = 1_735_689_600_000
HOUR = 3_600_000


def signature(hour: int) -> str:
    return f"[watermark.dt.{hour * HOUR}, watermark.u.{{}}]"


def commit_of(run_id: str, hour: int, **changes: object) -> Commit:
    low, high = hour * HOUR, (hour + 1) * HOUR
    outcome = WorkUnitOutcome(signature(hour), "u.{}", low, high, high, 1)
    file = PublishedFile(f"file:///d/{run_id}", signature(hour), 10, 70, "ab" * 32, run_id)
    moves = (Move(f"file:///s/{run_id}", file),)
    commit = Commit(run_id, "c", "dil/orders", moves, (), "s", NOW, NOW, RunWork((outcome,)))
    return replace(commit, **changes)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def store(folder: Path) -> Iterator[StateStore]:
    with open_store(StateSpec("sqlite", str(folder)), "orders", clock=lambda: NOW) as opened:
        lease = opened.acquire_lease("r0", lease_s=60)
        opened.commit(lease, commit_of("r0", 0))
        opened.history()
        opened.release_lease(lease)
        yield opened


def commit(store: StateStore, *commits: Commit) -> None:
    for each in commits:
        lease = store.acquire_lease(each.run_id, lease_s=60)
        try:
            store.commit(lease, each)
        finally:
            store.release_lease(lease)


def elsewhere(folder: Path, *commits: Commit) -> None:
    with open_store(StateSpec("sqlite", str(folder)), "orders", clock=lambda: NOW) as other:
        commit(other, *commits)


def test_other_work_units_and_other_properties_leave_a_plan_true(
    store: StateStore, folder: Path
) -> None:
    elsewhere(folder, commit_of("r1", 1, config_digest="c2"), commit_of("r2", 2))
    commit(store, commit_of("mine", 3))
    head = store.head()
    assert head is not None
    assert head["event"]["newData"]["offsetInterval"] == {"start": 30, "end": 39}
    assert verify_chain(store).problems == ()


def test_commits_of_one_store_leave_its_plan_true(store: StateStore) -> None:
    commit(store, commit_of("r1", 1), commit_of("r2", 1), commit_of("r3", 1))
    assert verify_chain(store).problems == ()


@pytest.mark.parametrize(
    "other",
    [
        commit_of("x", 3),
        commit_of("x", 1, schema="s2"),
        commit_of(
            "x", 0, moves=(), run=RunWork(), act=OperatorAct("f", "", removed=(signature(0),))
        ),
    ],
    ids=["the same work unit", "another schema", "an operator's act"],
)
def test_what_changes_the_ground_of_a_plan_ends_it(
    store: StateStore, folder: Path, other: Commit
) -> None:
    elsewhere(folder, other)
    before = store.head()
    with pytest.raises(CommitConflictError):
        commit(store, commit_of("mine", 3))
    assert store.head() == before


@pytest.mark.parametrize(
    "work",
    [
        replace(commit_of("mine", 3).run, forgotten=(signature(1),)),
        replace(commit_of("mine", 3).run, skipped=commit_of("mine", 1).run.outcomes),
    ],
    ids=["it forgets it", "it leaves it out"],
)
def test_a_plan_ends_if_a_work_unit_was_read_that_it_does_not_read(
    store: StateStore, folder: Path, work: RunWork
) -> None:
    elsewhere(folder, commit_of("x", 1))
    before = store.head()
    with pytest.raises(CommitConflictError):
        commit(store, commit_of("mine", 3, run=work))
    assert store.head() == before


def test_a_replace_does_not_pass_over_files_that_it_does_not_know(
    store: StateStore, folder: Path
) -> None:
    elsewhere(folder, commit_of("x", 1))
    known = commit_of("r0", 0).moves[0].target
    with pytest.raises(CommitConflictError):
        commit(store, commit_of("mine", 3, removes=(known,)))
    commit(store, commit_of("window", 0, removes=(known,)))
    assert verify_chain(store).problems == ()


def test_a_plan_on_a_block_that_the_chain_lost_is_given_up(store: StateStore, folder: Path) -> None:
    """A copy of the file was put back, and other runs committed after it."""
    with closing(sqlite3.connect(folder / "state.db")) as connection, connection:
        connection.executescript("DELETE FROM mc_block; DELETE FROM mc_head; DELETE FROM work_unit")
    elsewhere(folder, commit_of("x", 1), commit_of("y", 2))
    before = store.head()
    with pytest.raises(CommitConflictError, match="has new blocks since this run was planned"):
        commit(store, commit_of("mine", 3))
    assert store.head() == before


def test_rows_of_another_tool_end_a_plan(store: StateStore, folder: Path) -> None:
    """Their block says nothing about work units, so it may be about the same ones."""
    with closing(SqliteDatabase(folder / "state.db")) as database, database.write() as tx:
        tip = read_tip(tx, "orders")
        assert tip is not None
        state = SourceState("kafka", "offsets", {"0": 5})
        block = next_block(tip, replace(carried(tip), new_source_state=state), NOW)
        append(tx, "orders", tip, (block,), advance(tip, block))
    with pytest.raises(CommitConflictError):
        commit(store, commit_of("mine", 3))


def test_a_block_behind_a_head_that_moved_is_not_written(store: StateStore, folder: Path) -> None:
    with closing(SqliteDatabase(folder / "state.db")) as database:
        with database.read() as tx:
            tip = read_tip(tx, "orders")
        assert tip is not None
        stale = replace(tip, hash="f1220" + "0" * 64)
        block = next_block(tip, ConfigEvent("SetInfo", {}), NOW)
        with pytest.raises(CommitConflictError, match="has new blocks"), database.write() as tx:
            append(tx, "orders", stale, (block,), advance(tip, block))
    assert len(list(store.blocks())) == tip.head.sequence + 1


def test_an_act_goes_behind_nothing_that_was_committed_since(
    store: StateStore, folder: Path
) -> None:
    elsewhere(folder, commit_of("x", 1))
    act = OperatorAct("forget", "", removed=(signature(0),))
    before = store.head()
    with pytest.raises(CommitConflictError):
        commit(store, commit_of("mine", 3, moves=(), run=RunWork(), act=act))
    assert store.head() == before
