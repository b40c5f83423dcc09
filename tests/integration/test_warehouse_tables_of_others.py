"""Tables that somebody else made: values that they would change are refused, not changed."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dil.errors import ConfigError, ConversionError, WriteError
from dil.model.destination import MergeSpec
from dil.model.job import PublishMode
from dil.publishing.warehouse.loading import Loading
from tests.warehouses import ENGINES, Loads, made, new_warehouse

BY_ID = MergeSpec(("id",))
UTC = pa.timestamp("us", "UTC")


@pytest.fixture(params=ENGINES)
def any_loads(request, tmp_path):
    with new_warehouse(request.param, tmp_path, request) as warehouse:
        yield Loads(warehouse, tmp_path)


@pytest.fixture
def mysql(request, tmp_path):
    with new_warehouse("mysql", tmp_path, request) as warehouse:
        yield Loads(warehouse, tmp_path)


@pytest.fixture
def postgresql(request, tmp_path):
    with new_warehouse("postgresql", tmp_path, request) as warehouse:
        warehouse.execute("CREATE SCHEMA shop")
        yield Loads(warehouse, tmp_path)


def upserts(loads: Loads, *keys: str) -> Loads:
    return replace(loads, mode=PublishMode.MERGE, merge=MergeSpec(keys))


def ints(**columns: list[int | None]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.int32()) for name, values in columns.items()})


def refusal(loads: Loads, table: pa.Table) -> str:
    """Return why a table is not decided about."""
    with pytest.raises(ConversionError) as caught:
        loads.intent("refused", table)
    return caught.value.message


# Any database


def test_nulls_are_refused_where_the_column_does_not_keep_them(any_loads: Loads) -> None:
    if any_loads.warehouse.engine == "postgresql":
        any_loads.warehouse.execute("CREATE SCHEMA shop")
    made(any_loads.warehouse, "id INTEGER PRIMARY KEY, n INTEGER NOT NULL DEFAULT 5, v INTEGER")
    assert "id holds nulls" in refusal(any_loads, ints(id=[None, 5], n=[1, 1], v=[1, 1]))
    assert "n holds nulls" in refusal(any_loads, ints(id=[1, 2], n=[None, 1], v=[1, 1]))
    any_loads.load("run-1", ints(id=[1, 2], v=[None, 1]))
    assert any_loads.rows() == [(1, 5, None), (2, 5, 1)]


def test_the_later_of_two_instants_wins_or_instants_are_refused(any_loads: Loads) -> None:
    loads = replace(any_loads, mode=PublishMode.MERGE, merge=MergeSpec(("id",), ("at",)))

    def version(microseconds: int) -> pa.Table:
        return pa.table({"id": [1], "at": pa.array([microseconds], UTC), "v": [microseconds]})

    late = 253_402_300_800_000_000  # the beginning of the year 10000
    loads.load("run-0", version(0))
    if loads.warehouse.engine in {"sqlite", "mysql"}:
        assert "at holds a time outside of the years" in refusal(loads, version(late))
        return
    loads.load("run-1", version(late))
    loads.load("run-2", version(1))
    assert loads.rows("v") == [(late,)]


def newest_of(loads: Loads, *values: str | float | None) -> str | float | None:
    """Merge versions of one row, in one run and in a run each; return the version that stays."""
    shown = []
    for table, runs in (("orders", [values]), ("single", [[value] for value in values])):
        each = replace(loads, mode=PublishMode.MERGE, merge=MergeSpec(("id",), ("v",)), table=table)
        for number, given in enumerate(runs):
            kind = pa.string() if isinstance(values[0], str) else pa.float64()
            rows = pa.table({"id": [1] * len(given), "v": pa.array(given, kind)})
            each.load(f"{kind}-{number}", rows)
        shown += each.rows("v")
    assert shown == [shown[0]] * 2
    return shown[0][0]


def test_delta_fields_are_compared_as_in_files(any_loads: Loads) -> None:
    engine = any_loads.warehouse.engine
    if engine in {"postgresql", "duckdb"}:
        assert newest_of(any_loads, 1.0, math.nan, 2.0) == 2
        any_loads.warehouse.execute("DROP TABLE shop.orders", "DROP TABLE shop.single")
    words = {
        "postgresql": 'text COLLATE "en-x-icu"',
        "mysql": "varchar(20) COLLATE utf8mb4_general_ci",
        "duckdb": "VARCHAR COLLATE NOCASE",
        "sqlite": "TEXT COLLATE NOCASE",
    }
    for table in ("orders", "single"):
        name = f"{any_loads.warehouse.prefix}{table}"
        if engine == "duckdb":
            any_loads.warehouse.execute("CREATE SCHEMA IF NOT EXISTS shop")
        any_loads.warehouse.execute(
            f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, v {words[engine]})"
        )
    assert newest_of(any_loads, "B", "a", "C") == "a"


def test_long_delta_fields_are_compared_to_their_ends(mysql: Loads) -> None:
    beginning = "x" * 5_000
    assert newest_of(mysql, f"{beginning}b", f"{beginning}a") == f"{beginning}b"

    loads = replace(mysql, mode=PublishMode.MERGE, merge=MergeSpec(("id",), ("v",)), table="bytes")
    values = [f"{beginning}b".encode(), f"{beginning}a".encode()]
    loads.load("run-1", pa.table({"id": [1, 1], "v": values}))
    assert loads.rows("v") == [(values[0],)]


def test_delta_fields_by_which_mysql_cannot_sort_are_refused(mysql: Loads) -> None:
    loads = replace(mysql, mode=PublishMode.MERGE, merge=MergeSpec(("id",), ("v",)))
    why = refusal(loads, pa.table({"id": [1], "v": ["x" * 2**23]}))
    assert "sorts rows by at most 8,388,604 bytes" in why


def test_a_number_that_is_nan_is_the_oldest(tmp_path: Path, request) -> None:
    with new_warehouse("postgresql", tmp_path, request) as warehouse:
        warehouse.execute("CREATE SCHEMA shop")
        made(warehouse, "id BIGINT PRIMARY KEY, v NUMERIC(9, 2)")
        warehouse.execute("INSERT INTO shop.orders VALUES (1, 'NaN')")
        loads = replace(
            Loads(warehouse, tmp_path), mode=PublishMode.MERGE, merge=MergeSpec(("id",), ("v",))
        )
        loads.load("run-1", pa.table({"id": [1], "v": pa.array([Decimal("1.00")])}))
        assert loads.rows("v") == [(1,)]


@pytest.mark.parametrize(
    ("columns", "more", "what"),
    [
        ("id DOUBLE, v DECIMAL(5, 2) PRIMARY KEY", (), "PRIMARY KEY(v)"),
        ("id DOUBLE, v FLOAT CHECK (v > 0)", (), "CHECK((v > 0))"),
        ("id DOUBLE, v INTEGER", ("CREATE INDEX i ON shop.orders (id)",), "the index i"),
        (
            "id DOUBLE PRIMARY KEY, v INTEGER",
            ("CREATE TABLE shop.lines (id DOUBLE REFERENCES shop.orders(id))",),
            "a foreign key of the table lines",
        ),
    ],
)
def test_a_column_whose_type_duckdb_does_not_change_is_named_with_what_depends_on_it(
    tmp_path: Path, request, columns: str, more: tuple[str, ...], what: str
) -> None:
    with new_warehouse("duckdb", tmp_path, request) as warehouse:
        made(warehouse, columns, *more)
        loads = Loads(warehouse, tmp_path)
        values = pa.array([Decimal("1234.56")]) if "DECIMAL" in columns else pa.array([2.0**60])
        with pytest.raises(ConversionError) as caught:
            loads.intent("refused", pa.table({"id": [1.0], "v": values}))
        assert "column v of the table orders has the type" in caught.value.message
        assert "but the rows need D" in caught.value.message
        assert f"cannot change the type of this column, on which {what} depends" in str(
            caught.value.fix
        )


@pytest.mark.parametrize(
    ("columns", "more"),
    [
        ("id BIGINT PRIMARY KEY, parent BIGINT REFERENCES shop.orders(id), v INTEGER", ()),
        (
            "id BIGINT PRIMARY KEY, v INTEGER",
            (
                "CREATE TABLE orders (id BIGINT PRIMARY KEY)",
                "CREATE TABLE lines (id BIGINT REFERENCES orders(id))",
            ),
        ),
    ],
    ids=["the table itself", "a table of this name in another schema"],
)
def test_a_foreign_key_to_something_else_leaves_duckdb_free_to_change_a_type(
    tmp_path: Path, request, columns: str, more: tuple[str, ...]
) -> None:
    with new_warehouse("duckdb", tmp_path, request) as warehouse:
        made(warehouse, columns, *more)
        loads = Loads(warehouse, tmp_path)
        loads.load("run-1", pa.table({"id": [1], "v": [2**40]}))
        assert loads.rows("v") == [(2**40,)]


def test_a_key_whose_type_cannot_be_changed_refuses_larger_numbers(tmp_path: Path, request) -> None:
    with new_warehouse("duckdb", tmp_path, request) as warehouse:
        made(warehouse, "id INTEGER PRIMARY KEY, v INTEGER")
        loads = upserts(Loads(warehouse, tmp_path), "id")
        with pytest.raises(ConversionError) as caught:
            loads.intent("refused", pa.table({"id": [2**40], "v": [2**40]}))
        assert "column id of the table orders has the type INTEGER" in caught.value.message
        assert "cannot change the type of this column" in str(caught.value.fix)
        loads.load("run-1", pa.table({"id": pa.array([1], pa.int32()), "v": [2**40]}))
        assert loads.rows() == [(1, 2**40)]


def test_keys_that_differ_after_a_kilobyte_are_different(mysql: Loads) -> None:
    made(mysql.warehouse, "id VARCHAR(700) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY")
    texts = [f"{'😀' * 300}{number % 5}" for number in range(50)]
    upserts(mysql, "id").load("run-1", pa.table({"id": texts}))
    assert len(mysql.rows()) == 5


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64())),
        pa.array([[3_000_000]], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
        pa.array([[2**60]], pa.list_(pa.int64())).cast(pa.list_(UTC)),
    ],
)
def test_what_json_has_no_form_for_is_refused(values: pa.Array, tmp_path: Path, request) -> None:
    with new_warehouse("sqlite", tmp_path, request) as warehouse:
        said = refusal(Loads(warehouse, tmp_path), pa.table({"nested": values}))
    assert said.startswith("column nested holds a list, map or record that cannot be JSON")


@pytest.mark.parametrize("engine", ["postgresql", "mysql"])
def test_a_name_that_is_too_long_for_the_database_is_refused(
    engine: str, tmp_path: Path, request
) -> None:
    with new_warehouse(engine, tmp_path, request) as warehouse:
        loads = Loads(warehouse, tmp_path)
        most = "é" * 31 + "x" if engine == "postgresql" else "é" * 64
        assert "has a name that is too long" in refusal(loads, pa.table({f"{most}x": [1]}))
        loads.load("run-1", pa.table({most: [1]}))
        assert list(warehouse.columns("orders")) == [most]


def changed_before_altering(loads: Loads, monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Let another job do something between the look at the table and the change to it."""
    real, done = Loading._alter, []

    def alter(self: Loading, *arguments: Any) -> None:
        if not done:
            done.append(change)
            change()
        real(self, *arguments)

    monkeypatch.setattr(Loading, "_alter", alter)


def test_two_jobs_may_add_the_same_column_at_once(postgresql: Loads, monkeypatch) -> None:
    postgresql.load("run-0", ints(id=[0]))
    intent = postgresql.intent("run-1", ints(id=[1], more=[1]))
    other = Loads(postgresql.warehouse, postgresql.folder)
    changed_before_altering(
        postgresql, monkeypatch, lambda: other.load("run-2", ints(id=[2], more=[2]))
    )
    postgresql.destination.carry_out(intent)
    assert postgresql.rows("id, more") == [(0, None), (1, 1), (2, 2)]


def test_two_jobs_may_make_the_same_table_at_once(tmp_path: Path, request, monkeypatch) -> None:
    with new_warehouse("sqlite", tmp_path, request) as warehouse:
        loads, other = Loads(warehouse, tmp_path), Loads(warehouse, tmp_path)
        real, done = Loading._check_values, []

        def check(self: Loading, *arguments: Any) -> None:
            real(self, *arguments)
            if not done:
                done.append(1)
                other.load("run-2", ints(id=[2]))

        monkeypatch.setattr(Loading, "_check_values", check)
        loads.load("run-1", ints(id=[1]))
        assert loads.rows() == [(1,), (2,)]


# MySQL and MariaDB


@pytest.mark.parametrize("other", ["", "id INT PRIMARY KEY, "])
def test_a_unique_beginning_of_a_text_is_no_key_that_rows_are_merged_by(
    mysql: Loads, other: str
) -> None:
    made(
        mysql.warehouse,
        f"{other}k VARCHAR(100) CHARACTER SET utf8mb4 NOT NULL, UNIQUE KEY kk (k(4))",
    )
    told = "no primary key or unique index" if not other else "several unique keys"
    with pytest.raises(ConfigError, match=told):
        upserts(mysql, "id" if other else "k").destination.check()


def test_a_key_of_zero_stays_zero_where_the_server_counts(mysql: Loads) -> None:
    made(mysql.warehouse, "id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, v INT")
    merging = upserts(mysql, "id")
    for number in range(3):
        merging.load(f"run-{number}", ints(id=[0, 7], v=[number, 2]))
    assert mysql.rows() == [(0, 2), (7, 2)]


def test_a_time_that_is_null_is_not_now(mysql: Loads) -> None:
    made(mysql.warehouse, "id INT, t TIMESTAMP(6) NOT NULL")
    table = pa.table({"id": pa.array([1], pa.int32()), "t": pa.array([None], UTC)})
    assert "t holds nulls" in refusal(mysql, table)


def test_blanks_that_char_would_not_keep_are_refused(mysql: Loads) -> None:
    made(mysql.warehouse, "id INT, c CHAR(5) CHARACTER SET utf8mb4")
    one = pa.array([1], pa.int32())
    assert "c holds text that ends with a blank" in refusal(
        mysql, pa.table({"id": one, "c": ["a "]})
    )
    mysql.load("run-1", pa.table({"id": one, "c": [" a"]}))
    assert mysql.rows() == [(1, " a")]


def test_a_changed_value_is_an_error_where_the_server_keeps_no_warnings(
    mysql: Loads, request
) -> None:
    server = request.getfixturevalue("mysql_server")
    made(mysql.warehouse, "s TINYTEXT CHARACTER SET utf8mb4")
    server.execute("SET GLOBAL max_error_count = 0")
    try:
        # MariaDB keeps the beginning and no warning of it; MySQL refuses the row.
        with pytest.raises(WriteError, match=r"does not take rows as they are|Data too long"):
            mysql.load("run-1", pa.table({"s": ["x" * 300]}))
    finally:
        server.execute("SET GLOBAL max_error_count = 64")
    assert mysql.rows() == []


def test_a_column_that_is_widened_stays_what_else_it_was(mysql: Loads) -> None:
    made(
        mysql.warehouse,
        "id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL DEFAULT 5 COMMENT 'x, y', "
        "t VARCHAR(3) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL DEFAULT 'q''\\\\', "
        "l VARCHAR(3) CHARACTER SET latin1",
    )
    table = pa.table({"id": [1], "n": [2**40], "t": ["a long text"], "l": ["日本 and more"]})
    mysql.load("run-1", table)
    mysql.warehouse.execute("INSERT INTO orders (l) VALUES ('m')")
    assert mysql.rows() == [(1, 2**40, "a long text", "日本 and more"), (2, 5, "q'\\", "m")]
    ((_, shown),) = mysql.warehouse.rows("SHOW CREATE TABLE orders")
    assert "COMMENT 'x, y'" in shown
    assert mysql.rows("id", "t COLLATE utf8mb4_general_ci")
    held = mysql.warehouse.rows("SELECT t = 'A LONG TEXT' FROM orders WHERE id = 1")
    assert held == [(1,)]


def test_a_column_that_is_computed_is_refused(mysql: Loads) -> None:
    made(mysql.warehouse, "id INT, twice INT AS (id * 2) STORED")
    assert "twice of the table orders is computed" in refusal(mysql, ints(id=[1], twice=[2]))
    mysql.load("run-1", ints(id=[1]))
    assert mysql.rows() == [(1, 2)]


def test_a_table_whose_name_differs_in_case_is_another_table(mysql: Loads) -> None:
    mysql.warehouse.execute("CREATE TABLE Orders (id INT, v INT, x INT NOT NULL, UNIQUE (v))")
    made(mysql.warehouse, "id INT PRIMARY KEY")
    merging = upserts(mysql, "id")
    merging.destination.check()
    merging.load("run-1", ints(id=[1], v=[1]))
    merging.load("run-2", ints(id=[2], v=[1]))
    assert mysql.rows("id, v") == [(1, 1), (2, 1)]
    assert mysql.warehouse.rows("SELECT * FROM Orders") == []


def test_two_runs_that_spell_the_host_differently_keep_each_other_out(
    mysql: Loads, monkeypatch
) -> None:
    """The older row is held back inside its transaction until the newer one was tried."""
    named = mysql.warehouse.url.replace("127.0.0.1", "localhost")
    spelled = replace(mysql.warehouse, url=named)
    by_version = MergeSpec(("id",), ("v",))
    old, new = (
        Loads(each, mysql.folder, PublishMode.MERGE, by_version)
        for each in (mysql.warehouse, spelled)
    )
    old.load("run-0", ints(id=[0], v=[0]))
    first, second = (
        old.intent("run-1", ints(id=[1], v=[1])),
        new.intent("run-2", ints(id=[1], v=[2])),
    )
    destination, is_inside, may_go = old.destination, threading.Event(), threading.Event()
    dialect = destination._access._dialect
    real = dialect.upsert

    def slow(*arguments: Any) -> str:
        is_inside.set()
        assert may_go.wait(60)
        return real(*arguments)

    dialect.upsert = slow  # type: ignore[method-assign]
    monkeypatch.setattr(
        "dil.publishing.warehouse.attempts.sleep", lambda _seconds: may_go.set() or done.wait(60)
    )
    done = threading.Event()

    def hold() -> None:
        destination.carry_out(first)
        done.set()

    holder = threading.Thread(target=hold)
    monkeypatch.setattr("dil.publishing.warehouse.mysql.LOCK_S", 1)
    holder.start()
    assert is_inside.wait(60)
    new.destination.carry_out(second)
    may_go.set()
    holder.join()
    assert mysql.rows() == [(0, 0), (1, 2)]


# PostgreSQL


@pytest.mark.parametrize("mode", [PublishMode.REPLACE, PublishMode.WINDOW_REPLACE])
def test_rows_of_tables_that_inherit_are_not_deleted(postgresql: Loads, mode: PublishMode) -> None:
    made(postgresql.warehouse, "id BIGINT")
    postgresql.warehouse.execute(
        "CREATE TABLE shop.mine (note TEXT) INHERITS (shop.orders)",
        "INSERT INTO shop.mine VALUES (99, 'of others')",
    )
    with pytest.raises(ConfigError, match=r"shop\.mine inherits from"):
        replace(postgresql, mode=mode).destination.check()
    postgresql.destination.check()


def test_generated_columns_are_refused_but_for_keys_that_are_numbered(postgresql: Loads) -> None:
    made(
        postgresql.warehouse,
        "id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
        "twice INT GENERATED ALWAYS AS (id * 2) STORED, other INT",
    )
    merging = upserts(postgresql, "id")
    merging.destination.check()
    assert "twice of the table orders is computed" in refusal(merging, ints(id=[1], twice=[2]))
    for number in range(2):
        merging.load(f"run-{number}", ints(id=[7], other=[number]))
    assert postgresql.rows() == [(7, 14, 1)]


def test_a_number_that_is_no_key_is_not_given_to_rows_that_are_merged(postgresql: Loads) -> None:
    made(postgresql.warehouse, "id INT PRIMARY KEY, n INT GENERATED ALWAYS AS IDENTITY")
    assert "n of the table orders is GENERATED ALWAYS" in refusal(
        upserts(postgresql, "id"), ints(id=[1], n=[5])
    )
    postgresql.load("run-1", ints(id=[1], n=[5]))
    assert postgresql.rows() == [(1, 5)]


@pytest.mark.parametrize(
    ("columns", "index", "keys"),
    [
        ("a INT, b INT", "CREATE UNIQUE INDEX ON shop.orders (a) INCLUDE (b)", ("a", "b")),
        ("a INT UNIQUE DEFERRABLE", "SELECT 1", ("a",)),
    ],
)
def test_rows_are_not_merged_by_what_is_no_key(
    postgresql: Loads, columns: str, index: str, keys: tuple[str, ...]
) -> None:
    made(postgresql.warehouse, columns, index)
    with pytest.raises(ConfigError, match="no primary key or unique index"):
        upserts(postgresql, *keys).destination.check()


def test_a_key_of_an_index_that_holds_more_columns_is_a_key(postgresql: Loads) -> None:
    made(
        postgresql.warehouse,
        "a INT, b INT",
        "CREATE UNIQUE INDEX ON shop.orders (a) INCLUDE (b)",
    )
    merging = upserts(postgresql, "a")
    for number in range(2):
        merging.load(f"run-{number}", ints(a=[1], b=[number]))
    assert postgresql.rows() == [(1, 1)]


def test_a_constraint_that_fails_at_the_commit_is_a_refusal(postgresql: Loads) -> None:
    postgresql.warehouse.execute(
        "CREATE TABLE shop.p (id INT PRIMARY KEY)",
        "CREATE TABLE shop.orders (id INT REFERENCES shop.p DEFERRABLE INITIALLY DEFERRED)",
    )
    intent = postgresql.intent("run-1", ints(id=[1]))
    with pytest.raises(WriteError, match="violates foreign key constraint"):
        postgresql.destination.carry_out(intent)
    postgresql.warehouse.execute("INSERT INTO shop.p VALUES (1)")
    postgresql.destination.carry_out(intent)
    assert postgresql.rows() == [(1,)]


def test_an_error_of_the_driver_is_not_a_lost_connection(postgresql: Loads) -> None:
    postgresql.load("run-1", ints(id=[1]))
    access = postgresql.destination._access
    connection = access._dialect.connect()
    table = access._dialect.table(connection, access._table)
    assert table is not None
    column = replace(table.columns[0], name="absent")
    batch = pa.RecordBatch.from_pydict({"absent": pa.array([1], pa.int32())})
    try:
        with pytest.raises(access._dialect.errors()) as caught:
            connection.load(access._table, [column], [batch])
    finally:
        connection.close()
    found = access._dialect.diagnose(caught.value)
    assert found.fault.name == "OTHER"
    assert "absent" in found.text
    assert "server runs" not in found.advice


@pytest.mark.parametrize("engine", ["postgresql", "duckdb"])
def test_a_type_that_is_widened_leaves_default_and_collation(
    engine: str, tmp_path: Path, request
) -> None:
    with new_warehouse(engine, tmp_path, request) as warehouse:
        collation = '"C"' if engine == "postgresql" else "NOCASE"
        warehouse.execute(
            "CREATE SCHEMA shop",
            "CREATE TABLE shop.orders (id INT NOT NULL DEFAULT 7, "
            f"t VARCHAR(3) COLLATE {collation} NOT NULL DEFAULT 'q')",
        )
        loads = Loads(warehouse, tmp_path)
        loads.load("run-1", pa.table({"id": [2**40], "t": ["a long text"]}))
        warehouse.execute("INSERT INTO shop.orders (id) VALUES (DEFAULT)")
        assert loads.rows() == [(7, "q"), (2**40, "a long text")]
        if engine == "postgresql":
            held = warehouse.rows(
                "SELECT collation_name FROM information_schema.columns WHERE column_name = 't'"
            )
            assert held == [("C",)]


def test_a_short_column_whose_name_differs_in_case_is_widened_for_longer_text(mysql: Loads) -> None:
    made(mysql.warehouse, "id INTEGER, Note varchar(5)")
    mysql.load("run-1", pa.table({"id": [1], "note": ["longer than five"]}))
    assert mysql.rows("note") == [("longer than five",)]
