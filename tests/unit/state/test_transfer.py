"""What a copy of a job's state into another store leaves there, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from dil.errors import LeaseLostError, StateError
from dil.model.dataset import Lease
from dil.state import transfer
from dil.state.databases import sql
from dil.state.runs import details, leases
from tests.unit.state.derived_store import NOW, Store

JOB = "orders"


@pytest.fixture
def source(tmp_path: Path) -> Store:
    return filled(tmp_path / "source", 3)


@pytest.fixture
def target(tmp_path: Path) -> Store:
    return filled(tmp_path / "target", 1)


def filled(folder: Path, blocks: int) -> Store:
    folder.mkdir()
    store = Store(folder)
    store.root(JOB)
    for _ in range(blocks):
        store.add(JOB, 10)
    return store


def taken(store: Store, *, times: int = 1, now: int = NOW) -> Lease:
    """Take and release the job's lease; return the last one, which is held."""
    for _ in range(times):
        with store.database.write() as tx:
            lease = leases.acquire(tx, JOB, "r1", now, 1)
        now += 2000  # it expired
    return lease


def copied(source: Store, target: Store, lease: Lease) -> None:
    with source.database.read() as found, target.database.write() as tx:
        transfer.replace_job(found, tx, JOB, lease)


def newest(store: Store) -> int | None:
    with store.database.read() as tx:
        return transfer.holdings(tx, JOB).head


def test_the_rows_of_the_target_give_way_to_those_of_the_source(source, target):
    copied(source, target, taken(target))
    with source.database.read() as found, target.database.read() as tx:
        assert transfer.holdings(tx, JOB) == transfer.holdings(found, JOB)


def test_the_next_run_has_a_larger_token_than_each_earlier_run_of_both_stores(source, target):
    last = taken(source, times=5)
    copied(source, target, taken(target))
    assert taken(target, now=NOW + 60_000).token == last.token + 1


def test_a_lease_that_another_run_took_over_replaces_nothing(source, target):
    lease = taken(target)
    taken(target, now=NOW + 2000)
    before = newest(target)
    with pytest.raises(LeaseLostError):
        copied(source, target, lease)
    assert newest(target) == before


def test_rows_that_a_server_changes_are_refused(source, target):
    lease, before = taken(target), newest(target)
    with target.database.write() as tx:
        tx.change(
            "CREATE TRIGGER cut AFTER INSERT ON mc_block BEGIN"
            " UPDATE mc_block SET payload = 'x' WHERE seq = NEW.seq; END"
        )
    with pytest.raises(StateError):
        copied(source, target, lease)
    assert newest(target) == before


def test_nothing_of_the_target_stays_where_an_older_source_has_no_place_for_it(source, target):
    lease = taken(target)
    with target.database.write() as tx:
        details.change_checkpoint(tx, JOB, "lateness", {"largest": 5})
    with source.database.write() as tx:
        tx.change(sql.CHANGE_FORMAT, 1)
    copied(source, target, lease)
    with target.database.read() as tx:
        assert details.checkpoint(tx, JOB, "lateness") == {}


def test_a_begun_publish_is_remembered_by_its_run(target):
    with target.database.write() as tx:
        tx.change("INSERT INTO intent (dataset_id, run_id, payload) VALUES (?, 'r1', '{}')", JOB)
        assert transfer.remembers_publish(tx, JOB, "r1")
        assert not transfer.remembers_publish(tx, JOB, "r2")


def test_a_damaged_text_is_copied_as_it_is(source, target):
    with source.database.write() as tx:
        details.change_checkpoint(tx, JOB, "lateness", {"largest": 5})
        tx.change("UPDATE checkpoint SET payload = ? WHERE dataset_id = ?", b"\xff{", JOB)
    copied(source, target, taken(target))
    with target.database.read() as tx:
        found = tx.rows("SELECT payload FROM checkpoint WHERE dataset_id = ?", JOB)
    assert found == [(b"\xff{",)]
