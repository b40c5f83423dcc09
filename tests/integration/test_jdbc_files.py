"""SQLite and DuckDB: their values, and files that are not there."""

from __future__ import annotations

import datetime as dt
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from connectors.jdbc.address import JdbcAddress
from connectors.jdbc.engine import Login
from connectors.jdbc.engines.alchemy import AlchemyConnection
from connectors.jdbc.engines.duckdb import DuckdbConnection
from connectors.jdbc.session import JdbcSession
from connectors.jdbc.settings import JdbcSettings
from connectors.jdbc.statement import Statement
from connectors.jdbc.syntax import Kind, syntax_of
from dil.errors import SourceContractError, SourceError, TransientSourceError
from dil.model.settings import SchemaCleansing
from dil.spi.connector import RequestValues
from tests.integration.jdbc_jobs import read

_VALUES = (
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\x00"))
)


def sqlite_file(path: Path, *statements: str) -> str:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(";".join(statements))
    return f"jdbc:sqlite:{path}"


def duckdb_file(path: Path, *statements: str) -> str:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return f"jdbc:duckdb:{path}"


@settings(max_examples=50, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(values=st.lists(_VALUES, min_size=1))
def test_a_column_of_sqlite_keeps_values_of_all_kinds(
    values: list[object], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("lite") / "a.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create table t (n integer primary key, v)")
        connection.executemany("insert into t (v) values (?)", [(value,) for value in values])
        connection.commit()
    found = read(f"jdbc:sqlite:{path}", "select v from t order by n").column("v")
    if pa.types.is_string(found.type):
        shown = [repr(v) if isinstance(v, float) else v if v is None else str(v) for v in values]
        assert found.to_pylist() == shown
    else:
        assert found.to_pylist() == values


def test_bytes_of_sqlite_are_bytes_and_never_mixed_with_text(tmp_path: Path) -> None:
    url = sqlite_file(tmp_path / "a.db", "create table t (v)", "insert into t values (x'00ff')")
    assert read(url, "select v from t").to_pylist() == [{"v": b"\x00\xff"}]
    with pytest.raises(SourceContractError, match='column "v": holds bytes in some rows'):
        read(url, "select v from t union all select 'text'")


def test_the_types_of_duckdb_come_as_they_are(tmp_path: Path) -> None:
    url = duckdb_file(tmp_path / "a.duckdb")
    found = read(
        url,
        """select 170141183460469231731687303715884105727::hugeint h, sum(5) s, 7::uhugeint uh,
        18446744073709551615::ubigint u, interval '1 day' i, '101'::bit b,
        'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid id, timetz '12:00:00+02' tz,
        timestamp_ns '2020-01-01 00:00:00.123456789' ns, time '12:00:00.000001' t,
        timestamptz '2020-01-01 00:00:00.000001+02' z, date '2020-01-01' d, [1, null] l,
        {'a': 1} st, 1.50::decimal(20, 3) dec, 'x'::enum('x', 'y') e, null n,
        '12345678901234567890123456789012345678901234567890'::bignum big""",
    )
    row = found.to_pylist()[0]
    assert row == {
        "h": "170141183460469231731687303715884105727", "s": Decimal(5), "uh": Decimal(7),
        "u": 18446744073709551615, "i": "1 day", "b": "101",
        "id": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "tz": "12:00:00+02",
        "ns": "2020-01-01 00:00:00.123456789", "t": dt.time(12, 0, 0, 1),
        "z": dt.datetime(2019, 12, 31, 22, 0, 0, 1, tzinfo=dt.UTC), "d": dt.date(2020, 1, 1),
        "l": [1, None], "st": {"a": 1}, "dec": Decimal("1.500"), "e": "x", "n": None,
        "big": "12345678901234567890123456789012345678901234567890",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_missing_file_is_an_error_and_no_empty_database(kind: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        read(f"jdbc:{kind}:{tmp_path}/none.db", "select 1")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_values_are_bound_as_the_column_wants_them(kind: str, tmp_path: Path) -> None:
    make = sqlite_file if kind == "sqlite" else duckdb_file
    url = make(
        tmp_path / "a.db", "create table t (id bigint, moment timestamp, name varchar)",
        "insert into t values (1, '2020-01-01 00:00:00', 'a'), (2, '2020-01-02 00:00:00', 'b')",
    )  # fmt: skip
    for sql, value, ids in (
        ("id > {{v}}", 1, [2]), ("id > {{v}}", "1", [2]), ("name = {{v}}", "a' or 1=1 --", []),
        ("moment > {{v}}", "2020-01-01 12:00:00", [2]), ("name = '{{v}}'", "' or ''='", []),
        ("id in ({{v}})", [1, 2], [1, 2]), ("true order by id limit {{v}}", 1, [1]),
    ):  # fmt: skip
        found = read(url, f"select id from t where {sql}", {"v": value})
        assert [row["id"] for row in found.to_pylist()] == ids, (sql, value)


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_two_columns_of_one_name_are_an_error(kind: str, tmp_path: Path) -> None:
    url = (sqlite_file if kind == "sqlite" else duckdb_file)(tmp_path / "a.db", "select 1")
    with pytest.raises(SourceContractError, match='two columns "a"'):
        read(url, "select 1 as a, 2 as a")
    with pytest.raises(SourceContractError, match='two columns "A_B"'):
        read(url, 'select 1 as "a b", 2 as a_b', letters="toupper", cleansing=SchemaCleansing())


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_statement_without_rows_is_committed(kind: str, tmp_path: Path) -> None:
    make = sqlite_file if kind == "sqlite" else duckdb_file
    url = make(tmp_path / "a.db", "create table t (id int)")
    assert read(url, "insert into t values ({{v}})", {"v": 7}).num_rows == 0
    assert read(url, "select id from t").to_pylist() == [{"id": 7}]


def test_an_attempt_that_goes_on_knows_the_database_by_an_address_with_variables(
    tmp_path: Path,
) -> None:
    """DuckDB takes a key as what it is compared with; SQLite would compare it otherwise."""

    def page(kind: str) -> pa.Table:
        make = duckdb_file if kind == "duckdb" else sqlite_file
        path = tmp_path / kind
        make(path)
        variables = {"cursor": "4", "path": str(path)}
        settings_ = JdbcSettings(
            f"jdbc:{kind}:{{{{path}}}}", "select 5 as id where 5 > {{cursor}}",
            cursors=("cursor",), key_columns=("id",),
        )  # fmt: skip
        with JdbcSession(settings_) as session:
            return pa.Table.from_batches(session.read(RequestValues(variables, {}, page=3)))

    assert page("duckdb").to_pylist() == [{"id": 5}]
    with pytest.raises(SourceError, match="kind of the session key is not known"):
        page("sqlite")


def test_a_locked_sqlite_file_may_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.jdbc.engines.sqlite._BUSY_S", 0.01)
    url = sqlite_file(tmp_path / "a.db", "create table t (id int)")
    with closing(sqlite3.connect(tmp_path / "a.db")) as other:
        other.execute("begin exclusive")
        with pytest.raises(TransientSourceError, match="locked"):
            read(url, "select id from t")


def test_sqlalchemy_serves_what_has_no_driver_of_its_own(tmp_path: Path) -> None:
    sqlite_file(tmp_path / "a.db", "create table t (id int, name text)",
                "insert into t values (1, 'x:y'), (2, null)")  # fmt: skip
    login = Login(JdbcAddress(Kind.SQLSERVER, path="//h:1433/d"))
    connection = AlchemyConnection(login, f"sqlite:///{tmp_path / 'a.db'}")
    try:
        statement = Statement(
            "select id, name, ':no' as s from t where id > {{v}} and ':x' <> name or id = 2",
            syntax_of(Kind.SQLSERVER),
        )
        rows = [row for batch in connection.run(statement, {"v": 0}) for row in batch.to_pylist()]
        assert rows == [{"id": 1, "name": "x:y", "s": ":no"}, {"id": 2, "name": None, "s": ":no"}]
        with pytest.raises(SourceError, match="no such table"):
            list(connection.run(Statement("select * from nope", syntax_of(Kind.SQLSERVER)), {}))
    finally:
        connection.close()


def test_duckdb_keeps_to_half_of_the_memory_of_its_worker() -> None:
    login = Login(JdbcAddress(Kind.DUCKDB), memory_bytes=2 * 1024**3)
    with closing(DuckdbConnection(login)) as connection:
        sql = "SELECT current_setting('memory_limit') AS a"
        (batch,) = connection.run(Statement(sql, connection.syntax), {})
    assert batch.to_pylist() == [{"a": "1.0 GiB"}]


def test_a_query_of_duckdb_that_needs_too_much_memory_says_so() -> None:
    login = Login(JdbcAddress(Kind.DUCKDB), memory_bytes=64 * 1024**2)
    with closing(DuckdbConnection(login)) as connection:
        sql = "SELECT string_agg(repeat('x', 1000), ',') AS a FROM range(1000000)"
        rows = connection.run(Statement(sql, connection.syntax), {})
        with pytest.raises(MemoryError):
            next(rows)
