"""Stores that format 1 left: read as they are, upgraded by a run, refused by releases before."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dil.errors import LeaseHeldError, StateError
from dil.model.dataset import Intent, OperatorAct
from dil.spi.state_store import StateStore
from dil.state.blocks.verification import verify_chain
from dil.state.databases import server_database, server_driver
from dil.state.databases.server_driver import ServerConnection
from dil.state.opening import open_database
from tests.contract.older_stores import GOLDEN, KINDS, LATER, OlderStore, older_store
from tests.contract.state_stores import START, child, commit_of, file, moves, outcome, run_record

TABLES = ("mc_block", "mc_head", "work_unit", "coverage", "live_file", "committed_run", "run")
IDLE = ("orders", "customers")


@pytest.fixture(params=KINDS)
def older(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OlderStore]:
    with older_store(request.param, request, tmp_path) as found:
        yield found


@pytest.fixture(params=[kind for kind in KINDS if kind != "filelog"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OlderStore]:
    """Return a store that keeps all jobs in the same tables."""
    with older_store(request.param, request, tmp_path) as found:
        yield found


def seen(store: StateStore) -> dict[str, Any]:
    """Return all that a store tells of its job."""
    intent = store.pending_intent()
    return {
        "blocks": list(store.blocks()),
        "units": list(store.unit_entries()),
        "runs": list(store.runs()),
        "intent": None if intent is None else intent.commit.run_id,
        "shape": store.recorded_shape(),
        "last rows": store.last_rows(),
        "holder": store.lease_holder(),
    }


def test_an_older_store_is_read_and_stays_as_it_is(older: OlderStore) -> None:
    with older.place.open() as store:
        found = seen(store)
        assert verify_chain(store).problems == ()
        assert store.history().coverage("u.{}") is not None
        assert store.run_detail("r1", "report") is None
        assert store.checkpoint("cursors") == {}
    assert [block["sequenceNumber"] for block in found["blocks"]] == [4, 3, 2, 1, 0]
    assert [unit.status for unit in found["units"]] == [
        "COMMITTED", "COMMITTED", "COMMITTED", "COMMITTED", "FAILED",
    ]  # fmt: skip
    assert [(run.run_id, run.status) for run in found["runs"]] == [
        ("r3", "running"), ("r2", "partial"), ("r1", "success"),
    ]  # fmt: skip
    assert found["intent"] == "r3"
    assert found["last rows"] == 10
    assert older.format == 1


def test_what_operators_do_leaves_the_format_as_it_is(older: OlderStore) -> None:
    with older.place.open() as store:
        lease = store.acquire_lease("forget-1", lease_s=60)
        store.record_shape(lease, "2023-01-01|UTC|daily")
        with pytest.raises(StateError, match="format 1, which keeps no documents"):
            store.keep_run_details(lease, "r1", {"report": {}})
        with pytest.raises(StateError, match="dil state upgrade"):
            store.change_checkpoint(lease, "cursors", {})
        store.release_lease(lease)
    with older.place.open() as store:
        assert store.recorded_shape() == "2023-01-01|UTC|daily"
    assert older.format == 1


def test_old_runs_are_pruned_in_an_older_store_too(older: OlderStore) -> None:
    with older.place.open("customers") as store:
        lease = store.acquire_lease("prune-1", lease_s=60)
        store.begin_run(lease, run_record("r2", started=LATER))
        act = OperatorAct("prune", "", runs_before=LATER)
        store.commit(lease, commit_of("prune-1", act=act, source_name="dil/customers"))
        assert [run.run_id for run in store.runs()] == ["r2"]
    assert older.format == 1


def test_a_run_upgrades_under_its_lease_and_goes_on(
    older: OlderStore, caplog: pytest.LogCaptureFixture
) -> None:
    with older.place.open() as store:
        before = seen(store)
        lease = store.acquire_lease("r4", lease_s=60, upgrade=True)
        assert older.format == 2
        (line,) = caplog.messages
        assert "from format 1 to 2; as it was: " in line
        assert {**seen(store), "holder": None} == before
        pending = store.pending_intent()
        assert pending is not None
        store.commit(lease, pending.commit)
        store.begin_run(lease, run_record("r4"))
        commit = commit_of("r4", outcome(5), moves=moves(file("f", day=5, run="r4")), schema="s")
        store.history()
        store.record_intent(lease, Intent(commit, lease.token, "/data", 1))
        assert store.commit(lease, commit) is not None
        store.keep_run_details(lease, "r4", {"report": {"rows": 10}})
        store.change_checkpoint(lease, "cursors", {"a": 1, "b": 2.50})
        store.change_checkpoint(lease, "cursors", {"a": "x"})
        store.release_lease(lease)
    with older.place.open() as store:
        assert verify_chain(store).problems == ()
        assert [block["sequenceNumber"] for block in store.blocks()] == [6, 5, 4, 3, 2, 1, 0]
        assert [unit.status for unit in store.unit_entries()].count("COMMITTED") == 7
        assert store.run_detail("r4", "report") == {"rows": 10}
        assert store.checkpoint("cursors") == {"a": "x", "b": 2.50}
        lease = store.acquire_lease("r5", lease_s=60, upgrade=True)
        assert lease.token > 4


def test_another_job_of_the_store_goes_on_too(older: OlderStore) -> None:
    with older.place.open() as store:
        store.release_lease(store.acquire_lease("r4", lease_s=60, upgrade=True))
    with older.place.open("customers") as store:
        before = seen(store)
        lease = store.acquire_lease("r2", lease_s=60, upgrade=True)
        assert {**seen(store), "holder": None} == before
        commit = commit_of("r2", outcome(1), schema="s", source_name="dil/customers")
        store.commit(lease, commit)
        assert verify_chain(store).problems == ()


def test_the_store_is_copied_as_it_was(shared: OlderStore) -> None:
    before = {table: shared.rows(table) for table in TABLES}
    assert len(before["mc_block"]) == 9
    with shared.place.open() as store:
        store.acquire_lease("r4", lease_s=60, upgrade=True)
    assert {table: shared.rows(f"{table}_format_1") for table in TABLES} == before
    assert shared.rows("state_format_format_1") == [(1,)]


def test_the_journal_before_is_left_as_it_was_but_for_the_entry_that_ends_it(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with older_store("filelog", request, tmp_path) as older:
        before = {path: path.read_bytes() for path in older.files}
        with older.place.open() as store:
            lease = store.acquire_lease("r4", lease_s=60, upgrade=True)
            for _ in range(300):
                store.heartbeat(lease)
        after = {path: path.read_bytes() for path in older.files}
        assert {path: after[path] for path in before} == before
        journal = next(Path(older.place.spec.directory).glob("orders-*/journal"))
        *earlier, last = sorted(path.name for path in journal.iterdir())
        assert json.loads((journal / last).read_bytes())["format"] == 2
        assert earlier == sorted(path.name for path in GOLDEN.glob("filelog/orders-*/journal/*"))


@pytest.mark.parametrize("is_filled", [True, False], ids=["upgraded", "new"])
def test_a_release_before_refuses_the_store(
    older: OlderStore, is_filled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What such a release does is told by its constant: it compared formats for equality."""
    job = "orders" if is_filled else "suppliers"
    with older.place.open(job) as store:
        store.release_lease(store.acquire_lease("r4", lease_s=60, upgrade=True))
        before = seen(store)
    with monkeypatch.context() as earlier:
        earlier.setattr("dil.state.databases.tables.FORMAT", 1)
        with older.place.open(job) as store:
            for act in (store.head, store.history, lambda: store.acquire_lease("r5", lease_s=1)):
                with pytest.raises(StateError, match="format 2, this dil reads format 1") as caught:
                    act()
                assert "newer dil" in caught.value.fix
    with older.place.open(job) as store:
        assert seen(store) == before


def test_a_run_of_another_job_is_not_upgraded_beneath(shared: OlderStore) -> None:
    with shared.place.open("customers") as busy:
        busy.acquire_lease("r2", lease_s=3600)
        with shared.place.open() as store:
            with pytest.raises(LeaseHeldError, match='job "customers" is being run by r2'):
                store.acquire_lease("r4", lease_s=60, upgrade=True)
            assert store.lease_holder() is None
    assert shared.format == 1


def test_a_job_that_is_being_run_is_not_upgraded(older: OlderStore) -> None:
    with older.place.open() as busy:
        lease = busy.acquire_lease("r4", lease_s=3600)
        with older.place.open() as store, pytest.raises(LeaseHeldError, match="r4"):
            store.acquire_lease("r5", lease_s=60, upgrade=True)
        assert older.format == 1
        busy.release_lease(lease)
        with older.place.open() as store:
            store.acquire_lease("r5", lease_s=60, upgrade=True)
        assert older.format == 2
        # Who looked before goes on, under the format that is there now.
        assert busy.lease_holder().run_id == "r5"


def test_processes_that_upgrade_at_once_upgrade_once(older: OlderStore) -> None:
    body = """
        from dil.errors import CommitConflictError, LeaseHeldError
        place.clock.now = int(sys.argv[2])
        store = place.open(sys.argv[1])
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(20):
            try:
                lease = store.acquire_lease(f"r{number}", lease_s=3600, upgrade=True)
            except (LeaseHeldError, CommitConflictError):
                continue
            store.record_shape(lease, "kept")
            store.release_lease(lease)
        print("done", flush=True)
    """
    racers = [child(older.place.spec, body, job, str(LATER)) for job in IDLE * 2]
    assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * 4
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    assert [racer.communicate(timeout=120)[0] for racer in racers] == ["done\n"] * 4
    assert older.format == 2
    for job in IDLE:
        with older.place.open(job) as store:
            assert verify_chain(store).problems == ()
            assert store.recorded_shape() == "kept"
            assert min(unit.low for unit in store.unit_entries()) == START


def test_a_newer_format_is_refused_and_left_alone(older: OlderStore) -> None:
    with older.place.open() as store:
        store.release_lease(store.acquire_lease("r4", lease_s=60, upgrade=True))
    with pytest.MonkeyPatch.context() as later:
        later.setattr("dil.state.databases.tables.FORMAT", 3)
        with older.place.open() as store:
            store.release_lease(store.acquire_lease("r5", lease_s=60, upgrade=True))
    with older.place.open() as store:
        with pytest.raises(StateError, match="format 3, this dil reads format 2") as caught:
            store.head()
        assert "Upgrade" in caught.value.fix
        with pytest.raises(StateError, match="format 3"):
            store.acquire_lease("r6", lease_s=60, upgrade=True)


def test_a_file_that_cannot_be_copied_is_not_upgraded(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with older_store("sqlite", request, tmp_path) as older:
        in_the_way = Path(older.place.spec.directory) / "state.format-1.db"
        in_the_way.mkdir()
        (in_the_way / "file").touch()
        with older.place.open() as store, pytest.raises(StateError) as caught:
            store.acquire_lease("r4", lease_s=60, upgrade=True)
        assert "It was not upgraded" in caught.value.fix
        assert older.format == 1
        shutil.rmtree(in_the_way)
        with older.place.open() as store:
            store.acquire_lease("r4", lease_s=60, upgrade=True)
        assert older.format == 2


@pytest.fixture(params=["postgresql", "mysql"])
def on_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OlderStore]:
    with older_store(request.param, request, tmp_path) as found:
        yield found


def test_a_copy_may_take_longer_than_any_other_statement(
    on_server: OlderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server takes its time, beyond the limits of statement, answer and idle transaction."""
    pause = "SELECT pg_sleep(2.5)" if on_server.kind == "postgresql" else "SELECT SLEEP(2.5)"
    copy = server_database._copy_and_add

    def slowly(connection: ServerConnection, found: int) -> None:
        connection.rows(pause)
        copy(connection, found)

    for limit in ("STATEMENT_S", "ANSWER_S", "IDLE_S"):
        monkeypatch.setattr(server_driver, limit, 1)
    monkeypatch.setattr(server_database, "_copy_and_add", slowly)
    with on_server.place.open() as store:
        lease = store.acquire_lease("r4", lease_s=60, upgrade=True)
        store.change_checkpoint(lease, "cursors", {"a": 1})
    assert on_server.format == 2


def test_after_an_upgrade_that_failed_requests_have_their_limits_again(
    on_server: OlderStore,
) -> None:
    limit = "SELECT @@wait_timeout"
    if on_server.kind == "postgresql":
        limit = "SELECT current_setting('statement_timeout')"
    database = open_database(on_server.place.spec, "orders", clock=on_server.place.clock)
    with closing(database):
        with database.write() as tx:
            before = tx.rows(limit)
        with pytest.raises(KeyError), database.upgrade(lambda tx, found: None):
            raise KeyError
        assert on_server.format == 1
        with database.write() as tx:
            assert tx.rows(limit) == before


def test_an_upgrade_that_was_interrupted_is_repeated(on_server: OlderStore) -> None:
    """The new tables are there already, and the format is the old one."""
    with on_server.place.open() as store:
        before = seen(store)
        store.release_lease(store.acquire_lease("r4", lease_s=60, upgrade=True))
    database = open_database(on_server.place.spec, "orders", clock=on_server.place.clock)
    with closing(database), database.write() as tx:
        tx.change("UPDATE state_format SET format = 1")
    with on_server.place.open() as store:
        lease = store.acquire_lease("r5", lease_s=60, upgrade=True)
        assert on_server.format == 2
        assert {**seen(store), "holder": None} == before
        store.change_checkpoint(lease, "cursors", {"a": 1})


def test_a_table_of_another_program_is_not_taken_for_one_of_the_store(
    on_server: OlderStore,
) -> None:
    database = open_database(on_server.place.spec, "orders", clock=on_server.place.clock)
    with closing(database), database.write() as tx:
        tx.change("CREATE TABLE checkpoint (id int, weight int)")

    with on_server.place.open() as store:
        with pytest.raises(StateError, match="checkpoint with the columns id, weight"):
            store.acquire_lease("r4", lease_s=60, upgrade=True)
        assert on_server.format == 1
        assert on_server.rows("checkpoint") == []
        assert seen(store)["holder"] is None
