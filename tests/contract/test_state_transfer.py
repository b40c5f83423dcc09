"""A job's state goes from any kind of store to any other, and is there what it was."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dil.errors import ConfigError, LeaseHeldError
from dil.model.dataset import Intent
from dil.model.job import StateSpec
from dil.operator import state_stores
from dil.spi.state_store import StateStore
from dil.state.blocks.verification import verify_chain
from dil.state.databases import sqlite_database, tables
from dil.state.opening import open_database
from dil.state.runs.intent_codec import encode_intent
from dil.storage import LocalFilesystem
from tests.contract.older_stores import KINDS, LATER, OlderStore, older_store
from tests.contract.state_stores import Clock, commit_of, file, moves, outcome
from tests.jobs import write_job
from tests.killed import KilledError
from tests.marks import some_long

CLOCK = Clock(LATER)
PAIRS = list(itertools.product(KINDS, KINDS))
FURTHER = [(a, b) for a, b in PAIRS if a == b or "sqlite" not in (a, b)]
COPIES = pytest.mark.parametrize(
    ("kind", "other"), some_long(PAIRS, *FURTHER), ids=[f"{a} to {b}" for a, b in PAIRS]
)


@pytest.fixture
def older(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., OlderStore]]:
    """Return what puts an older store of a kind in place, as often as wanted."""
    with ExitStack() as stack:
        numbers = itertools.count()
        yield lambda kind: stack.enter_context(
            older_store(kind, request, tmp_path / f"{kind}-{next(numbers)}")
        )


@pytest.fixture
def job(tmp_path: Path) -> Callable[[StateSpec], Any]:
    from dil import config

    loaded = config.load(write_job(tmp_path / "job", "http://127.0.0.1:1"), environ={}).job
    return lambda spec: replace(loaded, name="orders", state=spec)


def emptied(older: OlderStore) -> OlderStore:
    """Return the store with the other job alone."""
    database = open_database(older.place.spec, "orders", clock=CLOCK)
    with closing(database), database.write() as tx:
        for table in tables.job_tables(number=1):
            tx.change(f"DELETE FROM {table.name} WHERE dataset_id = ?", "orders")
    return older


def rows(older: OlderStore, job: str) -> dict[str, list[tuple]]:
    database = open_database(older.place.spec, job, clock=CLOCK)
    with closing(database), database.read() as tx:
        (number,) = tx.row("SELECT format FROM state_format")
        return {
            table.name: sorted(
                tx.rows(
                    f"SELECT {', '.join(table.columns)} FROM {table.name} WHERE dataset_id = ?",
                    job,
                ),
                key=repr,
            )
            for table in tables.job_tables(number=number)
        }


def go_on(store: StateStore, run: str = "r4") -> None:
    """Finish what was begun, commit once more, and verify all."""
    lease = store.acquire_lease(run, lease_s=60, upgrade=True)
    pending = store.pending_intent()
    assert pending is not None
    store.commit(lease, pending.commit)
    commit = commit_of(run, outcome(5), moves=moves(file(f"f-{run}", day=5, run=run)), schema="s")
    assert store.commit(lease, commit) is not None
    assert verify_chain(store).problems == ()
    store.release_lease(lease)


@COPIES
def test_a_job_goes_on_in_the_store_that_it_was_copied_to(
    kind: str, other: str, older, job
) -> None:
    source, target = older(kind), emptied(older(other))
    with source.place.open() as store:
        lease = store.acquire_lease("r0", lease_s=60, upgrade=True)
        store.keep_run_details(lease, "r1", {"report": {"rows": 17}})
        store.change_checkpoint(lease, "cursors", {"é": [1, None]})
        store.release_lease(lease)
    before, neighbours = rows(source, "orders"), rows(target, "customers")
    mine, theirs = job(source.place.spec), job(target.place.spec)

    look = state_stores.preview_copy(mine, theirs, CLOCK)
    assert look.replaced.is_empty
    assert look.moved.head == 4
    assert look.moved.unfinished == "r3"
    assert not any(rows(target, "orders").values())
    state_stores.copy(mine, theirs, CLOCK)

    assert rows(target, "orders") == before
    assert rows(source, "orders") == before
    there = rows(target, "customers")
    assert {name: there[name] for name in neighbours} == neighbours
    with target.place.open() as store:
        assert store.run_detail("r1", "report") == {"rows": 17}
        assert store.checkpoint("cursors") == {"é": [1, None]}
        assert store.acquire_lease("look", lease_s=0).token > lease.token
        go_on(store)


@COPIES
def test_a_long_publish_that_was_begun_is_finished_in_any_other_store(
    kind: str, other: str, older, job, tmp_path: Path
) -> None:
    """SQLite keeps a text of this size as a BLOB, and servers have columns of text."""
    source, target, again = older(kind), emptied(older(other)), emptied(older(kind))
    name = "é" * (sqlite_database.LARGE_BYTES // 2)
    commit = commit_of("r4", outcome(5), moves=moves(file(name, day=5, run="r4")), schema="s")
    with source.place.open() as store:
        lease = store.acquire_lease("r4", lease_s=60, upgrade=True)
        store.commit(lease, store.pending_intent().commit)
        intent = Intent(commit, lease.token, "/lake/orders", 4, "file:///lake/orders")
        store.record_intent(lease, intent)
        store.release_lease(lease)
    assert len(encode_intent(intent).encode()) > sqlite_database.LARGE_BYTES
    mine, theirs, back = (job(each.place.spec) for each in (source, target, again))

    state_stores.copy(mine, theirs, CLOCK)
    state_stores.back_up(theirs, tmp_path / "backup.db", CLOCK)
    state_stores.restore(back, tmp_path / "backup.db", CLOCK)

    for place in (target.place, again.place):
        with place.open() as store:
            assert store.pending_intent() == intent
            lease = store.acquire_lease("r4", lease_s=60)
            assert store.commit(lease, intent.commit) is not None
            assert verify_chain(store).problems == ()


@pytest.mark.parametrize("kind", KINDS)
def test_a_backup_is_restored_as_it_was_and_that_is_taken_back(
    kind: str, older, job, tmp_path: Path
) -> None:
    store_then = older(kind)
    mine, backup = job(store_then.place.spec), tmp_path / "backup.db"
    before, neighbours = rows(store_then, "orders"), rows(store_then, "customers")
    assert state_stores.preview_backup(mine, backup, CLOCK).moved.head == 4
    assert not backup.exists()
    state_stores.back_up(mine, backup, CLOCK)
    assert [path.name for path in tmp_path.glob("backup*")] == ["backup.db"]
    assert rows(store_then, "orders") == before
    with store_then.place.open() as store:
        go_on(store)
    later = rows(store_then, "orders")

    look = state_stores.preview_restore(mine, backup, CLOCK)
    assert (look.moved.head, look.replaced.head) == (4, 6)
    kept = state_stores.restore(mine, backup, CLOCK)

    restored = rows(store_then, "orders")
    assert {name: restored[name] for name in before} == before
    there = rows(store_then, "customers")
    assert {name: there[name] for name in neighbours} == neighbours
    assert kept is not None
    state_stores.restore(mine, kept, CLOCK)
    assert rows(store_then, "orders") == later
    state_stores.restore(mine, backup, CLOCK)
    with store_then.place.open() as store:
        go_on(store)


def test_the_file_of_a_whole_store_is_restored_to_another_kind(older, job, tmp_path: Path) -> None:
    sqlite, log = older("sqlite"), emptied(older("filelog"))
    found = Path(sqlite.place.spec.directory) / "state.db"
    assert state_stores.restore(job(log.place.spec), found, CLOCK) is None
    before = rows(sqlite, "orders")
    assert {name: rows(log, "orders")[name] for name in before} == before
    assert sqlite.format == 1


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_replaced_under_a_run(kind: str, older, job, tmp_path: Path) -> None:
    source, target = older(kind), emptied(older("sqlite"))
    mine, backup = job(source.place.spec), tmp_path / "backup.db"
    state_stores.back_up(mine, backup, CLOCK)
    with source.place.open() as store:
        lease = store.acquire_lease("busy", lease_s=3600)
        before = rows(source, "orders")
        with pytest.raises(LeaseHeldError, match="busy"):
            state_stores.restore(mine, backup, CLOCK)
        with pytest.raises(LeaseHeldError, match="busy"):
            state_stores.copy(mine, job(target.place.spec), CLOCK)
        with pytest.raises(LeaseHeldError, match="busy"):
            state_stores.upgrade(mine, CLOCK)
        assert rows(source, "orders") == before
        assert not any(rows(target, "orders").values())
        state_stores.back_up(mine, tmp_path / "meanwhile.db", CLOCK)
        store.release_lease(lease)


def test_what_would_lose_state_is_refused(older, job, tmp_path: Path) -> None:
    one, two = older("sqlite"), older("filelog")
    mine, theirs = job(one.place.spec), job(two.place.spec)
    with pytest.raises(ConfigError, match="already has state of"):
        state_stores.preview_copy(mine, theirs, CLOCK)
    with pytest.raises(ConfigError, match="names the store that orders uses"):
        state_stores.preview_copy(mine, mine, CLOCK)
    backup = tmp_path / "backup.db"
    state_stores.back_up(mine, backup, CLOCK)
    with pytest.raises(ConfigError, match="exists already"):
        state_stores.preview_backup(mine, backup, CLOCK)
    other = replace(mine, name="suppliers")
    with pytest.raises(ConfigError, match="has no state of suppliers"):
        state_stores.preview_restore(other, backup, CLOCK)
    with pytest.raises(ConfigError, match="has no state of suppliers"):
        state_stores.preview_backup(other, tmp_path / "new.db", CLOCK)
    with pytest.raises(ConfigError, match="does not exist"):
        state_stores.preview_restore(mine, tmp_path / "absent.db", CLOCK)


@pytest.mark.parametrize("kind", KINDS)
def test_an_upgrade_by_hand_is_shown_first_and_done_once(kind: str, older, job) -> None:
    store = older(kind)
    mine = job(store.place.spec)
    look = state_stores.preview_upgrade(mine, CLOCK)
    assert (look.format, look.to) == (1, 2)
    assert look.copy
    assert "orders" in look.jobs
    assert store.format == 1
    state_stores.upgrade(mine, CLOCK)
    assert store.format == 2
    assert state_stores.preview_upgrade(mine, CLOCK).copy == ""
    state_stores.upgrade(mine, CLOCK)
    with store.place.open() as opened:
        go_on(opened)


def block_files(older: OlderStore) -> dict[int, bytes]:
    """Return what readers without dil find in a file log."""
    (folder,) = Path(older.place.spec.directory).glob("orders-*/_chain/blocks")
    return {int(path.stem): path.read_bytes() for path in folder.glob("*.json")}


def kept_blocks(older: OlderStore) -> dict[int, bytes]:
    database = open_database(older.place.spec, "orders", clock=CLOCK)
    with closing(database), database.read() as tx:
        return {seq: bytes(text) for seq, text in tx.rows(
            "SELECT seq, payload FROM mc_block WHERE dataset_id = ?", "orders")}  # fmt: skip


@pytest.mark.parametrize("moves_before", [0, 1, 3, 1000])
def test_a_restored_file_log_has_the_files_of_its_own_chain(
    moves_before: int, older, job, tmp_path: Path, monkeypatch, caplog
) -> None:
    """Whether or not the restore was killed while it put the others aside."""
    log = older("filelog")
    mine, backup = job(log.place.spec), tmp_path / "backup.db"
    state_stores.back_up(mine, backup, CLOCK)
    with log.place.open() as store:
        go_on(store, "r7")
    assert block_files(log) == kept_blocks(log)
    left, move = [moves_before], LocalFilesystem.move

    def die(files: LocalFilesystem, source: str, target: str, **how: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KilledError
        move(files, source, target, **how)

    with monkeypatch.context() as patch, suppress(KilledError):
        patch.setattr(LocalFilesystem, "move", die)
        state_stores.restore(mine, backup, CLOCK)
    if moves_before < 1000:
        with log.place.open() as store:
            store.release_lease(store.acquire_lease("look", lease_s=0))
        assert block_files(log) == kept_blocks(log)
        state_stores.restore(mine, backup, CLOCK)
    caplog.clear()
    with log.place.open() as store:
        go_on(store)

    assert block_files(log) == kept_blocks(log)
    assert "left to the next commit" not in caplog.text
