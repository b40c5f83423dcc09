"""A file log under crashes and failures at every file operation, and under racing writers."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from dil.errors import CommitConflictError, CommitUnknownError, DilError, StateError, WriteError
from dil.model.dataset import Intent, Lease
from dil.spi.state_store import StateStore
from dil.state.blocks.verification import verify_chain
from dil.state.databases import sql
from dil.storage import LocalFilesystem
from tests.unit.state.file_logs import (
    JOB,
    Crashed,
    InterruptedFilesystem,
    Log,
    block_files,
    commit_of,
    payloads,
    published,
    quick_folder,
)

pytestmark = pytest.mark.slow

COMMITS = 3


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with quick_folder() as folder:
        yield folder


def publish(store: StateStore, lease: Lease, number: int) -> None:
    commit = commit_of(number)
    store.record_intent(lease, Intent(commit, lease.token, "/data", number))
    store.commit(lease, commit)


def require_sound(log: Log, least: list[int]) -> None:
    """Check what is there, recover as a run does, commit once more, and check everything."""
    with log.store() as store:
        assert verify_chain(store).problems == ()
        lease = store.acquire_lease("next", lease_s=0)
        intent = store.pending_intent()
        if intent is not None:
            store.commit(lease, intent.commit)
        store.commit(lease, commit_of(COMMITS))
        assert verify_chain(store).problems == ()
        numbers = published(store)
        assert set(least) <= set(numbers) <= {*range(COMMITS), COMMITS}
        assert len(numbers) == len(set(numbers))
    assert block_files(log) == payloads(log)


def is_writing(operation: str) -> bool:
    return operation.startswith(("put", "sync", "make", "delete"))


def crash_at(wanted: int) -> Callable[[str, bool], None]:
    """Return a listener that lets everything fail from the n-th write on."""
    moments = itertools.count()

    def listener(operation: str, is_before: bool) -> None:
        # Between two writes nothing changes, so all states of the disk are met.
        if is_before and is_writing(operation) and next(moments) >= wanted:
            raise Crashed(operation)

    return listener


def test_a_crash_at_any_file_operation_loses_nothing_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    for wanted in itertools.count():
        log = Log(tmp_path / str(wanted), entries_per_snapshot=2)
        files = InterruptedFilesystem()
        files.listener = crash_at(wanted)
        done: list[int] = []
        try:
            with log.store(files) as store:
                lease = store.acquire_lease("r", lease_s=0)
                for number in range(COMMITS):
                    publish(store, lease, number)
                    done.append(number)
        except Crashed:
            require_sound(log, done)
        else:
            break
    assert wanted > 40
    assert done == list(range(COMMITS))
    assert log.names("snapshots")


@pytest.mark.parametrize("before", [True, False])
def test_a_write_that_fails_at_any_point_is_retried_without_doubling(
    tmp_path: Path, before: bool
) -> None:
    """Each write fails once, before or after it took place; the caller tries again."""
    for wanted in itertools.count():
        log = Log(tmp_path / str(wanted), entries_per_snapshot=2)
        files = InterruptedFilesystem()
        moments = itertools.count()

        def fail(
            operation: str, is_before: bool, wanted: int = wanted, moments: object = moments
        ) -> None:
            if is_writing(operation) and is_before == before and next(moments) == wanted:
                raise WriteError("the disk is full")

        files.listener = fail
        with log.store(files) as store:
            lease = retried(partial(store.acquire_lease, "r", lease_s=0))
            for number in range(COMMITS):
                retried(partial(publish, store, lease, number))
            assert published(store) == list(range(COMMITS - 1, -1, -1))
        require_sound(log, list(range(COMMITS)))
        if next(moments) <= wanted:
            break
    assert wanted > 40


def retried(act: Callable[[], Lease | None]) -> Lease | None:
    try:
        return act()
    except (StateError, CommitUnknownError):
        return act()


def test_a_snapshot_that_comes_when_its_entries_were_swept_is_no_damage(tmp_path: Path) -> None:
    """A writer that slept before it wrote a snapshot, and was killed before it swept."""
    log = Log(tmp_path, entries_per_snapshot=10)
    with log.store() as store:
        lease = store.acquire_lease("r", lease_s=60)
        for number in range(10):
            store.commit(lease, commit_of(number))
        (oldest,) = log.names("snapshots")
        content = (log.folder / "snapshots" / oldest).read_bytes()
        for _ in range(25):
            store.heartbeat(lease)
        (log.folder / "snapshots" / oldest).write_bytes(content)
        assert len(log.names("snapshots")) == 3
        assert verify_chain(store).problems == ()


# Racing writers


def at_put_of_entries(files: InterruptedFilesystem, act: Callable[[], object]) -> None:
    """Let ``act`` happen once, right before the next entry is created."""

    def listener(operation: str, is_before: bool) -> None:
        if is_before and operation.startswith("put_if_absent") and "/journal/" in operation:
            files.listener = lambda operation, is_before: None
            act()

    files.listener = listener


@pytest.mark.parametrize("entries", [1, 2, 25, 100])
def test_a_writer_that_was_overtaken_follows_when_nothing_it_saw_has_changed(
    tmp_path: Path, entries: int
) -> None:
    """More than ten entries: its number was swept below a snapshot, and is free again."""
    log = Log(tmp_path, entries_per_snapshot=10)
    files = InterruptedFilesystem()
    with log.store() as other, log.store(files) as store:
        lease = store.acquire_lease("r", lease_s=60)
        at_put_of_entries(files, lambda: [other.heartbeat(lease) for _ in range(entries)])
        store.commit(lease, commit_of(0))
        assert published(other) == published(store) == [0]
        other.commit(lease, commit_of(1))
        assert published(store) == [1, 0]
        assert verify_chain(other).problems == ()
    assert block_files(log) == payloads(log)


@pytest.mark.parametrize("entries", [1, 25, 100])
def test_a_writer_that_was_overtaken_by_another_commit_records_nothing(
    tmp_path: Path, entries: int
) -> None:
    log = Log(tmp_path, entries_per_snapshot=10)
    files = InterruptedFilesystem()
    with log.store() as other, log.store(files) as store:
        lease = store.acquire_lease("r", lease_s=60)

        def overtake() -> None:
            other.commit(lease, commit_of(0))
            for _ in range(entries - 1):
                other.heartbeat(lease)

        at_put_of_entries(files, overtake)
        with pytest.raises(CommitConflictError):
            store.commit(lease, commit_of(1))
        assert published(store) == [0]
        store.commit(lease, commit_of(1))
        assert published(other) == [1, 0]
        assert verify_chain(other).problems == ()


def test_a_check_finds_no_damage_in_a_log_that_a_run_sweeps_meanwhile(
    tmp_path: Path,
) -> None:
    """A heartbeat moves no head, so that the chain's own check sees no reason to read again."""
    log = Log(tmp_path, entries_per_snapshot=10)
    files = InterruptedFilesystem()
    with log.store() as other, log.store(files) as store:
        lease = other.acquire_lease("r", lease_s=60)
        for number in range(24):
            other.commit(lease, commit_of(number))
        assert store.head() == other.head()
        older, _ = log.names("snapshots")
        reads = itertools.count()

        def sweep(operation: str, is_before: bool) -> None:
            if is_before and operation.endswith(older) and next(reads) == 0:
                for _ in range(25):
                    other.heartbeat(lease)

        files.listener = sweep
        assert verify_chain(store).problems == ()
        assert next(reads) > 0, "nothing was swept during the check"
        assert older not in log.names("snapshots")


def test_a_write_that_failed_while_another_writer_took_its_number_is_tried_again(
    tmp_path: Path,
) -> None:
    log = Log(tmp_path)
    files = InterruptedFilesystem()
    with log.store() as other, log.store(files) as store:
        lease = store.acquire_lease("r", lease_s=60)

        def overtake() -> None:
            other.heartbeat(lease)
            raise WriteError("connection lost")

        at_put_of_entries(files, overtake)
        store.commit(lease, commit_of(0))
        assert published(other) == [0]
        assert verify_chain(other).problems == ()
    assert len(log.names("journal")) == 3


def test_a_writer_that_others_always_overtake_gives_up_and_records_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dil.state.filelog.file_log._RACES", 3)
    log = Log(tmp_path)
    files = InterruptedFilesystem()
    with log.store() as other, log.store(files) as store:
        lease = store.acquire_lease("r", lease_s=60)

        def overtake(operation: str, is_before: bool) -> None:
            if is_before and operation.startswith("put_if_absent") and "/journal/" in operation:
                other.heartbeat(lease)

        files.listener = overtake
        with pytest.raises(CommitConflictError, match="another writer changed") as caught:
            store.commit(lease, commit_of(0))
        assert caught.value.fix == "Nothing of this run was recorded; run the job again."
        assert published(other) == []


def test_an_entry_of_a_writer_that_slept_for_too_long_to_tell_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dil.state.filelog.replica._REMEMBERED", 20)
    log = Log(tmp_path, entries_per_snapshot=10)
    files = InterruptedFilesystem()
    with closing(log.database()) as other, closing(log.database(files)) as database:
        with database.write() as tx:
            tx.change(sql.ADD_SHAPE, "daily", 0, 0, JOB)

        def overtake() -> None:
            for number in range(50):
                with other.write() as tx:
                    tx.change(sql.CHANGE_SHAPE, "daily", 0, number, JOB)

        at_put_of_entries(files, overtake)
        with pytest.raises(CommitUnknownError), database.write() as tx:
            tx.change(sql.ADD_COMMITTED, JOB, "r1", 1)
        with other.read() as tx:
            assert tx.rows("SELECT * FROM committed_run") == []


def test_of_two_that_take_a_free_lease_at_once_one_gets_it(tmp_path: Path) -> None:
    log = Log(tmp_path)
    files = InterruptedFilesystem()
    with log.store() as other, log.store(files) as store:
        taken: list[Lease] = []
        at_put_of_entries(files, lambda: taken.append(other.acquire_lease("r1", lease_s=60)))
        with pytest.raises(DilError):
            store.acquire_lease("r2", lease_s=60)
        (lease,) = taken
        other.heartbeat(lease)


def test_an_entry_whose_reply_was_lost_counts(tmp_path: Path) -> None:
    """As on NFS: the server did it, the repeated request finds the name taken."""

    class Forgetful(InterruptedFilesystem):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            return super().put_if_absent(path, data) and "/journal/" not in path

    log = Log(tmp_path)
    with log.store(Forgetful()) as store:
        lease = store.acquire_lease("r", lease_s=60)
        for number in range(3):
            store.commit(lease, commit_of(number))
        assert published(store) == [2, 1, 0]
    assert len(log.names("journal")) == 4


def test_an_entry_that_landed_though_its_write_failed_is_made_durable(tmp_path: Path) -> None:
    synced: list[str] = []

    class Failing(LocalFilesystem):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            super().put_if_absent(path, data)
            synced.clear()
            raise WriteError("the folder cannot be synced")

        def sync_folders(self, paths: Iterable[str]) -> None:
            synced.extend(paths)

    log = Log(tmp_path)
    with log.store(Failing()) as store:
        store.acquire_lease("r", lease_s=60)
    assert synced == [str(log.folder / "journal")]


def test_folders_that_another_writer_has_just_made_are_durable_before_an_entry(
    tmp_path: Path,
) -> None:
    log, synced = Log(tmp_path), set[str]()
    for name in ("journal", "snapshots", "_chain/blocks"):
        (log.folder / name).mkdir(parents=True)

    class Listening(LocalFilesystem):
        def sync_folders(self, paths: Iterable[str]) -> None:
            synced.update(found := list(paths))
            super().sync_folders(found)

        def put_if_absent(self, path: str, data: bytes) -> bool:
            assert synced >= {str(log.directory), str(log.folder), str(log.folder / "_chain")}
            return super().put_if_absent(path, data)

    with log.store(Listening()) as store:
        store.acquire_lease("r", lease_s=60)
    assert log.names("journal") != []


def test_sweeping_leaves_no_snapshot_without_the_entries_after_it(tmp_path: Path) -> None:
    log, files = Log(tmp_path, entries_per_snapshot=2), InterruptedFilesystem()
    deleted: list[str] = []

    def require_entries(operation: str, is_before: bool) -> None:
        if operation.startswith("delete_file") and not is_before:
            deleted.append(operation)
            entries = {int(name[:20]) for name in log.names("journal")}
            for name in log.names("snapshots"):
                assert entries.issuperset(range(int(name[:20]) + 1, max(entries) + 1))

    files.listener = require_entries
    with log.store(files) as store:
        lease = store.acquire_lease("r", lease_s=60)
        for _ in range(8):
            store.heartbeat(lease)
    assert {operation.rpartition(".")[2] for operation in deleted} == {"json", "db"}


def test_an_entry_that_can_neither_be_written_nor_looked_for_is_unknown(tmp_path: Path) -> None:
    log = Log(tmp_path)
    files = InterruptedFilesystem()

    def unplugged(operation: str, is_before: bool) -> None:
        raise OSError(5, "Input/output error")

    with log.store(files) as store:
        lease = store.acquire_lease("r", lease_s=60)

        def cut_off(operation: str, is_before: bool) -> None:
            if operation.startswith("put_if_absent") and not is_before:
                files.listener = unplugged
                raise WriteError("connection lost")

        files.listener = cut_off
        with pytest.raises(CommitUnknownError) as caught:
            store.commit(lease, commit_of(0))
        assert "connection lost" in caught.value.message
        files.listener = lambda operation, is_before: None
        assert published(store) == [0]
        assert store.commit(lease, commit_of(0)) == store.head()["sequenceNumber"]
        assert published(store) == [0]


def test_a_full_disk_is_told_as_one_and_nothing_landed(tmp_path: Path) -> None:
    log = Log(tmp_path)
    files = InterruptedFilesystem()
    with log.store(files) as store:
        lease = store.acquire_lease("r", lease_s=60)

        def full(operation: str, is_before: bool) -> None:
            if operation.startswith("put_if_absent") and is_before:
                raise WriteError("no space left", "Make room, then run again.")

        files.listener = full
        with pytest.raises(StateError) as caught:
            store.commit(lease, commit_of(0))
        assert "no space left" in caught.value.message
        assert caught.value.fix == "Make room, then run again."
        files.listener = lambda operation, is_before: None
        assert published(store) == []


def test_threads_and_stores_that_commit_at_once_lose_no_block(tmp_path: Path) -> None:
    log = Log(tmp_path, entries_per_snapshot=10)
    with log.store() as first:
        lease = first.acquire_lease("r", lease_s=60)
    stores = [log.store() for _ in range(3)]

    def commit(number: int) -> None:
        store = stores[number % 3]
        for _ in range(100):
            try:
                store.commit(lease, commit_of(number))
            except CommitConflictError:
                continue
            return
        raise AssertionError("never got through")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(commit, range(30)))
    for store in stores:
        assert sorted(published(store)) == list(range(30))
        assert verify_chain(store).problems == ()
        store.close()
    assert block_files(log) == payloads(log)
