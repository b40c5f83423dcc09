"""Rotation of tables that others write into: no row lost, none twice, none hidden for a moment."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Self

import pymysql
import pytest

from dil.errors import WriteError
from dil.model.destination import WarehouseSpec
from dil.model.job import PublishingSpec
from dil.model.secret import SecretUrl
from dil.model.timelabels import TimelabelSpec
from dil.publishing.timeseries.access import TimeseriesAccess, open_access
from dil.publishing.timeseries.registry import LabelState
from dil.publishing.timeseries.rotation import Rotation
from dil.publishing.warehouse import duckdb, mysql, postgresql, sqlite
from dil.storage import LocalFilesystem
from tests.marks import some_long
from tests.timeseries import tables
from tests.warehouses import ENGINES, Warehouse, new_warehouse

LABELS = [f"2018030508{minute:02}00" for minute in range(0, 60, 5)]
CONNECTIONS = {"postgresql": postgresql, "mysql": mysql, "duckdb": duckdb, "sqlite": sqlite}


@pytest.fixture(params=some_long(ENGINES, "duckdb"))
def warehouse(request, tmp_path):
    with new_warehouse(request.param, tmp_path, request) as made:
        create_events(made)
        yield made


@pytest.fixture(params=("postgresql", "mysql"))
def server(request, tmp_path):
    with new_warehouse(request.param, tmp_path, request) as made:
        create_events(made)
        yield made


def create_events(warehouse: Warehouse) -> None:
    if warehouse.schema:
        warehouse.execute(f"CREATE SCHEMA {warehouse.schema}")
    warehouse.execute(
        f"CREATE TABLE {warehouse.prefix}events (writer INTEGER NOT NULL, number INTEGER NOT NULL)"
    )


def access_to(warehouse: Warehouse) -> TimeseriesAccess:
    spec = WarehouseSpec(
        SecretUrl(warehouse.url),
        warehouse.schema,
        "events",
        labels=TimelabelSpec(schedule="*/5 * * * *"),
    )
    return open_access(PublishingSpec("/", "", warehouse=spec), LocalFilesystem())


def insert(warehouse: Warehouse, *numbers: int) -> None:
    values = ", ".join(f"(0, {number})" for number in numbers)
    warehouse.execute(f"INSERT INTO {warehouse.prefix}events (writer, number) VALUES {values}")


def shown(warehouse: Warehouse) -> list[tuple[str | None, int]]:
    statement = f"SELECT _timelabel, number FROM {warehouse.prefix}events_view ORDER BY number"
    return warehouse.rows(statement)


def counted(warehouse: Warehouse) -> int:
    return warehouse.rows(f"SELECT COUNT(*) FROM {warehouse.prefix}events")[0][0]


def test_the_rows_get_the_label_and_the_table_is_empty(warehouse):
    access = access_to(warehouse)
    insert(warehouse, 1, 2)

    entry = access.rotate(Rotation(LABELS[0], now=5))
    insert(warehouse, 3)

    assert (entry.object, entry.rows, entry.state) == (f"_events_{LABELS[0]}", 2, "LOADED")
    assert counted(warehouse) == 1
    assert shown(warehouse) == [(LABELS[0], 1), (LABELS[0], 2), (None, 3)]
    assert access.labels()[0].end_ms - access.labels()[0].start_ms == 5 * 60_000


def test_rows_that_came_since_are_added_to_a_label_that_is_there(warehouse):
    access = access_to(warehouse)
    insert(warehouse, 1)
    access.rotate(Rotation(LABELS[0], now=5))
    insert(warehouse, 2, 3)

    entry = access.rotate(Rotation(LABELS[0], now=6))

    assert (entry.rows, entry.attempt) == (3, 2)
    assert shown(warehouse) == [(LABELS[0], 1), (LABELS[0], 2), (LABELS[0], 3)]
    assert counted(warehouse) == 0


def test_a_rotation_and_a_drop_keep_no_lock_while_others_share_the_connection(server):
    access = access_to(server)
    acts = (
        lambda each: each.rotate(Rotation(LABELS[0], now=5, takes_empty=True)),
        lambda each: each.drop_empty(frozenset(LABELS[:1])),
    )
    for act in acts:
        with access.connected():
            act(access)
            act(access_to(server))
    assert access.labels()[0].state is LabelState.DROPPED


def test_a_label_that_is_shut_takes_no_rows_and_the_table_keeps_them(warehouse):
    access = access_to(warehouse)
    access.rotate(Rotation(LABELS[0], now=5, takes_empty=True))
    insert(warehouse, 1)

    for state in (LabelState.CLOSED, LabelState.DROPPED):
        access.set_state(frozenset({LABELS[0]}), state)
        with pytest.raises(WriteError):
            access.rotate(Rotation(LABELS[0], now=6))

    assert shown(warehouse) == [(None, 1)]


def test_an_empty_table_is_rotated_on_request_only(warehouse):
    access = access_to(warehouse)

    assert access.rotate(Rotation(LABELS[0], now=5)) is None
    assert access.labels() == ()
    assert shown(warehouse) == []

    assert access.rotate(Rotation(LABELS[0], now=5, takes_empty=True)).rows == 0
    assert access.rotate(Rotation(LABELS[0], now=6, takes_empty=True)) is None, "it is there"
    assert [entry.label for entry in access.labels()] == [LABELS[0]]


def test_a_column_that_came_later_is_null_in_earlier_labels(warehouse):
    access = access_to(warehouse)
    insert(warehouse, 1)
    access.rotate(Rotation(LABELS[0], now=5))
    warehouse.execute(
        f"ALTER TABLE {warehouse.prefix}events ADD COLUMN note INTEGER",
        f"INSERT INTO {warehouse.prefix}events (writer, number, note) VALUES (0, 2, 7)",
    )

    access.rotate(Rotation(LABELS[1], now=6))

    statement = f"SELECT number, note FROM {warehouse.prefix}events_view ORDER BY number"
    assert warehouse.rows(statement) == [(1, None), (2, 7)]


def test_a_table_with_triggers_is_not_rotated(server):
    if server.engine == "postgresql":
        server.execute(
            "CREATE FUNCTION shop.nothing() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN RETURN NEW; END'",
            "CREATE TRIGGER t BEFORE INSERT ON shop.events FOR EACH ROW "
            "EXECUTE FUNCTION shop.nothing()",
        )
    else:
        server.execute("CREATE TRIGGER t BEFORE INSERT ON events FOR EACH ROW SET NEW.number = 1")
    insert(server, 1)

    with pytest.raises(WriteError, match="triggers"):
        access_to(server).rotate(Rotation(LABELS[0], now=5))
    assert counted(server) == 1


def test_numbers_rights_and_indexes_go_on_in_the_next_table(tmp_path, request):
    with new_warehouse("postgresql", tmp_path, request) as warehouse:
        warehouse.execute(
            "CREATE SCHEMA shop",
            "CREATE TABLE shop.events (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            "serial serial, number integer)",
            "GRANT INSERT ON shop.events TO PUBLIC",
            "INSERT INTO shop.events (number) VALUES (10), (20)",
        )
        access = access_to(warehouse)
        access.rotate(Rotation(LABELS[0], now=5))
        warehouse.execute("INSERT INTO shop.events (number) VALUES (30)")
        access.rotate(Rotation(LABELS[1], now=6))
        warehouse.execute(f"DROP VIEW shop.events_view; DROP TABLE shop._events_{LABELS[0]}")
        warehouse.execute("INSERT INTO shop.events (number) VALUES (40)")

        statement = "SELECT id, serial, number FROM shop._events_20180305080500"
        assert warehouse.rows(statement) == [(3, 3, 30)]
        assert warehouse.rows("SELECT id, serial, number FROM shop.events") == [(4, 4, 40)]
        may = "SELECT has_table_privilege('public', 'shop.events', 'INSERT')"
        assert warehouse.rows(may) == [(True,)]
        assert warehouse.rows("SELECT 1 FROM pg_indexes WHERE tablename = 'events'") == [(1,)]


def test_no_writer_is_refused_for_the_names_of_keys_or_the_rights_on_columns(tmp_path, request):
    with new_warehouse("postgresql", tmp_path, request) as warehouse:
        warehouse.execute(
            "CREATE SCHEMA shop",
            "CREATE TABLE shop.events (id int PRIMARY KEY, number int, "
            "CONSTRAINT one UNIQUE (number))",
            "ALTER TABLE shop.events ADD CONSTRAINT two UNIQUE (number)",
            "GRANT INSERT (id), UPDATE (number) ON shop.events TO PUBLIC",
        )
        access = access_to(warehouse)
        for number, label in enumerate(LABELS[:3]):
            warehouse.execute(
                *(f"INSERT INTO shop.events VALUES ({number}, 7) "
                  f"ON CONFLICT ON CONSTRAINT {name} DO NOTHING"
                  for name in ("one", "two", "events_pkey"))
            )  # fmt: skip
            access.rotate(Rotation(label, now=5))

        assert [number for _, number in shown(warehouse)] == [7, 7, 7]
        may = "SELECT has_column_privilege('public', 'shop.events', '{}', '{}')"
        asked = [("id", "INSERT"), ("number", "UPDATE"), ("number", "INSERT")]
        allowed = [warehouse.rows(may.format(*each))[0][0] for each in asked]
        assert allowed == [True, True, False]


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (["CREATE VIEW shop.recent AS SELECT number FROM shop.events"], r"the view shop\.recent"),
        (["CREATE TABLE shop.all_events (LIKE shop.events)",
          "ALTER TABLE shop.events INHERIT shop.all_events"], "a table above it"),
        (["CREATE TABLE shop.more () INHERITS (shop.events)"], "tables that inherit it"),
        (["CREATE TABLE shop.all_events (LIKE shop.events) PARTITION BY LIST (writer)",
          "ALTER TABLE shop.all_events ATTACH PARTITION shop.events FOR VALUES IN (0)"],
         "a table above it"),
        (["CREATE FUNCTION shop.add() RETURNS void LANGUAGE sql BEGIN ATOMIC "
          "INSERT INTO shop.events VALUES (0, 9); END"], r"the function shop\.add"),
    ],
    ids=["view", "inheriting", "inherited", "partition", "function"],
)  # fmt: skip
def test_what_would_go_on_with_the_rotated_table_is_told(statements, told, tmp_path, request):
    with new_warehouse("postgresql", tmp_path, request) as warehouse:
        create_events(warehouse)
        warehouse.execute(*statements)
        insert(warehouse, 1)

        with pytest.raises(WriteError, match=told):
            access_to(warehouse).rotate(Rotation(LABELS[0], now=5))
        assert counted(warehouse) == 1


def test_rows_whose_keys_and_columns_the_database_makes_are_added_to_a_label(tmp_path, request):
    keys = {
        "postgresql": "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "mysql": "id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY",
    }
    for engine, key in keys.items():
        with new_warehouse(engine, tmp_path, request) as warehouse:
            if warehouse.schema:
                warehouse.execute(f"CREATE SCHEMA {warehouse.schema}")
            warehouse.execute(
                f"CREATE TABLE {warehouse.prefix}events ({key}, writer int, number int, "
                "twice int GENERATED ALWAYS AS (number * 2) STORED)"
            )
            access = access_to(warehouse)
            for number, label in enumerate([LABELS[0], LABELS[0], LABELS[0], LABELS[1]]):
                insert(warehouse, number, number + 10)
                access.rotate(Rotation(label, now=5))

            statement = f"SELECT _timelabel, number, twice FROM {warehouse.prefix}events_view"
            expected = [
                (LABELS[number == 3], each, 2 * each)
                for number in range(4)
                for each in (number, number + 10)
            ]
            assert sorted(warehouse.rows(statement)) == sorted(expected)
            assert [name for name in tables(warehouse) if name.startswith("_dil_")] == []


def test_equal_keys_of_two_rotations_are_both_kept_in_a_label(tmp_path, request):
    with new_warehouse("mysql", tmp_path, request) as warehouse:
        warehouse.execute(
            "CREATE TABLE events (writer int, number int, note text, UNIQUE KEY (number), "
            "UNIQUE KEY of_note (note(4), number), UNIQUE KEY whole (note))"
        )
        access = access_to(warehouse)
        for number in (1, 1, 2):
            warehouse.execute(f"INSERT INTO events VALUES (0, {number}, 'note {number}')")
            access.rotate(Rotation(LABELS[0], now=5))

        assert [number for _, number in shown(warehouse)] == [1, 1, 2]
        with pytest.raises(pymysql.IntegrityError):
            warehouse.execute("INSERT INTO events VALUES (0, 5, 'a'), (0, 5, 'b')")


def test_postgresql_leaves_equal_keys_to_the_next_label(tmp_path, request):
    with new_warehouse("postgresql", tmp_path, request) as warehouse:
        create_events(warehouse)
        warehouse.execute("ALTER TABLE shop.events ADD UNIQUE (number)")
        access = access_to(warehouse)
        insert(warehouse, 1)
        access.rotate(Rotation(LABELS[0], now=5))
        insert(warehouse, 1)

        with pytest.raises(WriteError, match="already"):
            access.rotate(Rotation(LABELS[0], now=5))
        access.rotate(Rotation(LABELS[1], now=6))
        assert sorted(shown(warehouse)) == [(LABELS[0], 1), (LABELS[1], 1)]


def test_a_table_without_transactions_is_not_rotated(tmp_path, request):
    with new_warehouse("mysql", tmp_path, request) as warehouse:
        warehouse.execute("CREATE TABLE events (writer int, number int) ENGINE=MyISAM")
        insert(warehouse, 1)

        with pytest.raises(WriteError, match="MyISAM, which has no transactions"):
            access_to(warehouse).rotate(Rotation(LABELS[0], now=5))


def test_a_table_that_is_not_there_is_told_and_nothing_is_made(tmp_path, request):
    for engine in ENGINES:
        with new_warehouse(engine, tmp_path, request) as warehouse:
            with pytest.raises(WriteError, match="there is no table"):
                access_to(warehouse).rotate(Rotation(LABELS[0], now=5))
            assert tables(warehouse) == set()


class StoppedError(Exception):
    """Stands for a process that ends between two statements."""


@contextmanager
def stopped_at(warehouse: Warehouse, number: int, monkeypatch) -> Iterator[None]:
    """Let the statement of a number not be sent; the connection is closed then."""
    sent = itertools.count()

    def counting(original: Callable) -> Callable:
        def call(self, *arguments):
            if next(sent) == number:
                raise StoppedError
            return original(self, *arguments)

        return call

    connection = CONNECTIONS[warehouse.engine]._Connection
    with monkeypatch.context() as patched:
        for name in ("begin", "change", "commit"):
            patched.setattr(connection, name, counting(getattr(connection, name)))
        yield


@pytest.mark.parametrize(
    ("warehouse", "is_again"),
    some_long(
        itertools.product(ENGINES, (False, True)),
        ("mysql", False), ("duckdb", False), ("duckdb", True),
    ),
    indirect=["warehouse"],
    ids={False: "new label", True: "label that is there"}.get,
)  # fmt: skip
def test_a_rotation_cut_off_between_any_two_statements_is_finished_by_the_next(
    warehouse, monkeypatch, is_again
):
    access = access_to(warehouse)
    insert(warehouse, 0)
    access.rotate(Rotation(LABELS[0], now=5))
    expected = [(LABELS[0], 0)]
    for statement in range(100):
        label = LABELS[0] if is_again else f"20180306{statement // 60:02}{statement % 60:02}00"
        insert(warehouse, statement + 1)
        is_done = False
        with suppress(StoppedError), stopped_at(warehouse, statement, monkeypatch):
            access.rotate(Rotation(label, now=5))
            is_done = True
        assert [number for _, number in shown(warehouse)] == list(range(statement + 2)), statement
        access.rotate(Rotation(label, now=6))
        expected.append((label, statement + 1))
        assert shown(warehouse) == expected, statement
        assert [name for name in tables(warehouse) if name.startswith("_dil_")] == [], statement
        if is_done:
            break
    assert 5 < statement < 99


class Crowd:
    """Eight writers of the table and a reader of the view, each in a thread of its own."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._is_over = threading.Event()
        self.written: Counter[tuple[int, int]] = Counter()
        self.seen: list[int] = []
        self.failures: list[BaseException] = []

    def __enter__(self) -> Self:
        works = [partial(self._write, writer) for writer in range(1, 9)]
        self._threads = [threading.Thread(target=self._run, args=[w]) for w in (*works, self._read)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, work: Callable[[Any], None]) -> None:
        try:
            with self._warehouse.reader() as connection:
                work(connection.cursor())
        except BaseException as error:  # noqa: BLE001 - the test looks for it
            self.failures.append(error)

    def _write(self, writer: int, cursor: Any) -> None:
        for number in itertools.count():
            if self._is_over.is_set():
                return
            values = f"({writer}, {number})"
            cursor.execute(f"INSERT INTO {self._warehouse.prefix}events VALUES {values}")
            self.written[writer, number] += 1

    def _read(self, cursor: Any) -> None:
        while not self._is_over.is_set():
            cursor.execute(f"SELECT COUNT(*) FROM {self._warehouse.prefix}events_view")
            self.seen.append(cursor.fetchone()[0])


def test_two_rotations_lose_no_row_of_eight_writers_and_no_reader_sees_fewer(
    server: Warehouse,
) -> None:
    access = access_to(server)
    access.rotate(Rotation(LABELS[0], now=5, takes_empty=True))

    def rotate(label: str) -> None:
        access_to(server).rotate(Rotation(label, now=5))

    with Crowd(server) as crowd, ThreadPoolExecutor(2) as pool:
        list(pool.map(rotate, (*LABELS[1:7], LABELS[6])))

    assert crowd.failures == []
    statement = f"SELECT writer, number FROM {server.prefix}events_view"
    assert Counter(map(tuple, server.rows(statement))) == crowd.written
    assert len({writer for writer, _ in crowd.written}) == 8
    assert crowd.seen == sorted(crowd.seen)
    assert len(access.labels()) >= 6
