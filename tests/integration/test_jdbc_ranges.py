"""A table cut into ranges of a key: each row is in exactly one, whatever the keys are."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from connectors.jdbc.session import JdbcSession, key_ranges
from connectors.jdbc.settings import JdbcSettings
from connectors.jdbc.splitting import between, even_ranges
from dil.errors import SourceContractError
from dil.model.secret import Secret
from dil.spi.connector import RequestValues
from tests.integration.jdbc_jobs import DatabaseJob, jdbc, read
from tests.integration.test_jdbc_files import duckdb_file, sqlite_file
from tests.servers.mariadb import PASSWORD as MARIADB_PASSWORD
from tests.servers.mariadb import MariadbServer
from tests.servers.postgresql import PASSWORD as POSTGRESQL_PASSWORD
from tests.servers.postgresql import PostgresqlServer


@given(st.integers(), st.integers(0, 10**6), st.integers(1, 50), st.integers())
def test_even_ranges_hold_each_key_once(least: int, span: int, count: int, key: int) -> None:
    ranges = even_ranges(least, least + span, count)
    assert len(ranges) == min(count, span + 1) + 1
    for each in (key, least, least + span, least - 1, least + span + 1):
        holding = [
            part for part in ranges if part != {"null": True}
            and part.get("low", each) <= each < part.get("high", each + 1)
        ]  # fmt: skip
        assert len(holding) == 1
    assert ranges.count({"null": True}) == 1


@given(st.lists(st.integers()).map(sorted))
def test_ranges_between_bounds_touch_and_have_no_outer_ends(bounds: list[int]) -> None:
    *ranges, nulls = between(bounds)
    assert nulls == {"null": True}
    assert "low" not in ranges[0]
    assert "high" not in ranges[-1]
    assert all(one["high"] == next_["low"] for one, next_ in pairwise(ranges))
    assert all(part["low"] < part["high"] for part in ranges[1:-1])


def rows_by_range(whole: JdbcSettings, count: int, *, by_quantile: bool) -> list[list[object]]:
    found = []
    for part in key_ranges(whole, count, by_quantile=by_quantile):
        settings_ = JdbcSettings(
            whole.uri, whole.statement, user=whole.user, password=whole.password,
            split_column=whole.split_column, part=part,
        )  # fmt: skip
        with JdbcSession(settings_) as session:
            batches = list(session.read(RequestValues({}, {})))
        found.append([row["k"] for batch in batches for row in batch.to_pylist()])
    return found


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    keys=st.lists(st.none() | st.integers(-50, 50), max_size=40)
    | st.lists(st.none() | st.text("ab1", max_size=3), max_size=40),
    count=st.integers(1, 6),
    by_quantile=st.booleans(),
)
def test_all_ranges_of_a_table_together_hold_each_row_once(
    keys: list[object], count: int, by_quantile: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("ranges") / "a.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        kind = "text" if any(isinstance(key, str) for key in keys) else "int"
        connection.execute(f"create table t (k {kind})")
        connection.executemany("insert into t values (?)", [(key,) for key in keys])
        connection.commit()
    whole = JdbcSettings(f"jdbc:sqlite:{path}", "select k from t;", split_column="k")
    parts = rows_by_range(whole, count, by_quantile=by_quantile or kind == "text")
    assert sorted((key for part in parts for key in part), key=repr) == sorted(keys, key=repr)


@pytest.mark.parametrize("server_name", ["postgresql_server", "mysql_server"])
@pytest.mark.parametrize("by_quantile", [True, False])
def test_servers_cut_a_table_as_well(
    server_name: str, by_quantile: bool, request: pytest.FixtureRequest
) -> None:
    server: PostgresqlServer | MariadbServer = request.getfixturevalue(server_name)
    is_postgresql = isinstance(server, PostgresqlServer)
    name = f"t{uuid.uuid4().hex[:12]}"
    url = jdbc(server.add_database(name))
    values = ", ".join(
        "(null)" if i % 50 == 7 else f"({9007199254740990 + i * i})" for i in range(400)
    )
    read(url, "create table t (k bigint)")
    read(url, f"insert into t values {values}")
    password = Secret(POSTGRESQL_PASSWORD if is_postgresql else MARIADB_PASSWORD)
    whole = JdbcSettings(url, "select k from t", "admin", password, split_column="k")
    parts = rows_by_range(whole, 4, by_quantile=by_quantile)
    assert [len(part) for part in parts][-1] == 8
    assert len(parts) == 5
    assert sorted(key for part in parts[:-1] for key in part) == [
        9007199254740990 + i * i for i in range(400) if i % 50 != 7
    ]
    if by_quantile:
        assert {len(part) for part in parts[:-1]} == {98}
    server.drop_database(name)


def test_keys_of_a_type_without_a_least_key_are_cut_by_quantile(
    postgresql_server: PostgresqlServer,
) -> None:
    name = f"t{uuid.uuid4().hex[:12]}"
    url = jdbc(postgresql_server.add_database(name))
    read(url, "create table t (k uuid)")
    read(url, "insert into t select md5(i::text)::uuid from generate_series(1, 40) i")
    whole = JdbcSettings(
        url, "select k from t", "admin", Secret(POSTGRESQL_PASSWORD), split_column="k"
    )
    parts = rows_by_range(whole, 4, by_quantile=True)
    assert [len(part) for part in parts] == [10, 10, 10, 10, 0]
    assert len({key for part in parts for key in part}) == 40
    with pytest.raises(SourceContractError, match="holds no whole numbers") as caught:
        key_ranges(whole, 4, by_quantile=False)
    assert "quantile" in caught.value.fix
    postgresql_server.drop_database(name)


def test_text_has_no_even_ranges(tmp_path: Path) -> None:
    url = sqlite_file(tmp_path / "a.db", "create table t (k text)", "insert into t values ('a')")
    with pytest.raises(SourceContractError, match="no whole numbers") as caught:
        key_ranges(JdbcSettings(url, "select k from t", split_column="k"), 4, by_quantile=False)
    assert "quantile" in caught.value.fix


@pytest.mark.parametrize("by", ["range", "quantile"])
def test_a_job_reads_each_row_once_one_work_unit_a_range(tmp_path: Path, by: str) -> None:
    rows = ", ".join(f"({number * number})" for number in range(1, 500))
    url = sqlite_file(
        tmp_path / "a.db", "create table t (id int)", f"insert into t values {rows}, (null), (null)"
    )
    job = DatabaseJob(
        tmp_path, url, "select id from t",
        ms__jdbc__partition__column="id", ms__jdbc__partitions="5", ms__jdbc__partition__by=by,
        ms__watermark="", ms__publish__mode="replace",
        ms__output__schema='[{"columnName":"id","dataType":{"type":"long"}}]',
    )  # fmt: skip
    for _ in range(2):  # the second run replaces what the first one published
        report = job.run()
        assert report.units.succeeded == 6
        found = job.table().column("id").to_pylist()
        assert found.count(None) == 2
        assert sorted(id_ for id_ in found if id_) == [number**2 for number in range(1, 500)]


@pytest.mark.parametrize("key", ["printf('%04d', id)", "id / 1e7", "id"])
def test_quantiles_of_an_expression_hold_each_row_once(tmp_path: Path, key: str) -> None:
    numbers = ", ".join(f"({number})" for number in range(1, 2001))
    url = sqlite_file(
        tmp_path / "a.db", "create table t (id int)", f"insert into t values {numbers}"
    )
    job = DatabaseJob(
        tmp_path, url, f"select id, {key} as k from t",
        ms__jdbc__partition__column="k", ms__jdbc__partitions="4",
        ms__jdbc__partition__by="quantile", ms__watermark="", ms__publish__mode="replace",
    )  # fmt: skip
    assert job.run().rows == 2000


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamptz"])
def test_times_beyond_the_calendar_of_python_are_cut_as_others(tmp_path: Path, kind: str) -> None:
    url = duckdb_file(
        tmp_path / "a.db", f"create table t (k {kind}, id int)",
        "insert into t values ('2024-01-01', 3), ('20000-01-01', 4), ('30000-01-01', 5),"
        " ('-0043-03-15', 1), ('-0042-03-15', 2), (null, 6)",
    )  # fmt: skip
    job = DatabaseJob(
        tmp_path, url, "select k, id from t",
        ms__jdbc__partition__column="k", ms__jdbc__partitions="5",
        ms__jdbc__partition__by="quantile", ms__watermark="", ms__publish__mode="replace",
    )  # fmt: skip
    report = job.run()
    assert report.failures == ()
    assert report.units.succeeded == 6
    assert sorted(job.table().column("id").to_pylist()) == [1, 2, 3, 4, 5, 6]


def test_keys_that_are_sorted_otherwise_than_compared_are_refused(
    tmp_path: Path, mysql_server: MariadbServer
) -> None:
    name = f"t{uuid.uuid4().hex[:12]}"
    url = mysql_server.add_database(name)
    try:
        read(jdbc(url), "create table t (e enum('z', 'm', 'a'))")
        read(jdbc(url), "insert into t values ('z'), ('z'), ('m'), ('m'), ('a'), ('a')")
        settings = JdbcSettings(
            uri=jdbc(url), statement="select * from t", user="admin",
            password=Secret(MARIADB_PASSWORD), split_column="e",
        )  # fmt: skip
        with pytest.raises(SourceContractError, match="sorted otherwise than they are compared"):
            key_ranges(settings, 3, by_quantile=True)
    finally:
        mysql_server.drop_database(name)
