"""Keys that rows on both sides of a page's edge share: told, and never passed over."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.jdbc.address import JdbcAddress
from connectors.jdbc.engine import Login
from connectors.jdbc.engines.alchemy import AlchemyConnection
from connectors.jdbc.engines.sqlite import SqliteConnection
from connectors.jdbc.statement import Statement
from connectors.jdbc.syntax import Kind
from connectors.jdbc.ties import TieWatch
from dil.errors import SourceContractError
from dil.model.json import JsonValue
from tests.integration.jdbc_jobs import DatabaseJob, jdbc, read
from tests.integration.test_jdbc_files import duckdb_file, sqlite_file
from tests.servers.databases import new_database
from tests.servers.mariadb import PASSWORD as MARIADB_PASSWORD


def flags_job(folder: Path, url: str, sql: str, key: str, initial: str) -> DatabaseJob:
    login = {"source__conn__username": "admin", "source__conn__password": MARIADB_PASSWORD}
    return DatabaseJob(
        folder, url, sql,
        # A backslash of a property file is doubled.
        ms__session__key__field=json.dumps({"name": key, "initValue": initial}).replace(
            "\\", "\\\\"
        ),
        ms__parameters=json.dumps([{"name": "cursor", "type": "session"}]),
        **(login if "mysql" in url else {}),
    )  # fmt: skip


@pytest.fixture(params=["mysql", "sqlite", "duckdb"])
def flags(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database with a table of booleans; of MySQL its tinyint(1) are booleans."""
    table = (
        "create table t (flag boolean, n int)",
        "insert into t values (false, 1), (true, 5), (true, 5), (true, 6)",
    )
    if request.param != "mysql":
        make = sqlite_file if request.param == "sqlite" else duckdb_file
        yield make(tmp_path / "a.db", *table)
        return
    with new_database(request.getfixturevalue("mysql_server")) as found:
        url = f"{jdbc(found)}?tinyInt1isBit=true"
        for statement in table:
            read(url, statement)
        yield url


def test_a_boolean_in_a_key_that_rows_behind_the_page_share_is_an_error(
    flags: str, tmp_path: Path
) -> None:
    sql = (
        "select flag, n from t where (flag, n) > ({{cursor.flag}}, {{cursor.n}})"
        " order by flag, n limit 2"
    )
    report = flags_job(tmp_path, flags, sql, "flag, n", "[false, 0]").run()
    assert "have the same flag, n: others" in report.failures[0].error


def test_a_boolean_leads_to_the_next_page(flags: str, tmp_path: Path) -> None:
    sql = "select distinct flag from t where flag < {{cursor}} order by flag desc limit 1"
    # What comes before all keys is a number, where a boolean is one.
    first, found = ("true", [False]) if "duckdb" in flags else ("2", [True, False])
    job = flags_job(tmp_path, flags, sql, "flag", first)
    assert job.run().failures == ()
    assert [bool(row["flag"]) for row in job.rows()] == found


class _Noting(SqliteConnection):
    """Notes what it is asked."""

    def __init__(self, login: Login) -> None:
        super().__init__(login)
        self.asked: list[str] = []

    def run(
        self, statement: Statement, variables: Mapping[str, JsonValue]
    ) -> Iterator[pa.RecordBatch]:
        self.asked.append(statement.template)
        yield from super().run(statement, variables)


def walked(path: Path, sql: str, edges: list[int]) -> list[str]:
    connection = _Noting(Login(JdbcAddress(Kind.SQLITE, path=str(path))))
    watch = TieWatch(connection, Kind.SQLITE, ("cursor",))
    statement = Statement(sql, connection.syntax)
    before = -1
    for edge in edges:
        watch.refuse(statement, {"cursor": before}, {"k": edge})
        before = edge
    connection.close()
    return connection.asked


def test_a_statement_that_groups_is_asked_once_where_its_keys_are_unique(tmp_path: Path) -> None:
    sqlite_file(
        tmp_path / "a.db", "create table t (g int, k int)",
        "insert into t values (1, 1), (1, 2), (2, 3), (3, 4), (4, 4), (5, 9)",
    )  # fmt: skip
    groups = "select g, max(k) as k from t where k < {} group by g having max(k) > {{{{cursor}}}}"
    unique = f"{groups.format(4)} order by 2 limit 1"
    assert len(walked(tmp_path / "a.db", unique, [2, 3])) == 1
    repeated = f"{groups.format(10)} order by 2 limit 1"
    assert len(walked(tmp_path / "a.db", repeated, [2, 3])) == 3
    with pytest.raises(SourceContractError, match="the same k: others"):
        walked(tmp_path / "a.db", repeated, [2, 3, 4])
    plain = "select g, k from t where k > {{cursor}} order by k limit 1"
    assert len(walked(tmp_path / "a.db", plain, [1, 2])) == 2


@pytest.mark.parametrize("kind", [Kind.SQLSERVER, Kind.ORACLE])
def test_databases_that_no_test_runs_against_are_asked_as_well(kind: Kind, tmp_path: Path) -> None:
    """The SQL is theirs; the database is one that takes their quotes."""
    sqlite_file(
        tmp_path / "a.db", "create table t (K int)", "insert into t values (1), (2), (2), (3)"
    )
    place = JdbcAddress(kind, path="//h:1/d")
    connection = AlchemyConnection(Login(place), f"sqlite:///{tmp_path / 'a.db'}")
    watch = TieWatch(connection, kind, ("cursor",))
    statement = Statement("select K from t order by K", connection.syntax)
    watch.refuse(statement, {}, {"k": 1})
    with pytest.raises(SourceContractError, match="the same k: others"):
        watch.refuse(statement, {}, {"k": 2})
    connection.close()
