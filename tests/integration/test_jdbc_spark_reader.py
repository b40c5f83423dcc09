"""Rows read by Spark and a JDBC driver's jar: as the Python driver reads them, or an error.

All jobs run in one process, one after the other; the tests look at what came of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.jdbc_jobs import DatabaseJob, jdbc
from tests.integration.local_jobs import NOW
from tests.integration.spark_runs import reports_of
from tests.servers.databases import new_database
from tests.servers.postgresql import PASSWORD, PostgresqlServer

JAR = Path("/usr/share/java/postgresql.jar")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        not JAR.exists(), reason=f"no {JAR}: apt-get install libpostgresql-jdbc-java"
    ),
]

TYPED = """
create table typed (i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric(30,9), b bool,
  t text, v varchar(9), y bytea, d date, ts timestamp, tz timestamptz, u uuid, a int4[]);
insert into typed values
  (-32768, -2147483648, -9223372036854775808, 0.1, 0.1, 123456789012345678901.123456789, true,
   'it''s "ä" € \\', 'x', '\\x00ff', '1500-03-01', '1883-11-18 12:03:58.123456',
   '1500-03-01 00:00:00+00', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{1,null}'),
  (1, 2, 3, 1.5, 1e300, 0.000000001, false, '', 'é', '', '9999-12-31', '2024-03-31 02:30:00',
   '2024-10-27 00:30:00.000001+00', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12', '{}'),
  (null, null, null, null, null, null, null, null, null, null, null, null, null, null, null);
"""
DAYS = json.dumps(
    [
        {"name": "s", "type": "datetime", "range": {"from": "2024-12-29", "to": "P0D"}},
        {"name": "who", "type": "unit", "units": "a,o'b' or 1=1 --"},
    ]
)
VALUES = json.dumps(
    [
        {"name": name, "type": "watermark", "value": name, "format": "datetime",
         "pattern": "yyyy-MM-dd HH:mm:ss"}
        for name in ("low", "high")
    ]
    + [{"name": "who"}]
)  # fmt: skip


@pytest.fixture(scope="module")
def url(postgresql_server: PostgresqlServer) -> Iterator[str]:
    postgresql_server.hash_as_usual()
    with new_database(postgresql_server) as url:
        yield url


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("jobs")


def job(folder: Path, name: str, url: str, statement: str, **properties: str) -> DatabaseJob:
    facts = {
        "ms__jdbc__reader": "spark",
        "ms__jdbc__driver__jar": str(JAR),
        "source__conn__username": "admin",
        "source__conn__password": PASSWORD,
        "taskexecutor__threadpool__size": "2",
        **properties,
    }
    return DatabaseJob(folder / name, jdbc(url), statement, **facts)


@pytest.fixture(scope="module")
def jobs(url: str, folder: Path, postgresql_server: PostgresqlServer) -> dict[str, DatabaseJob]:
    database = url.rpartition("/")[2]
    postgresql_server.execute(TYPED, database)
    postgresql_server.execute(
        "create table logged as select g as id,"
        " case when g % 2 = 0 then 'a' else 'o''b'' or 1=1 --' end as who,"
        " timestamp '2024-12-29' + g * interval '1 hour' as at"
        " from generate_series(0, 71) g",
        database,
    )
    by_unit = {
        "ms__watermark": json.dumps(
            [
                {"name": "s", "type": "datetime", "range": {"from": "2024-12-31", "to": "P0D"}},
                {"name": "last", "type": "unit", "units": "100,40000,5"},
            ]
        ),
        "ms__parameters": json.dumps([{"name": "last"}]),
        "job__commit__policy": "successful",
    }
    late = "select g as id, 1 / (30000 - g) as x from generate_series(1, {{last}}::int) g"
    return {
        # The first one: no driver is known yet.
        "no driver": job(folder, "no-driver", url, "select 1 as x", ms__jdbc__driver__jar=""),
        "types": job(folder, "types", url, "select * from typed"),
        "nothing": job(folder, "nothing", url, "select * from typed where false"),
        "password": job(
            folder, "password", url, "select 1 as x", source__conn__password="not-mine"
        ),
        "no jar": job(folder, "no-jar", url, "select 1 as x", ms__jdbc__driver__jar="gone.jar"),
        "rounded": job(folder, "rounded", url, "select 1.5::numeric as x"),
        "no table": job(folder, "no-table", url, "select * from nowhere"),
        "unfit": job(
            folder, "unfit", url, "select g::text as x from generate_series(1, 100000) g",
            ms__output__schema=json.dumps(
                [{"columnName": "x", "isNullable": "true", "dataType": {"type": "boolean"}}]
            ),
        ),
        # Of several work units: with more threads, Spark starts anew.
        "windows": job(
            folder, "windows", url,
            "select * from logged where at >= {{low}} and at < {{high}} and who = {{who}}"
            " and '{{who}}' = who",
            ms__watermark=DAYS, ms__parameters=VALUES, ms__work__unit__partition="daily",
        ),
        "breaks off": job(
            folder, "late", url, late, task__maxretries="1", task__retry__intervalinsec="0",
            **by_unit,
        ),
    }  # fmt: skip


@pytest.fixture(scope="module")
def reports(jobs: dict[str, DatabaseJob]) -> dict[str, dict[str, Any]]:
    return reports_of({name: Path(each.job().path) for name, each in jobs.items()}, NOW)


def failure(report: dict[str, Any]) -> str:
    """Return the one failure of a run, with what to do about it."""
    assert report["status"] == "failed"
    (found,) = report["failures"]
    return f"{found['code']}: {found['error']} {found.get('fix', '')}"


def test_values_of_many_types_are_those_that_the_driver_reads(
    jobs: dict[str, DatabaseJob], reports: dict[str, dict[str, Any]], url: str, folder: Path
) -> None:
    assert reports["types"]["status"] == "success", reports["types"]
    other = job(
        folder, "driver", url, "select * from typed",
        ms__jdbc__reader="driver", ms__jdbc__driver__jar="",
    )  # fmt: skip
    assert other.run().status == "success"
    assert jobs["types"].rows() == other.rows()


def test_each_work_unit_reads_its_own_window_and_values_stay_values(
    jobs: dict[str, DatabaseJob], reports: dict[str, dict[str, Any]]
) -> None:
    assert reports["windows"]["status"] == "success", reports["windows"]
    assert reports["windows"]["units"]["succeeded"] == 6
    assert sorted(row["id"] for row in jobs["windows"].rows()) == list(range(72))


def test_a_result_without_rows_is_a_success(reports: dict[str, dict[str, Any]]) -> None:
    assert reports["nothing"]["status"] == "success", reports["nothing"]
    assert reports["nothing"]["rows"] == 0


def test_a_work_unit_whose_rows_break_off_fails_alone(
    jobs: dict[str, DatabaseJob], reports: dict[str, dict[str, Any]]
) -> None:
    """Thousands of its rows had come before the database refused the rest."""
    report = reports["breaks off"]
    assert (report["status"], report["retries"]) == ("partial", 1)
    (found,) = report["failures"]
    assert (found["code"], "40000" in found["signature"]) == ("DIL-SRC", True)
    assert "division by zero (SQLSTATE 22012)" in found["error"]
    assert sorted(row["id"] for row in jobs["breaks off"].rows()) == sorted(
        [*range(1, 101), *range(1, 6)]
    )


def test_a_refused_user_is_told_without_the_password(reports: dict[str, dict[str, Any]]) -> None:
    told = failure(reports["password"])
    assert told.startswith("DIL-SRC-AUTH: jdbc:postgresql://127.0.0.1:")
    assert "not-mine" not in json.dumps(reports["password"])


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("no jar", "DIL-CONFIG", "gone.jar, which is no jar or does not exist"),
        ("no driver", "DIL-CONFIG", "Spark does not find the JDBC driver"),
        ("rounded", "DIL-SRC-CONTRACT", 'column "x": Spark does not keep the scale of its numbers'),
        ("no table", "DIL-SRC", 'relation "nowhere" does not exist'),
        ("unfit", "DIL-CONVERT", "x"),
    ],
)
def test_what_cannot_be_read_is_one_clear_error(
    reports: dict[str, dict[str, Any]], name: str, code: str, words: str
) -> None:
    told = failure(reports[name])
    assert told.startswith(f"{code}: ")
    assert words in told
