"""Pages of servers that this project did not write: datasette, json-server, localstripe."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import requests

from dil.model.report import RunStatus
from tests.integration.dil_processes import report_of, run
from tests.integration.third_party_jobs import NOW_MS, ThirdPartyJob, read, refused
from tests.servers.third_party import datasette, json_server, localstripe

DAY_MS = 86_400_000
EVENTS = [
    {"id": number, "at": f"2024-01-{1 + number % 10:02d}", "note": None if number % 7 else 'x,"y"'}
    for number in range(5000)
]
POSTS = [{"id": number, "title": f"post {number}"} for number in range(250)]
KEY = {"method": "basic", "encryption": "base64"}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("datasette") / "shop.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create table events (id integer primary key, at text, note text)")
        connection.executemany("insert into events values (:id, :at, :note)", EVENTS)
    connection.close()
    return path


@pytest.fixture(scope="module")
def events(database: Path) -> Iterator[str]:
    with datasette(database.parent / "server", database) as server:
        yield f"{server.url}/shop/events"


@pytest.fixture(scope="module")
def blog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("json-server")
    database = folder / "db.json"
    database.write_text(json.dumps({"posts": POSTS, "comments": []}), encoding="utf-8")
    with json_server(folder / "server", database) as server:
        yield server.url


@pytest.fixture(scope="module")
def stripe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with localstripe(tmp_path_factory.mktemp("localstripe")) as server:
        yield server.url


# datasette


def test_the_address_of_the_next_page_in_the_body_is_followed(events: str, tmp_path: Path) -> None:
    uri = f"{events}.json?_shape=objects&_size=1000"
    facts = {"ms.pagination": {"next": "next_url"}, "ms.data.field": "rows"}
    assert read(tmp_path, uri, facts) == EVENTS


def test_the_link_header_is_followed(events: str, tmp_path: Path) -> None:
    uri = f"{events}.json?_shape=array&_size=1000"
    assert read(tmp_path, uri, {"ms.pagination": {"next": "link"}}) == EVENTS


def test_a_token_of_the_body_is_sent_as_a_parameter(events: str, tmp_path: Path) -> None:
    facts = {
        "ms.parameters": [
            {"name": "_shape", "value": "objects"},
            {"name": "_size", "type": "primitive", "value": 1000},
            {"name": "_next", "type": "session"},
        ],
        "ms.session.key.field": {"name": "next"},
        "ms.total.count.field": "filtered_table_rows_count",
        "ms.data.field": "rows",
    }
    assert read(tmp_path, f"{events}.json", facts) == EVENTS


def test_a_stream_of_csv_is_read_when_its_content_type_is_allowed(
    events: str, tmp_path: Path
) -> None:
    uri = f"{events}.csv?_stream=on"
    facts: dict[str, object] = {
        "ms.extractor.class": "csv",
        "ms.csv": {"columnHeaderIndex": 0, "linesToSkip": 1},
    }
    text = refused(tmp_path / "refused", uri, facts)
    assert "text/plain" in text

    facts["ms.http.response.type"] = {"Content-Type": "text/plain"}
    facts["ms.output.schema"] = [
        {"columnName": "id", "isNullable": False, "dataType": {"type": "long"}},
        {"columnName": "at", "isNullable": False, "dataType": {"type": "string"}},
        {"columnName": "note", "isNullable": True, "dataType": {"type": "string"}},
    ]
    assert read(tmp_path / "read", uri, facts) == EVENTS


@pytest.mark.spark
def test_days_are_asked_for_by_filter_and_the_next_run_asks_for_the_new_day_only(
    events: str, database: Path, tmp_path: Path
) -> None:
    facts = {
        "extract.table.type": "APPEND_ONLY",
        "ms.watermark": [
            {"name": "system", "type": "datetime", "range": {"from": "2024-01-01", "to": "P0D"}}
        ],
        "ms.work.unit.partition": "daily",
        "ms.parameters": [
            {"name": name, "type": "watermark", "watermark": "system", "value": value,
             "format": "datetime", "pattern": "yyyy-MM-dd"}
            for name, value in (("at__gte", "low"), ("at__lt", "high"))
        ],
        "ms.pagination": {"next": "next_url"},
        "ms.data.field": "rows",
    }  # fmt: skip
    job = ThirdPartyJob(tmp_path, f"{events}.json?_shape=objects&_size=100", facts)
    first = report_of(run(job.path, "2024-01-10T12:00:00Z"))
    assert (first["status"], first["work_units"]["planned"]) == ("success", 9)
    second = job.run(NOW_MS - 4 * DAY_MS)
    assert (second.status, second.units.planned) == (RunStatus.SUCCESS, 1)
    found = Counter(row["id"] for row in job.rows())
    assert found == Counter(range(5000))


# json-server


def test_pages_are_walked_by_the_link_header_beside_other_links(blog: str, tmp_path: Path) -> None:
    facts = {"ms.pagination": {"next": "link"}}
    assert read(tmp_path, f"{blog}/posts?_page=1&_limit=100", facts) == POSTS


def test_pages_are_walked_by_number_until_a_short_one(blog: str, tmp_path: Path) -> None:
    facts = {
        "ms.parameters": [
            {"name": "_page", "type": "pageno"},
            {"name": "_limit", "type": "pagesize"},
        ],
        "ms.pagination": {"initialvalues": [0, 100, 1], "stopOnShortPage": True},
    }
    assert read(tmp_path, f"{blog}/posts", facts) == POSTS


def test_rows_that_were_posted_can_be_read_back(blog: str, tmp_path: Path) -> None:
    comments = [{"text": f"comment {number}", "post": number, "rate": 0.1} for number in range(5)]
    lines = "".join(f"{json.dumps(row)}\n" for row in comments)
    (tmp_path / "comments.json").write_text(lines, encoding="utf-8")
    facts = {
        "ms.http.request.method": "POST",
        "ms.secondary.input": [
            {"path": "../comments.json", "fields": ["text", "post", "rate"], "category": "payload"}
        ],
    }
    answers = read(tmp_path / "send", f"{blog}/comments", facts)
    assert answers == [{**row, "id": number} for number, row in enumerate(comments, 1)]
    assert read(tmp_path / "back", f"{blog}/comments") == answers


# localstripe


def customers(url: str) -> list[str]:
    found = requests.get(f"{url}/v1/customers?limit=100", auth=("sk_test_1", ""), timeout=10)
    return [each["email"] for each in found.json()["data"]]


def test_form_posts_make_customers_and_the_last_id_of_a_page_is_the_cursor_of_the_next(
    stripe: str, tmp_path: Path
) -> None:
    mails = [f"{number}+a&b@shop.example" for number in range(25)]
    lines = "".join(f"{json.dumps({'email': mail})}\n" for mail in mails)
    (tmp_path / "mails.json").write_text(lines, encoding="utf-8")
    key = {
        "source.conn.username": "sk_test_1",
        "source.conn.password": "",
        "ms.authentication": KEY,
    }
    schema = [
        {"columnName": name, "isNullable": False, "dataType": {"type": "string"}}
        for name in ("id", "email")
    ]
    send = {
        **key,
        "ms.output.schema": schema,
        "ms.http.request.method": "POST",
        "ms.http.request.headers": {"Content-Type": "application/x-www-form-urlencoded"},
        "ms.http.idempotency.header": "Idempotency-Key",
        "ms.secondary.input": [
            {"path": "../mails.json", "fields": ["email"], "category": "payload"}
        ],
    }
    made = read(tmp_path / "send", f"{stripe}/v1/customers", send)
    assert [row["email"] for row in made] == mails

    walk = {
        **key,
        "ms.output.schema": schema,
        "ms.data.field": "data",
        "ms.parameters": [
            {"name": "limit", "type": "pagesize"},
            {"name": "starting_after", "type": "session"},
        ],
        "ms.pagination": {"initialvalues": [0, 10], "more": "has_more"},
        "ms.session.key.field": {"name": "data.-1.id"},
    }
    assert sorted(customers(stripe)) == sorted(mails)
    found = read(tmp_path / "back", f"{stripe}/v1/customers", walk)
    assert Counter(row["email"] for row in found) == Counter(mails)
