"""What is particular to SQLite: the file, its format, its locks, and what its queries cost."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dil.errors import CommitConflictError, StateError
from dil.model.dataset import Commit, Intent, Lease, Move, PublishedFile, RunWork, WorkUnitOutcome
from dil.model.job import StateSpec
from dil.spi.state_store import StateStore
from dil.state import open_store
from dil.state.blocks.verification import verify_chain
from dil.state.databases import sql, sqlite_database
from dil.state.databases.database import Row, SqlValue, Transaction
from dil.state.databases.sqlite_database import SqliteDatabase
from dil.state.runs.intent_codec import encode_intent
from dil.state.runs.processes import this_process
from dil.state.store.sql_store import SqlStateStore

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[2] / "golden/state/store-v1.sql"
NOW = 1_735_689_600_000
HOUR = 3_600_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def store(folder: Path) -> Iterator[StateStore]:
    with open_store(StateSpec("sqlite", str(folder)), "orders", clock=lambda: NOW) as opened:
        yield opened


def outcomes(first: int, count: int, unit: str = "u.{}") -> tuple[WorkUnitOutcome, ...]:
    return tuple(
        WorkUnitOutcome(f"[{unit} {hour}]", unit, hour * HOUR, (hour + 1) * HOUR,
                        (hour + 1) * HOUR, 1)
        for hour in range(first, first + count)
    )  # fmt: skip


def commit_of(run: str, *found: WorkUnitOutcome) -> Commit:
    target = PublishedFile(f"file:///data/{run}", f"[{run}]", 5, 50, "ab" * 32, run)
    moves = (Move(f"file:///staged/{run}", target),)
    return Commit(run, "c", "dil/orders", moves, (), "s", NOW, NOW, RunWork(found))


def damage(folder: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / "state.db")) as connection, connection:
        assert connection.execute(statement, values).rowcount > 0


def test_the_file_is_written_ahead_and_read_back_by_a_plain_client(
    store: StateStore, folder: Path
) -> None:
    store.commit(store.acquire_lease("r1", lease_s=60), commit_of("r1", *outcomes(0, 3)))
    store.close()
    with closing(sqlite3.connect(folder / "state.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("SELECT format FROM state_format").fetchall() == [(2,)]
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_large_intents_and_blocks_are_written_in_place_and_read_back(
    store: StateStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r0", *outcomes(0, 300)))
    monkeypatch.setattr(sqlite_database, "LARGE_BYTES", 1)
    intent = Intent(commit_of("r1", *outcomes(300, 300, "u.é")), lease.token, "/data", 1)
    store.record_intent(lease, intent)
    store.record_intent(lease, intent)  # again, and nothing changes
    with closing(sqlite3.connect(folder / "state.db")) as connection:
        ((kept, kind),) = connection.execute("SELECT payload, typeof(payload) FROM intent")
        assert (kept.decode(), kind) == (encode_intent(intent), "blob")
    with open_store(StateSpec("sqlite", str(folder)), "orders", clock=lambda: NOW) as other:
        assert other.pending_intent() == intent
        with pytest.raises(StateError, match="began to publish"):
            other.record_intent(lease, Intent(commit_of("r2"), lease.token, "/data", 2))
    assert store.commit(lease, intent.commit) is not None
    assert verify_chain(store).problems == ()
    assert len(list(store.unit_states())) == 600


def test_commits_wait_for_the_disk(folder: Path) -> None:
    database = SqliteDatabase(folder / "state.db")
    with database.write() as tx:
        assert tx.row("PRAGMA synchronous") == (2,)
    database.close()


def test_the_folders_of_a_new_store_are_durable_before_its_first_commit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(sqlite_database, "_sync", synced.append)

    with closing(SqliteDatabase(folder / "deep/state.db")) as database, database.write():
        assert set(synced) == {folder.parent, folder}


def test_the_copy_of_an_older_store_is_durable_before_the_store_is_upgraded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "state.db"
    folder.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(GOLDEN.read_text())
    synced: list[tuple[str, bool]] = []
    copy = path.with_suffix(".format-1.db")
    monkeypatch.setattr(
        sqlite_database, "_sync", lambda place: synced.append((place.name, copy.exists()))
    )

    with (
        closing(SqliteDatabase(path)) as database,
        database.upgrade(lambda *_: None),
    ):
        assert synced == [(copy.with_suffix(".tmp").name, False), (folder.name, True)]


def test_a_store_of_a_newer_format_is_refused_for_reading_and_writing(folder: Path) -> None:
    spec = StateSpec("sqlite", str(folder))
    with open_store(spec, "orders", clock=lambda: NOW) as store:
        store.acquire_lease("r1", lease_s=60)
    damage(folder, "UPDATE state_format SET format = 9")
    with open_store(spec, "orders", clock=lambda: NOW) as store:
        for act in (store.head, store.history, lambda: store.acquire_lease("r2", lease_s=1)):
            with pytest.raises(StateError, match="format 9, this dil reads format 2"):
                act()
        with pytest.raises(StateError, match="format 9"):
            next(store.blocks())


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("UPDATE state_format SET format = 9", "Upgrade"),
        ("UPDATE state_format SET format = 0", "move the file away"),
        ("DELETE FROM state_format", "move the file away"),
        ("ALTER TABLE mc_block RENAME COLUMN payload TO content", "move the file away"),
        ("DROP TABLE mc_block", "move the file away"),
    ],
)
def test_a_store_of_another_layout_is_refused_with_what_to_do(
    folder: Path, statement: str, hint: str
) -> None:
    spec = StateSpec("sqlite", str(folder))
    with open_store(spec, "orders", clock=lambda: NOW) as store:
        store.acquire_lease("r1", lease_s=60)
    with closing(sqlite3.connect(folder / "state.db")) as connection, connection:
        connection.execute(statement)
    reopened = open_store(spec, "orders", clock=lambda: NOW)
    with reopened, pytest.raises(StateError) as caught:
        reopened.head()
    assert hint in caught.value.fix


def test_a_file_that_is_something_else_is_refused_and_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / "state.db").write_bytes(b"not a database at all" * 100)
    with open_store(StateSpec("sqlite", str(folder)), "orders", clock=lambda: NOW) as store:
        with pytest.raises(StateError):
            store.head()
        with pytest.raises(StateError):
            store.acquire_lease("r1", lease_s=60)
    assert (folder / "state.db").read_bytes().startswith(b"not a database")


def test_a_database_of_another_program_is_refused(folder: Path) -> None:
    folder.mkdir()
    with closing(sqlite3.connect(folder / "state.db")) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = (folder / "state.db").read_bytes()
    with open_store(StateSpec("sqlite", str(folder)), "orders", clock=lambda: NOW) as store:
        with pytest.raises(StateError, match="not a state store"):
            store.head()
        with pytest.raises(StateError, match="not a state store"):
            store.acquire_lease("r1", lease_s=60)
    assert (folder / "state.db").read_bytes() == before


def test_a_file_that_cannot_be_opened_is_refused_with_the_property_of_its_folder(
    folder: Path,
) -> None:
    (folder / "state.db").mkdir(parents=True)
    spec = StateSpec("sqlite", str(folder))
    with (
        open_store(spec, "orders", clock=lambda: NOW) as store,
        pytest.raises(StateError, match="unable to open") as caught,
    ):
        store.acquire_lease("r1", lease_s=60)
    assert "state.store.dir" in caught.value.fix


def test_a_folder_that_cannot_be_entered_is_refused_with_its_property(tmp_path: Path) -> None:
    # A name that is too long fails for every user, as another user's private folder does for most.
    spec = StateSpec("sqlite", str(tmp_path / ("x" * 300)))
    with open_store(spec, "orders", clock=lambda: NOW) as store:
        for look in (store.head, store.history, lambda: list(store.blocks())):
            with pytest.raises(StateError) as caught:
                look()
            assert "state.store.dir" in caught.value.fix


def test_an_empty_file_that_a_crash_left_is_an_empty_store(folder: Path) -> None:
    folder.mkdir()
    (folder / "state.db").touch()
    with open_store(StateSpec("sqlite", str(folder)), "orders", clock=lambda: NOW) as store:
        assert store.head() is None
        assert store.history().is_empty()
        assert store.acquire_lease("r1", lease_s=60).token == 1


def test_a_store_written_by_the_first_format_is_read_and_continued(folder: Path) -> None:
    folder.mkdir()
    with closing(sqlite3.connect(folder / "state.db")) as connection:
        connection.executescript(GOLDEN.read_text(encoding="utf-8"))
    with open_store(StateSpec("sqlite", str(folder)), "orders", clock=lambda: NOW) as store:
        assert verify_chain(store).problems == ()
        head = store.head()
        assert head is not None
        assert head["hash"] == (
            "f1220b5c97e14c85626a4e9cbdd6f0192087cacd2a2a570e8aa6ba004b0360b880574"
        )
        lease = store.acquire_lease("next", lease_s=60)
        assert lease.token == 2
        store.commit(lease, commit_of("next", *outcomes(9, 2)))
        assert verify_chain(store).problems == ()


def test_heartbeats_from_another_thread_pass_between_commits(store: StateStore) -> None:
    lease = store.acquire_lease("r0", lease_s=60)
    over = threading.Event()
    failures: list[BaseException] = []

    def beat() -> None:
        try:
            while not over.is_set():
                store.heartbeat(lease)
        except BaseException as error:  # noqa: BLE001 - seen by the assertion below
            failures.append(error)

    thread = threading.Thread(target=beat)
    thread.start()
    for number in range(20):
        store.commit(lease, commit_of(f"r{number}", *outcomes(number, 1)))
        assert store.head() is not None
    over.set()
    thread.join()
    assert failures == []
    assert verify_chain(store).problems == ()


def test_a_listing_in_progress_blocks_no_commit_and_sees_one_point_in_time(
    store: StateStore,
) -> None:
    lease = store.acquire_lease("r1", lease_s=60)
    store.commit(lease, commit_of("r1", *outcomes(0, 500)))
    listing = store.unit_states()
    next(listing)
    store.commit(lease, commit_of("r2", *outcomes(500, 500)))
    assert sum(1 for _ in listing) == 499
    assert sum(1 for _ in store.unit_states()) == 1000


def test_a_writer_in_another_process_is_waited_for_and_then_named(
    store: StateStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.acquire_lease("r1", lease_s=60)
    store.close()
    monkeypatch.setattr("dil.state.databases.sqlite_database.BUSY_S", 0.05)
    with closing(sqlite3.connect(folder / "state.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StateError) as caught:
            store.acquire_lease("r2", lease_s=60)
    assert "locked" in caught.value.message
    assert "run the job again" in caught.value.fix


def test_two_that_create_a_store_at_once_wait_for_each_other(
    store: StateStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite itself does not wait where it changes the journal of a file."""
    monkeypatch.setattr("dil.state.databases.sqlite_database.BUSY_S", 0.2)
    folder.mkdir()
    with closing(sqlite3.connect(folder / "state.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StateError, match="locked") as caught:
            store.acquire_lease("r1", lease_s=60)
        assert "run the job again" in caught.value.fix
    assert store.acquire_lease("r1", lease_s=60).token == 1


def test_a_failed_transaction_leaves_nothing(folder: Path) -> None:
    database = SqliteDatabase(folder / "state.db")
    insert = "INSERT INTO committed_run (dataset_id, run_id, seq) VALUES (?, ?, ?)"
    with database.write() as tx:
        tx.change(insert, "orders", "r1", 1)

    def insert_both() -> None:
        with database.write() as tx:
            tx.change(insert, "orders", "r2", 2)
            tx.change(insert, "orders", "r1", 3)

    with pytest.raises(CommitConflictError):
        insert_both()
    with database.read() as tx:
        assert tx.rows("SELECT run_id FROM committed_run") == [("r1",)]
    database.close()


def test_the_head_moves_only_from_where_the_writer_saw_it(folder: Path) -> None:
    database = SqliteDatabase(folder / "state.db")
    with database.write() as tx:
        tx.change(sql.FIRST_HEAD, "orders", "h1", 0, None, None, None)
        assert tx.change(sql.MOVE_HEAD, "h2", 1, None, None, None, "orders", "h0") == 0
        assert tx.change(sql.MOVE_HEAD, "h2", 1, None, None, None, "orders", "h1") == 1
    with pytest.raises(CommitConflictError), database.write() as tx:
        tx.change(sql.FIRST_HEAD, "orders", "h9", 0, None, None, None)
    database.close()


QUERIES = sorted(
    name
    for name, text in vars(sql).items()
    if name.isupper() and isinstance(text, str) and text.startswith(("SELECT", "UPDATE", "DELETE"))
)


@pytest.mark.parametrize("name", QUERIES)
def test_no_query_scans_a_table(folder: Path, name: str) -> None:
    database = SqliteDatabase(folder / "state.db")
    statement: str = getattr(sql, name)
    with database.write() as tx:
        steps = tx.rows(f"EXPLAIN QUERY PLAN {statement}", *[1] * statement.count("?"))
    database.close()
    scans = [step[3] for step in steps if step[3].startswith("SCAN")]
    # One row, and what is asked once in the life of a store.
    allowed = {
        "READ_FORMAT": ["SCAN state_format"],
        "CHANGE_FORMAT": ["SCAN state_format"],
        "LEASES_OF_OTHERS": ["SCAN lease USING INDEX sqlite_autoindex_lease_1"],
    }
    assert scans == allowed.get(name, [])


@pytest.mark.parametrize(
    "name", ["BLOCKS", "RECORDS", "OPEN_RECORDS", "LOWEST_OPEN", "ROW_BEFORE", "STAGED_RUNS"]
)
def test_ordered_queries_read_an_index_and_do_not_sort_everything(folder: Path, name: str) -> None:
    database = SqliteDatabase(folder / "state.db")
    statement: str = getattr(sql, name)
    with database.write() as tx:
        steps = tx.rows(f"EXPLAIN QUERY PLAN {statement}", *[1] * statement.count("?"))
    database.close()
    assert not [step[3] for step in steps if "FOR ORDER BY" in step[3]]


class CountingDatabase(SqliteDatabase):
    """Counts the statements of the transactions that write."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.statements = 0

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        with super().write() as tx:
            yield CountingTransaction(tx, self)


class CountingTransaction(Transaction):
    def __init__(self, tx: Transaction, database: CountingDatabase) -> None:
        self.tx = tx
        self.database = database

    def change(self, statement: str, *values: SqlValue) -> int:
        self.database.statements += 1
        return self.tx.change(statement, *values)

    def rows(self, statement: str, *values: SqlValue) -> list[Row]:
        self.database.statements += 1
        return self.tx.rows(statement, *values)


class Costs:
    """A store that tells how many statements a commit takes."""

    def __init__(self, folder: Path) -> None:
        self.database = CountingDatabase(folder / "state.db")
        self.store = SqlStateStore(self.database, "orders", clock=lambda: NOW)
        self.lease = self.store.acquire_lease("r0", lease_s=60)

    def of_commit(self, run: str, found: tuple[WorkUnitOutcome, ...]) -> int:
        before = self.database.statements
        assert self.store.commit(self.lease, commit_of(run, *found)) is not None
        return self.database.statements - before


@pytest.fixture
def costs(folder: Path) -> Iterator[Costs]:
    costs = Costs(folder)
    with costs.store:
        yield costs


def test_a_commit_costs_the_same_whatever_the_number_of_units(costs: Costs) -> None:
    costs.of_commit("r0", outcomes(0, 5))
    few = costs.of_commit("r1", outcomes(5, 1))
    costs.of_commit("r2", outcomes(6, 3000))
    many = costs.of_commit("r3", outcomes(3006, 1))
    again = costs.of_commit("r4", outcomes(1500, 1))
    assert few == many
    assert again <= many


def test_a_commit_costs_the_same_whatever_the_length_of_the_chain(costs: Costs) -> None:
    costs.of_commit("r0", outcomes(0, 5))
    short = costs.of_commit("r1", outcomes(2, 1))
    for number in range(150):
        costs.of_commit(f"again{number}", outcomes(2, 1))
    assert costs.of_commit("r2", outcomes(2, 1)) == short


def test_a_block_is_bounded_by_the_change_and_not_by_the_number_of_units(
    store: StateStore,
) -> None:
    lease = store.acquire_lease("r0", lease_s=60)
    store.commit(lease, commit_of("r0", *outcomes(0, 2000)))
    assert store.commit(lease, commit_of("r1", *outcomes(2000, 1))) is not None
    assert len(str(store.head())) < 2500


# Damage


@pytest.fixture
def written(store: StateStore, folder: Path) -> Path:
    lease = store.acquire_lease("r0", lease_s=60)
    for number in range(3):
        store.commit(lease, commit_of(f"r{number}", *outcomes(number, 1)))
    assert verify_chain(store).is_sound
    assert verify_chain(store).blocks == 6
    return folder


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("UPDATE mc_block SET payload = replace(payload, 'r1', 'rX') WHERE seq = 4", "V06"),
        ("UPDATE mc_block SET payload = '{}' WHERE seq = 4", "V06"),
        ("UPDATE mc_block SET payload = 'no JSON' WHERE seq = 4", "V06"),
        ("UPDATE mc_block SET payload = '[]' WHERE seq = 4", "V06"),
        ("UPDATE mc_block SET block_hash = 'f1220' || hex(zeroblob(32)) WHERE seq = 4", "V06"),
        ("DELETE FROM mc_block WHERE seq = 4", "V03"),
        ("DELETE FROM mc_block WHERE seq = 0", "V01"),
        ("UPDATE mc_head SET seq = 4", "V03"),
        ("UPDATE work_unit SET attempts = 9 WHERE low = 0", "V22"),
        ("UPDATE work_unit SET high = high + 1 WHERE low = 0", "V22"),
        ("DELETE FROM work_unit WHERE low = 0", "V22"),
    ],
)
def test_verification_names_what_was_changed_by_hand(
    written: Path, store: StateStore, statement: str, code: str
) -> None:
    damage(written, statement)
    problems = verify_chain(store).problems
    assert problems
    assert code in {problem[:3] for problem in problems}


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE mc_block SET payload = replace(payload, 'r2', 'rX') WHERE seq = 5", "V06: "),
        ("DELETE FROM mc_block WHERE seq = 5", "V04: block 5 .* is missing"),
        ("DELETE FROM mc_block WHERE seq = 0", "V04: block 0 .* is missing"),
        ("UPDATE mc_head SET seq = 4", "V03: the head "),
        ("UPDATE mc_head SET data_seq = 3", "block 5"),
        ("UPDATE mc_head SET config_seq = 5", "block 5"),
        ("UPDATE mc_head SET schema_seq = 3", "block 3"),
    ],
)
def test_a_commit_on_a_damaged_chain_is_refused(
    written: Path, store: StateStore, statement: str, words: str
) -> None:
    damage(written, statement)
    with pytest.raises(StateError, match=words) as caught:
        store.commit(Lease("orders", 1, this_process("r0", 0)), commit_of("r9", *outcomes(9, 1)))
    assert caught.value.fix


def test_files_are_compared_with_what_was_published(written: Path, store: StateStore) -> None:
    sizes = {"file:///data/r0": 50, "file:///data/r1": 49}
    report = verify_chain(store, size_of=sizes.get)
    assert [problem[:3] for problem in report.problems] == ["V20", "V20"]
    assert "r1 has 49 bytes, 50 were published" in report.problems[0]
    assert "r2 is gone" in report.problems[1]


def test_a_commit_during_the_check_is_no_problem(written: Path, store: StateStore) -> None:
    del written
    lease = Lease("orders", 1, this_process("r0", 0))
    files = {f"file:///data/r{number}": 50 for number in range(3)}

    def size_of(uri: str) -> int | None:
        """Find a file whose dataset another run is just adding to."""
        if "file:///data/r8" not in files:
            files["file:///data/r8"] = 50
            store.commit(lease, commit_of("r8", *outcomes(8, 1)))
        return files.get(uri)

    report = verify_chain(store, size_of=size_of)
    assert report.problems == ()
    assert (report.blocks, report.files) == (7, 4)


def test_a_check_ends_while_runs_commit_all_the_time(written: Path, store: StateStore) -> None:
    del written
    lease = Lease("orders", 1, this_process("r0", 0))
    commits = 0

    def size_of(uri: str) -> int:
        """Commit once in each reading, when it comes to the first file."""
        nonlocal commits
        if uri == "file:///data/r0":
            commits += 1
            store.commit(lease, commit_of(f"more{commits}", *outcomes(8 + commits, 1)))
        return 50

    report = verify_chain(store, size_of=size_of)
    assert report.problems == ()
    assert report.blocks == 6 + commits - 1
