"""Whole jobs over databases: paging, schemas, encrypted addresses, what is refused at start."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.jdbc import JdbcConnector
from dil.errors import ConfigError, SourceContractError
from dil.secrets.authenticated import Encryptor
from tests.integration.jdbc_jobs import DatabaseJob, read
from tests.integration.test_jdbc_files import duckdb_file, sqlite_file

ROWS = 2500
MANY = ["create table t (id integer primary key, name text)",
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 2500)"
        " insert into t select i, 'name ' || i from n"]  # fmt: skip
OFFSET = {
    "ms__pagination": '{"initialvalues": [0, 1000]}',
    "ms__parameters": json.dumps(
        [{"name": "start", "type": "pagestart"}, {"name": "size", "type": "pagesize"}]
    ),
}


def cursor(name: str, initial: str, size: int = 1000) -> dict[str, str]:
    return {
        "ms__session__key__field": json.dumps({"name": name, "initValue": initial}),
        "ms__parameters": json.dumps([{"name": "cursor", "type": "session"}]),
    }


def problems(job: DatabaseJob, **changes: str) -> str:
    with pytest.raises(ConfigError) as caught:
        job.job(**changes)
    return str(caught.value)


def test_rows_of_a_statement_are_published(tmp_path: Path) -> None:
    url = sqlite_file(tmp_path / "a.db", *MANY)
    job = DatabaseJob(tmp_path, url, "select id, name as label from t order by id")
    assert job.run().rows == ROWS
    assert job.table().to_pydict() == {
        "id": list(range(1, ROWS + 1)), "label": [f"name {i}" for i in range(1, ROWS + 1)]
    }  # fmt: skip


def test_a_relative_path_begins_at_the_folder_of_the_job_file(tmp_path: Path) -> None:
    sqlite_file(tmp_path / "a.db", *MANY)
    job = DatabaseJob(tmp_path, "jdbc:sqlite:a.db", "select count(*) as n from t")
    job.run()
    assert job.rows() == [{"n": ROWS}]


def test_pages_by_limit_and_offset_bring_each_row_once(tmp_path: Path) -> None:
    url = sqlite_file(tmp_path / "a.db", *MANY)
    sql = "select id from t order by id limit {{size}} offset {{start}}"
    job = DatabaseJob(tmp_path, url, sql, **OFFSET)
    report = job.run()
    assert report.rows == ROWS
    assert job.table().column("id").to_pylist() == list(range(1, ROWS + 1))


def test_paging_without_page_variables_reads_the_one_page(tmp_path: Path) -> None:
    url = sqlite_file(tmp_path / "a.db", *MANY)
    job = DatabaseJob(tmp_path, url, "select id from t", **OFFSET)
    assert job.run().rows == ROWS


def test_pages_by_key_bring_each_row_once(tmp_path: Path) -> None:
    url = sqlite_file(tmp_path / "a.db", *MANY)
    sql = "select id, name from t where id > {{cursor}} order by id limit 1000"
    job = DatabaseJob(tmp_path, url, sql, **cursor("id", "0"))
    assert job.run().rows == ROWS
    assert job.table().column("id").to_pylist() == list(range(1, ROWS + 1))


@pytest.mark.parametrize("make", [sqlite_file, duckdb_file])
@pytest.mark.parametrize("key", ["k", "k || ''"])
def test_keys_of_digits_that_are_text_are_compared_as_text(
    tmp_path: Path, make: Callable[..., str], key: str
) -> None:
    values = ", ".join(f"('{i}')" for i in range(500))
    url = make(tmp_path / "a.db", "create table t (k varchar)", f"insert into t values {values}")
    sql = f"select {key} as k from t where {key} > {{{{cursor}}}} order by 1 limit 90"
    job = DatabaseJob(tmp_path, url, sql, **cursor("k", ""))
    assert job.run().rows == 500
    assert job.table().column("k").to_pylist() == sorted(map(str, range(500)))


@pytest.mark.parametrize("factor", ["0.1", "1e300", "-0.5"])
def test_keys_of_fractions_are_compared_as_numbers(tmp_path: Path, factor: str) -> None:
    url = sqlite_file(tmp_path / "a.db", *MANY)
    key = f"id * {factor}"
    sql = f"select {key} as k from t where {key} > {{{{cursor}}}} order by 1 limit 900"
    job = DatabaseJob(tmp_path, url, sql, **cursor("k", "-9999"))
    assert job.run().rows == ROWS
    assert sorted(job.table().column("k").to_pylist()) == sorted(
        id_ * float(factor) for id_ in range(1, ROWS + 1)
    )


def test_a_key_that_is_not_unique_is_an_error_and_loses_no_row(tmp_path: Path) -> None:
    url = sqlite_file(tmp_path / "a.db", *MANY)
    sql = "select id / 7 as k from t where id / 7 > {{cursor}} order by 1 limit 1000"
    report = DatabaseJob(tmp_path, url, sql, **cursor("k", "-1")).run()
    assert "the last two rows of a page have the same k" in report.failures[0].error


@pytest.mark.parametrize("make", [sqlite_file, duckdb_file])
@pytest.mark.parametrize(
    ("column", "keys"),
    [("int", [1, 2, 3, 3, 4]), ("varchar", ["a", "b", "c", "c", "d"]),
     ("varchar collate nocase", ["a", "b", "c", "C", "d"]),
     ("varchar collate nocase", ["a", "c", "C", "c", "d"])],
)  # fmt: skip
def test_a_key_that_rows_behind_the_page_share_is_an_error_and_loses_no_row(
    tmp_path: Path, make: Callable[..., str], column: str, keys: list[object]
) -> None:
    values = ", ".join(f"('{key}')" for key in keys)
    url = make(tmp_path / "a.db", f"create table t (k {column})", f"insert into t values {values}")
    sql = 'select k as "The Key" from t where k > {{cursor}} order by k limit 3 -- three'
    job = DatabaseJob(
        tmp_path, url, sql, ms__jdbc__schema__refactor="toupper", **cursor("THE_KEY", "0")
    )
    assert "to the database, the last row of a page and another" in job.run().failures[0].error


def test_a_key_beyond_the_calendar_of_python_leads_to_the_next_page(tmp_path: Path) -> None:
    url = duckdb_file(
        tmp_path / "a.db", "create table t (k timestamp, id int)",
        "insert into t values ('2024-01-01', 2), ('20000-01-01', 3), ('-0043-03-15', 1)",
    )  # fmt: skip
    sql = "select k, id from t where k > {{cursor}} order by k limit 1"
    job = DatabaseJob(tmp_path, url, sql, **cursor("k", "-3000-01-01"))
    assert job.run().failures == ()
    assert job.table().column("id").to_pylist() == [1, 2, 3]


def test_a_key_that_is_null_is_an_error_and_loses_no_row(tmp_path: Path) -> None:
    url = sqlite_file(tmp_path / "a.db", *MANY)
    sql = "select nullif(id, 1000) as k from t where id > {{cursor}} order by id limit 1000"
    report = DatabaseJob(tmp_path, url, sql, **cursor("k", "0")).run()
    assert "the key of the last row of a page, k, is null" in report.failures[0].error


def test_a_key_that_the_result_has_not_is_an_error(tmp_path: Path) -> None:
    url = sqlite_file(tmp_path / "a.db", *MANY)
    sql = "select name from t where id > {{cursor}} order by id limit 1000"
    report = DatabaseJob(tmp_path, url, sql, **cursor("id", "0")).run()
    assert 'no column "id", which ms.session.key.field names' in report.failures[0].error


def test_a_key_of_several_columns_is_taken_apart(tmp_path: Path) -> None:
    url = sqlite_file(tmp_path / "a.db", *MANY)
    found = read(
        url,
        "select id % 10 as k, id from t where (k, id) > ({{cursor.k}}, {{cursor.id}})"
        " order by k, id limit 3",
        {"cursor": "[4, 14]"},
        cursors=("cursor",),
        key_columns=("k", "id"),
    )
    assert found.column("id").to_pylist() == [24, 34, 44]
    with pytest.raises(ConfigError, match="no JSON array of as many values"):
        read(url, "select {{cursor.k}}", {"cursor": "4"}, cursors=("cursor",),
             key_columns=("k", "id"))  # fmt: skip


def test_pages_of_a_key_of_several_columns_hold_each_row_once(tmp_path: Path) -> None:
    url = sqlite_file(tmp_path / "a.db", *MANY)
    sql = (
        "select id % 7 as k, id from t where (k, id) > ({{cursor.k}}, {{cursor.id}})"
        " order by k, id limit 700"
    )
    job = DatabaseJob(tmp_path, url, sql, **cursor("k, id", "[-1, 0]"))
    assert job.run().rows == ROWS
    assert sorted(job.table().column("id").to_pylist()) == list(range(1, ROWS + 1))


def test_time_windows_reach_the_statement(tmp_path: Path) -> None:
    url = sqlite_file(
        tmp_path / "a.db", "create table t (at text)",
        "insert into t values ('2024-12-30'), ('2024-12-31'), ('2025-01-01')",
    )  # fmt: skip
    job = DatabaseJob(
        tmp_path, url, "select at from t where at >= '{{low}}' and at < {{high}}",
        ms__parameters=json.dumps([
            {"name": each, "type": "watermark", "value": each, "format": "datetime",
             "pattern": "yyyy-MM-dd", "timezone": "UTC"} for each in ("low", "high")
        ]),
    )  # fmt: skip
    job.run()
    assert job.rows() == [{"at": "2024-12-31"}]


def test_letters_of_names_follow_the_job(tmp_path: Path) -> None:
    url = sqlite_file(tmp_path / "a.db", "create table t (Id int)", "insert into t values (1)")
    job = DatabaseJob(tmp_path, url, 'select Id, 2 as "a b" from t')
    job.run(ms__jdbc__schema__refactor="TOUPPER")
    assert job.rows() == [{"ID": 1, "A_B": 2}]


@pytest.mark.parametrize("output", ["PARQUET", "AVRO", "ORC", "JSON", "CSV"])
def test_native_types_reach_every_format(tmp_path: Path, output: str) -> None:
    url = duckdb_file(tmp_path / "a.duckdb")
    sql = (
        "select 12345678901234567.89::decimal(19, 2) price, date '2020-02-29' as day,"
        " timestamptz '2020-01-01 00:00:00.123456Z' seen, timestamp '2020-01-01 10:00:00' local,"
        " time '12:30:00' clock, 'x'::blob raw, 18446744073709551615::ubigint big, [1, 2] list"
    )
    job = DatabaseJob(tmp_path, url, sql, writer__output__format=output)
    report = job.run()
    assert report.failures == ()
    assert report.rows == 1
    if output == "PARQUET":
        assert job.rows() == [{
            "price": Decimal("12345678901234567.89"), "day": dt.date(2020, 2, 29),
            "seen": dt.datetime(2020, 1, 1, 0, 0, 0, 123456, tzinfo=dt.UTC),
            "local": dt.datetime(2020, 1, 1, 10, tzinfo=dt.UTC), "clock": dt.time(12, 30),
            "raw": b"x", "big": 18446744073709551615, "list": [1, 2],
        }]  # fmt: skip


DECLARED = [
    {"columnName": "price", "isNullable": "true",
     "dataType": {"type": "decimal", "precision": 20, "scale": 2}},
    {"columnName": "day", "isNullable": "true", "dataType": {"type": "date"}},
    {"columnName": "seen", "isNullable": "true", "dataType": {"type": "timestamp"}},
    {"columnName": "id", "isNullable": "false", "dataType": {"type": "int"}},
]  # fmt: skip
TYPED = (
    "select {{id}}::bigint as id, 1.5::decimal(5, 2) price, date '2020-02-29' as day,"
    " timestamptz '2020-01-01 00:00:00.123456Z' seen, 'extra' as other"
)


def declared_job(tmp_path: Path, value: int, **changes: str) -> DatabaseJob:
    return DatabaseJob(
        tmp_path, duckdb_file(tmp_path / "a.duckdb"), TYPED,
        ms__output__schema=json.dumps(DECLARED),
        ms__parameters=json.dumps([{"name": "id", "type": "primitive", "value": value}]),
        **changes,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["evolve", "freeze", "discard_row", "discard_value"])
def test_a_declared_schema_types_native_columns_under_every_contract(
    tmp_path: Path, mode: str
) -> None:
    job = declared_job(tmp_path, 7, ms__schema__contract=mode)
    assert job.run().failures == ()
    assert job.rows() == [{
        "price": Decimal("1.50"), "day": dt.date(2020, 2, 29),
        "seen": dt.datetime(2020, 1, 1, 0, 0, 0, 123456, tzinfo=dt.UTC), "id": 7,
    }]  # fmt: skip
    assert job.table().schema.field("id").type == pa.int32()
    assert job.table().schema.field("price").type == pa.decimal128(20, 2)


@pytest.mark.parametrize("mode", ["evolve", "freeze"])
def test_a_value_that_does_not_fit_the_declared_type_fails_with_its_column(
    tmp_path: Path, mode: str
) -> None:
    report = declared_job(tmp_path, 2**40, ms__schema__contract=mode).run()
    assert '"id"' in report.failures[0].error


def test_a_declared_column_that_the_result_has_not_is_an_error(tmp_path: Path) -> None:
    job = declared_job(tmp_path, 1)
    report = job.run(ms__jdbc__statement="select 1 as id")
    assert 'no column "price", which ms.output.schema names' in report.failures[0].error


def test_a_second_run_keeps_the_types_of_the_dataset(tmp_path: Path) -> None:
    url = sqlite_file(tmp_path / "a.db", "create table t (v)", "insert into t values (1.5)")
    job = DatabaseJob(tmp_path, url, "select v from t", ms__schema__contract="evolve")
    job.run()
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection, connection:
        connection.execute("update t set v = 2")
    job.run(ms__backfill="true")
    assert job.table().schema.field("v").type == pa.float64()
    assert sorted(row["v"] for row in job.rows()) == [1.5, 2.0]


def test_a_column_whose_values_change_their_kind_loses_nothing(tmp_path: Path) -> None:
    url = sqlite_file(
        tmp_path / "a.db", "create table t (id integer primary key, v)",
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 40000)"
        " insert into t (v) select i from n", "update t set v = 'text' where id = 39999",
        "update t set v = null where id < 20000",
    )  # fmt: skip
    job = DatabaseJob(tmp_path, url, "select v from t order by id")
    assert job.run().rows == 40000
    values = job.table().column("v").to_pylist()
    assert values[:19999] == [None] * 19999
    assert [str(v) for v in values[19999:]] == [
        "text" if i == 39999 else str(i) for i in range(20000, 40001)
    ]


def test_a_time_without_a_zone_that_the_zone_of_the_job_has_not_is_an_error(
    tmp_path: Path,
) -> None:
    url = duckdb_file(tmp_path / "a.duckdb")
    job = DatabaseJob(tmp_path, url, "select timestamp '2021-03-14 02:30:00' as local")
    report = job.run(converter__avro__date__timezone="America/Los_Angeles")
    assert '"local"' in report.failures[0].error


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"ms__source__uri": "jdbc://host/db"}, "does not say which database it is"),
        ({"ms__source__uri": "jdbc:db2://h/d"}, "jdbc:db2:, which is not known"),
        ({"ms__jdbc__statement": ""}, "is not set"),
        ({"ms__jdbc__statement": "select 1; select 2"}, "has 2 statements"),
        ({"ms__jdbc__statement": "select 'a"}, "without its counterpart"),
        ({"ms__extractor__class": "avro"}, "does not go with a database"),
        (cursor("id", "0"), "uses no parameter of type session"),
        ({**OFFSET, "ms__jdbc__statement": "select 1 limit {{size}}"}, "only the first rows"),
        (
            {
                **cursor("id", "0"), "ms__session__key__field": '{"name": "id"}',
                "ms__jdbc__statement": "select id from t where id > {{cursor}}",
            },
            "has no initValue",
        ),
        (
            {"ms__parameters": '[{"name": "cursor", "type": "session", "format": "json"}]'},
            "has format json",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_before_the_run(
    tmp_path: Path, changes: dict[str, str], what: str
) -> None:
    assert what in problems(DatabaseJob(tmp_path, "jdbc:sqlite:a.db", "select 1"), **changes)


def test_an_error_of_the_database_shows_no_value(tmp_path: Path) -> None:
    url = sqlite_file(tmp_path / "a.db", *MANY)
    with pytest.raises(SourceContractError) as caught:
        read(url, "select 1 as a, 2 as a where 'secret' = {{v}} or true", {"v": "secret"})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("purpose", ["", "ms.source.uri"])
def test_the_whole_address_may_be_encrypted(tmp_path: Path, purpose: str) -> None:
    url = sqlite_file(tmp_path / "a.db", *MANY)
    (tmp_path / "master").write_text("master password\n")
    job = DatabaseJob(
        tmp_path, Encryptor.of("master password").encrypt(url, purpose),
        "select count(*) as n from t",
        encrypt__key__loc=str(tmp_path / "master"),
    )  # fmt: skip
    job.run()
    assert job.rows() == [{"n": ROWS}]


@pytest.mark.parametrize(
    ("sql", "changes"),
    [("select 1", False), ("insert into t values (1)", True), ("select 'a", True)],
)
def test_a_look_at_the_source_wants_leave_for_what_is_no_query(
    tmp_path: Path, sql: str, changes: bool
) -> None:
    job = DatabaseJob(tmp_path, "jdbc:sqlite:a.db", "select 1").job()
    properties = job.properties.having("ms.jdbc.statement", sql)
    problem = JdbcConnector.changes(replace(job, properties=properties))
    assert (problem is not None) is changes


def test_a_page_that_begins_with_the_row_before_it_is_an_error(tmp_path: Path) -> None:
    url = sqlite_file(tmp_path / "a.db", *MANY)
    sql = "select id from t where id >= {{cursor}} order by id limit 700"
    report = DatabaseJob(tmp_path, url, sql, **cursor("id", "0")).run()
    assert "begins with the row that the page before ended with" in report.failures[0].error


@pytest.mark.parametrize(
    ("value", "kind", "found"),
    [("12.345", ("decimal", 10, 2), None), ("0.1", ("decimal", 38, 18), "0.1"),
     ("1e300", ("float",), None), ("0.5", ("float",), "0.5")],
)  # fmt: skip
def test_a_number_that_the_columns_type_does_not_hold_is_an_error(
    tmp_path: Path, value: str, kind: tuple[object, ...], found: str | None
) -> None:
    url = sqlite_file(
        tmp_path / "a.db", "create table t (r real)", f"insert into t values ({value})"
    )
    word, *digits = kind
    data_type = {"type": word, **dict(zip(("precision", "scale"), digits, strict=False))}
    schema = json.dumps([{"columnName": "r", "dataType": data_type}])
    job = DatabaseJob(tmp_path, url, "select r from t", ms__output__schema=schema)
    report = job.run()
    if found is None:
        assert report.failures[0].code == "DIL-CONVERT"
    else:
        assert float(job.rows()[0]["r"]) == float(found)
