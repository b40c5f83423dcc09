"""A run whose head moved goes behind it where its plan still holds, and nowhere else."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dil.errors import CommitConflictError
from dil.model.dataset import Commit, Move, OperatorAct, PublishedFile, RunWork, WorkUnitOutcome
from dil.model.job import StateSpec
from dil.spi.state_store import StateStore
from dil.state import open_store
from dil.state.blocks.verification import verify_chain

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


def test_a_replace_does_not_pass_over_files_that_it_does_not_know(
    store: StateStore, folder: Path
) -> None:
    elsewhere(folder, commit_of("x", 1))
    known = commit_of("r0", 0).moves[0].target
    with pytest.raises(CommitConflictError):
        commit(store, commit_of("mine", 3, removes=(known,)))
    commit(store, commit_of("window", 0, removes=(known,)))
    assert verify_chain(store).problems == ()


def test_an_act_goes_behind_nothing_that_was_committed_since(
    store: StateStore, folder: Path
) -> None:
    elsewhere(folder, commit_of("x", 1))
    act = OperatorAct("forget", "", removed=(signature(0),))
    before = store.head()
    with pytest.raises(CommitConflictError):
        commit(store, commit_of("mine", 3, moves=(), run=RunWork(), act=act))
    assert store.head() == before
