"""What is particular to the file log: its files, its snapshots, and damage to either."""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dil.errors import CommitConflictError, StateError
from dil.model.dataset import Lease, RunWork
from dil.model.job import StateSpec
from dil.state import open_store
from dil.state.blocks.verification import verify_chain
from dil.state.databases import sql
from dil.state.filelog.entry import LogChange, LogEntry, decode, encode
from dil.state.filelog.folder import folder_name
from dil.state.runs.processes import this_process
from dil.storage import LocalFilesystem
from tests.unit.state.file_logs import (
    JOB,
    NOW,
    InterruptedFilesystem,
    Log,
    block_files,
    commit_of,
    open_file_log,
    outcomes,
    payloads,
    published,
    quick_folder,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with quick_folder() as folder:
        yield folder


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "state", entries_per_snapshot=10)


def beat(log: Log, count: int) -> None:
    """Add entries: one for the lease when there is none, and one per heartbeat."""
    with log.store() as store:
        lease = store.acquire_lease("r", lease_s=60)
        for _ in range(count - 2):
            store.heartbeat(lease)
        store.release_lease(lease)


# Files


def test_each_transaction_is_one_numbered_entry(log: Log) -> None:
    with log.store() as store:
        lease = store.acquire_lease("r0", lease_s=60)
        store.commit(lease, commit_of(0))
        store.heartbeat(lease)
    assert log.names("journal") == [f"{number:020}.json" for number in (1, 2, 3)]


def test_reading_writes_nothing(log: Log) -> None:
    beat(log, 25)
    before = {path: path.stat().st_mtime_ns for path in log.directory.rglob("*")}
    with log.store() as store:
        assert store.head() is None
        assert store.history().is_empty()
        assert list(store.unit_states()) == []
    assert {path: path.stat().st_mtime_ns for path in log.directory.rglob("*")} == before


def test_a_transaction_that_changes_nothing_writes_nothing(log: Log) -> None:
    database = log.database()
    with database.write() as tx:
        assert tx.change(sql.DROP_INTENT, JOB, "r0") == 0
    assert not log.directory.exists()


def test_a_failed_transaction_leaves_nothing(log: Log) -> None:
    database = log.database()
    with database.write() as tx:
        tx.change(sql.ADD_COMMITTED, JOB, "r1", 1)

    def insert_both() -> None:
        with database.write() as tx:
            tx.change(sql.ADD_COMMITTED, JOB, "r2", 2)
            tx.change(sql.ADD_COMMITTED, JOB, "r1", 3)

    with pytest.raises(CommitConflictError):
        insert_both()
    with database.read() as tx:
        assert tx.rows("SELECT run_id FROM committed_run") == [("r1",)]
    assert len(log.names("journal")) == 1


def test_a_statement_that_no_table_knows_is_a_state_error(log: Log) -> None:
    with pytest.raises(StateError), log.database().read() as tx:
        tx.rows("SELECT 1 FROM nothing")


def test_an_entry_survives_its_text_exactly() -> None:
    values = (None, 0, -(2**63), '«ü»\x00"', b"\x00\xff", "")
    entry = LogEntry(1, "a/b ü", 7, "f1220", "w", (LogChange("UPDATE t SET a = ?", 2, values),) * 2)
    content = encode(entry)
    assert decode(content, "here") == entry
    assert content.count(b"UPDATE t") == 1


def test_every_block_is_a_file_with_its_canonical_bytes(log: Log) -> None:
    with log.store() as store:
        lease = store.acquire_lease("r0", lease_s=60)
        for number in range(4):
            store.commit(lease, commit_of(number))
        head = store.head()
    assert block_files(log) == payloads(log)
    assert len(payloads(log)) == 7
    hint = json.loads((log.folder / "_chain/head.json").read_bytes())
    assert head is not None
    assert hint == {"seq": 6, "hash": head["hash"], "dataSeq": 6, "configSeq": 1, "schemaSeq": 2,
                    "offset": 19}  # fmt: skip


def test_block_files_that_a_crash_left_out_are_added_by_the_next_writer(log: Log) -> None:
    with log.store() as store:
        lease = store.acquire_lease("r0", lease_s=60)
        store.commit(lease, commit_of(0))
    for name in log.names("_chain/blocks")[2:]:
        (log.folder / "_chain/blocks" / name).unlink()
    (log.folder / "_chain/head.json").unlink()
    with log.store() as store:
        store.heartbeat(lease)
    assert block_files(log) == payloads(log)


def test_a_lost_chain_folder_is_written_again(log: Log) -> None:
    with log.store() as store:
        lease = store.acquire_lease("r0", lease_s=60)
        store.commit(lease, commit_of(0))
    shutil.rmtree(log.folder / "_chain")
    with log.store() as store:
        store.commit(lease, commit_of(1))
    assert block_files(log) == payloads(log)


def test_a_block_file_that_differs_is_told_and_stops_no_commit(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    (log.folder / "_chain/blocks").mkdir(parents=True)
    (log.folder / f"_chain/blocks/{0:020}.json").write_text("{}")
    with log.store() as store:
        store.commit(store.acquire_lease("r0", lease_s=60), commit_of(0))
        assert verify_chain(store).is_sound
    assert "holds another block than the journal" in caplog.text


def test_setting_a_chain_aside_that_is_not_there_creates_no_folder(log: Log) -> None:
    beat(log, 2)
    before = sorted(log.folder.iterdir())
    with closing(log.database()) as database:
        database.set_chain_aside("before-copy")
    assert sorted(log.folder.iterdir()) == before


@pytest.mark.parametrize(
    ("one", "other"),
    [("orders", "Orders"), ("a/b", "a_b"), ("job", "job "), ("\u00e9", "e\u0301"), ("", "."),
     ("..", "/"), ("x" * 200, "x" * 199), ("%", "?"), ("a\\b", "a:b"), ("con", "CON")],
)  # fmt: skip
def test_folder_names_are_plain_and_differ_for_jobs_that_differ(one: str, other: str) -> None:
    names = [folder_name(job) for job in (one, other)]
    assert names[0].casefold() != names[1].casefold()
    for name in names:
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
        assert 16 <= len(name) <= 60


@pytest.mark.parametrize("job", ["ü/ö", "../up", "a b", "%2F", "'; DROP", "\\", "x" * 200, ""])
def test_any_job_name_keeps_its_own_state(tmp_path: Path, job: str) -> None:
    with open_file_log(str(tmp_path / "state"), job, clock=lambda: NOW) as store:
        store.acquire_lease("r0", lease_s=60)
    assert [path.name for path in (tmp_path / "state").iterdir()] == [folder_name(job)]
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    with open_file_log(str(tmp_path / "state"), job, clock=lambda: NOW + 60_000) as store:
        assert store.acquire_lease("r1", lease_s=60).token == 2


# Snapshots


def test_entries_and_snapshots_stay_few_however_long_the_log(log: Log) -> None:
    beat(log, 95)
    assert [int(name[:20]) for name in log.names("snapshots")] == [80, 90]
    assert [int(name[:20]) for name in log.names("journal")] == list(range(81, 96))


def test_a_snapshot_is_an_sqlite_file(log: Log) -> None:
    with log.store() as store:
        lease = store.acquire_lease("r0", lease_s=60)
        store.commit(lease, commit_of(0))
        store.release_lease(lease)
    beat(log, 10)
    (name,) = log.names("snapshots")
    with closing(sqlite3.connect(log.folder / "snapshots" / name)) as connection:
        assert connection.execute("SELECT count(*) FROM mc_block").fetchone() == (4,)


def test_opening_reads_one_snapshot_and_the_entries_since(log: Log) -> None:
    beat(log, 97)
    files = InterruptedFilesystem()
    reads: list[str] = []
    files.listener = lambda operation, is_before: reads.append(operation) if is_before else None
    with log.store(files) as store:
        assert store.head() is None
    opened = [each for each in reads if each.startswith("open_input")]
    assert len(opened) == 1 + 7 + 1  # the snapshot, the entries since, one that is not there
    assert len(reads) - len(opened) == 3  # listings


def test_a_store_that_was_left_behind_by_sweeping_goes_on_from_the_snapshot(log: Log) -> None:
    with log.store() as behind:
        lease = behind.acquire_lease("r0", lease_s=60)
        with log.store() as ahead:
            for number in range(40):
                ahead.commit(lease, commit_of(number))
        assert published(behind) == list(range(39, -1, -1))
        behind.commit(lease, commit_of(40))
    with log.store() as store:
        assert verify_chain(store).problems == ()
        assert len(published(store)) == 41


def test_a_snapshot_and_a_listing_are_of_one_point_in_time(log: Log) -> None:
    with log.store() as store:
        lease = store.acquire_lease("r0", lease_s=60)
        store.commit(lease, commit_of(0))
        history, listing = store.history(), store.unit_states()
        first = next(listing)
        for number in range(1, 30):
            store.commit(lease, commit_of(number))
        assert first.signature == "[0]"
        assert list(listing) == []
        assert len(history.records("u.{}", 0, NOW)) == 1
        assert len(store.history().records("u.{}", 0, NOW)) == 30


def test_a_damaged_snapshot_is_passed_over_for_the_one_before(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    beat(log, 35)
    newest = log.folder / "snapshots" / log.names("snapshots")[-1]
    newest.write_bytes(newest.read_bytes()[:-4096])
    with log.store() as store:
        assert store.acquire_lease("next", lease_s=60).token == 2
    assert newest.name in caplog.text


def test_without_a_sound_snapshot_the_state_is_not_taken_for_an_empty_one(log: Log) -> None:
    beat(log, 35)
    for name in log.names("snapshots"):
        (log.folder / "snapshots" / name).write_bytes(b"")
    with log.store() as store, pytest.raises(StateError) as caught:
        store.head()
    assert "damaged" in caught.value.message
    assert "Restore" in caught.value.fix


def test_what_a_crashed_writer_left_torn_is_ignored_and_swept_a_day_later(log: Log) -> None:
    beat(log, 2)
    old, new = (log.folder / "journal" / name for name in (".1.json.aa.tmp", ".2.json.bb.tmp"))
    for torn in (old, new):
        torn.write_text('{"format":')
    os.utime(old, (NOW / 1000 - 90_000, NOW / 1000 - 90_000))
    os.utime(new, (NOW / 1000 - 3_600, NOW / 1000 - 3_600))
    beat(log, 25)
    assert not old.exists()
    assert new.exists()


def test_a_snapshot_that_cannot_be_written_stops_no_commit(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    beat(log, 5)
    (log.folder / "snapshots").rmdir()
    (log.folder / "snapshots").write_text("a file")
    with log.store() as store, pytest.raises(StateError):
        store.head()
    (log.folder / "snapshots").unlink()
    (log.folder / "snapshots").mkdir(mode=0o500)
    files = InterruptedFilesystem()

    def refuse(operation: str, is_before: bool) -> None:
        if operation.startswith("put_if_absent") and "snapshots" in operation and is_before:
            raise OSError(28, "No space left on device")

    files.listener = refuse
    with log.store(files) as store:
        lease = store.acquire_lease("r1", lease_s=60)
        for number in range(10):
            store.commit(lease, commit_of(number))
    assert "No space left on device" in caplog.text
    assert log.names("snapshots") == []


def test_a_snapshot_that_the_folder_garbled_is_deleted_and_stops_no_commit(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    """As a mount does that acknowledges writes which it has not carried out."""

    class Garbling(LocalFilesystem):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            return super().put_if_absent(path, data[:100] if "/snapshots/" in path else data)

    with log.store(Garbling()) as store:
        lease = store.acquire_lease("r0", lease_s=60)
        for number in range(10):
            store.commit(lease, commit_of(number))
    assert "it was not read as it was written" in caplog.text
    assert log.names("snapshots") == []
    with log.store() as store:
        assert published(store) == list(range(9, -1, -1))


# Damage


@pytest.fixture
def written(log: Log) -> Log:
    """Six entries without a snapshot."""
    with log.store() as store:
        lease = store.acquire_lease("r0", lease_s=60)
        for number in range(5):
            store.commit(lease, commit_of(number))
    return log


def entry_path(log: Log, number: int) -> Path:
    return log.folder / f"journal/{number:020}.json"


def edited(log: Log, place: int, /, **fields: object) -> None:
    path = entry_path(log, place)
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **fields}))


def refusal(log: Log) -> StateError:
    """Return the error that reading and writing raise alike."""
    with log.store() as store:
        with pytest.raises(StateError) as reading:
            store.head()
        with pytest.raises(StateError) as writing:
            store.acquire_lease("r9", lease_s=60)
    assert reading.value.message == writing.value.message
    assert reading.value.fix
    return reading.value


def test_a_missing_entry_is_named(written: Log) -> None:
    entry_path(written, 3).unlink()
    assert f"{entry_path(written, 3)} is damaged: it is missing" in refusal(written).message


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"{}", b"\xff\xfe", b"1" * 5000,
                                     b"[" * 100_000])  # fmt: skip
def test_a_garbled_entry_is_named(written: Log, content: bytes) -> None:
    entry_path(written, 4).write_bytes(content)
    assert str(entry_path(written, 4)) in refusal(written).message


@pytest.mark.parametrize(
    "fields",
    [
        {"number": 5},
        {"number": "four"},
        {"number": float("inf")},
        {"previous": "f1220"},
        {"previous": None},
        {"changes": [[0, 1, ["orders"]]]},
        {"changes": [[99, 1, []]]},
        {"changes": [[0, 2, ["orders", 1]]]},
        {"changes": [[0, 1, ["orders", 1.5]]]},
        {"changes": [[0, 1, ["orders", {"base64": "!"}]]]},
        {"changes": [[0, 1, ["orders", 2**64]]]},
        {"changes": [[0, 1, ["orders", "\ud800"]]]},
        {"statements": ["UPDATE nothing SET x = 1"], "changes": [[0, 1, []]]},
        {"statements": ["SELECT 1"], "changes": [[0, -1, []]]},
        {"statements": ["DELETE FROM work_unit; DELETE FROM run"], "changes": [[0, 0, []]]},
    ],
)
def test_an_entry_that_was_changed_by_hand_is_named(
    written: Log, fields: dict[str, object]
) -> None:
    edited(written, 4, **fields)
    assert str(entry_path(written, 4)) in refusal(written).message


def test_an_entry_of_an_older_format_behind_a_newer_one_is_named(written: Log) -> None:
    """A release that does not know the newer format added it."""
    edited(written, 6, format=1)
    message = refusal(written).message
    assert str(entry_path(written, 6)) in message
    assert "it is of format 1, behind one of 2" in message


def test_an_entry_that_is_missing_between_two_snapshots_is_found_by_a_check(log: Log) -> None:
    beat(log, 25)
    entry_path(log, 15).unlink()
    with log.store() as store:
        assert verify_chain(store).problems == (f"{entry_path(log, 15)} is missing",)


def test_an_entry_that_differs_from_what_the_next_one_follows_is_found(written: Log) -> None:
    path = entry_path(written, 3)
    path.write_bytes(path.read_bytes().replace(b"/data/1", b"/data/8"))
    assert str(entry_path(written, 4)) in refusal(written).message


def test_an_entry_cannot_reach_beyond_the_rows(written: Log, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    statement = f"ATTACH DATABASE '{other}' AS other"
    edited(written, 6, statements=[statement], changes=[[0, -1, []]])
    assert "is no change of rows" in refusal(written).message
    assert not other.exists()


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO journal_entry WITH RECURSIVE t(n) AS (SELECT 99 UNION ALL SELECT n + 1 FROM t)"
        " SELECT n, 'x' FROM t",
        "DELETE FROM journal_job WHERE (WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT 1 FROM t)"
        " SELECT max(n) FROM t) = 2",
    ],
)
def test_an_entry_without_end_is_ended_and_named(
    written: Log, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.setattr("dil.state.filelog.replica.MOST_STEPS", 1_000_000)
    edited(written, 6, statements=[statement], changes=[[0, 0, []]])
    told = refusal(written).message
    assert str(entry_path(written, 6)) in told
    assert "would run on" in told


@pytest.mark.parametrize(("found", "hint"), [(9, "Upgrade"), (0, "Restore"), (None, "Restore")])
def test_an_entry_of_another_format_is_refused(written: Log, found: int | None, hint: str) -> None:
    edited(written, 6, format=found)
    assert hint in refusal(written).fix


def test_a_snapshot_of_a_newer_format_is_refused(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr("dil.state.databases.tables.FORMAT", 9)
        beat(log, 25)
    error = refusal(log)
    assert "format 9" in error.message
    assert "Upgrade" in error.fix


def test_the_folder_of_another_job_is_refused(written: Log) -> None:
    there = written.directory / folder_name("other")
    shutil.copytree(written.folder, there)
    with open_file_log(str(written.directory), "other", clock=lambda: NOW) as store:
        with pytest.raises(StateError, match='belongs to job "orders", not to "other"'):
            store.head()
        with pytest.raises(StateError, match='belongs to job "orders", not to "other"'):
            store.acquire_lease("r9", lease_s=60)


def test_the_snapshots_of_another_job_are_refused(log: Log) -> None:
    beat(log, 25)
    shutil.copytree(log.folder, log.directory / folder_name("other"))
    with (
        open_file_log(str(log.directory), "other", clock=lambda: NOW) as store,
        pytest.raises(StateError, match='belongs to job "orders", not to "other"'),
    ):
        store.head()


def test_files_of_others_in_the_folder_are_left_alone(written: Log) -> None:
    for name in ("journal/notes.txt", "journal/1.json", "snapshots/copy.db", "README"):
        (written.folder / name).write_text("mine")
    with written.store() as store:
        assert verify_chain(store).is_sound
        store.release_lease(Lease(JOB, 1, this_process("r0", 0)))
    beat(written, 30)
    names = ("journal/notes.txt", "journal/1.json", "snapshots/copy.db", "README")
    assert [(written.folder / name).read_text() for name in names] == ["mine"] * 4


def test_a_state_folder_that_is_a_file_is_an_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    error = refusal(Log(tmp_path / "state"))
    assert str(tmp_path / "state") in error.message


def test_a_state_folder_that_cannot_be_entered_is_not_said_to_be_written(tmp_path: Path) -> None:
    # A name that is too long fails for every user, as another user's private folder does for most.
    spec = StateSpec("filelog", str(tmp_path / ("x" * 300)))
    with open_store(spec, JOB, clock=lambda: NOW) as store, pytest.raises(StateError) as caught:
        store.head()
    assert "cannot be read" in caught.value.message


def test_a_commit_of_many_work_units_is_one_entry_that_a_snapshot_soon_replaces(log: Log) -> None:
    with log.store() as store:
        lease = store.acquire_lease("r0", lease_s=60)
        store.commit(lease, replace(commit_of(0), run=RunWork(outcomes(0, 10_000))))
    assert len(log.names("journal")) == 2
    assert [int(name[:20]) for name in log.names("snapshots")] == [2]
    with log.store() as store:
        assert sum(1 for _ in store.unit_states()) == 10_000
        assert verify_chain(store).problems == ()
