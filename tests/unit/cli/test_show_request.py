"""The whole request, before it is sent and when it failed: `preview`, `check`, `plan`, the log."""

from __future__ import annotations

import json
import logging
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.model.secret import Secret
from dil.observe import logs
from dil.observe.redaction import redactor
from dil.spi.connector import RequestValues, Session
from dil.spi.request_view import RequestView
from dil.task.request_log import request_log
from tests.jobs import write_job
from tests.servers.http_server import Fault, HttpServer
from tests.servers.rows import DAY_MS, START_MS, Dataset
from tests.stories import Story, day

NOW = ("--now", "2020-01-03T00:00:00Z")
TOKEN = "t0p-s3cret-word"
BEARER = json.dumps({"method": "bearer", "encryption": "", "token": TOKEN})


@pytest.fixture
def source() -> Iterator[HttpServer]:
    with HttpServer(Dataset.generate(50, units=("a", "b"), step_ms=60_000)) as server:
        yield server


def planned(capsys: pytest.CaptureFixture[str], job: Path, *flags: str) -> dict[str, object]:
    """Return the first request that a plan shows."""
    capsys.readouterr()
    assert main(["plan", str(job), *NOW, "--show-request", "--json", *flags]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)["request"]
    return found


def read_files(folder: Path, uri: str, **changes: str) -> Path:
    facts = {"ms__extractor__class": "text", "ms__session__key__field": "", "ms__parameters": "[]"}
    return write_job(folder, "", **{**facts, "ms__source__uri": uri, **changes})


def test_a_preview_shows_addresses_with_values_and_headers_with_masks(source, tmp_path, capsys):
    job = write_job(
        tmp_path,
        source.url,
        ms__authentication=BEARER,
        ms__http__request__headers=f'{{"X-Key": "{TOKEN}", "Accept": "application/json"}}',
    )
    assert main(["preview", str(job), *NOW, "--rows", "1"]) == 0
    shown = capsys.readouterr().out
    assert f"GET {source.url}/records?unit=a&since={START_MS}&" in shown
    assert "    Accept: application/json\n" in shown
    assert "    Authorization: Bearer ***\n" in shown
    assert "curl" not in shown
    assert TOKEN not in shown


@pytest.mark.parametrize("command", ["preview", "check"])
def test_a_curl_line_asks_the_same_when_its_masks_are_filled_in(
    command: str, source, tmp_path, capsys
):
    job = write_job(tmp_path, source.url, ms__authentication=BEARER)
    assert main([command, str(job), *NOW, "--show-request"]) == 0
    shown = capsys.readouterr().out
    assert TOKEN not in shown
    [line] = [each for each in shown.splitlines() if each.strip().startswith("curl")]
    words = shlex.split(line)
    assert words[:3] == ["curl", "-X", "GET"]
    assert "Authorization: Bearer ***" in words
    asked = source.count("/records")
    subprocess.run([*words[:1], "-sf", *words[1:]], check=True, stdout=subprocess.DEVNULL)
    assert source.count("/records") == asked + 1
    first, last = source.requests[0], source.requests[-1]
    assert (last.method, last.path, last.query) == (first.method, first.path, first.query)


def test_a_request_that_fails_is_shown_with_its_failure(source, tmp_path, capsys):
    source.faults.append(Fault(kind="status", status=403))
    job = write_job(tmp_path, source.url, ms__authentication=BEARER)
    assert main(["preview", str(job), *NOW]) == 1
    shown = capsys.readouterr().err
    assert f"the request was:\nGET {source.url}/records?unit=a&since={START_MS}&" in shown
    assert TOKEN not in shown


def test_a_preview_goes_on_to_a_due_work_unit_with_rows(tmp_path, capsys):
    rows = Dataset.generate(3, units=("a", "b"), start_ms=START_MS + DAY_MS)
    with HttpServer(rows) as late:
        job = write_job(tmp_path, late.url)
        assert main(["preview", str(job), *NOW, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [row["unit"] for row in found["rows"]] == ["a", "a", "a"]
        assert found["low"] == START_MS + DAY_MS
        assert "the first 2 due work units had no rows" in found["notes"][-1]
    with HttpServer(Dataset.generate(0, units=("a", "b"))) as empty:
        job = write_job(tmp_path / "empty", empty.url)
        assert main(["preview", str(job), *NOW, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["rows"] == []
        assert "4 due work units had no rows" in found["notes"][-1]
        named = ("--signature", found["signature"])
        assert main(["preview", str(job), *NOW, *named, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["notes"] == []


def test_a_preview_that_fails_says_that_earlier_work_units_were_empty(tmp_path, capsys):
    with HttpServer(Dataset.generate(0, units=("a", "b"))) as empty:
        empty.faults.append(Fault(kind="status", status=403, at=(2,)))
        job = write_job(tmp_path, empty.url)
        assert main(["preview", str(job), *NOW]) == 1
        told = capsys.readouterr().err
        assert "the first 1 due work unit had no rows; this is [watermark." in told
        assert "403" in told


def test_a_plan_shows_the_body_of_a_request_and_sends_nothing(source, tmp_path, capsys):
    job = write_job(tmp_path, source.url, ms__http__request__method="POST")
    found = planned(capsys, job)
    assert (found["action"], found["place"]) == ("POST", f"{source.url}/records")
    assert json.loads(str(found["text"]))["since"] == START_MS
    assert "--data-raw" in str(found["curl"])
    assert source.count("/records") == 0
    assert main(["plan", str(job), *NOW, "--show-request"]) == 0
    assert f"  POST {source.url}/records\n" in capsys.readouterr().out


def test_a_plan_shows_the_first_row_that_would_be_sent(source, tmp_path, capsys):
    rows = tmp_path / "rows" / "rows.json"
    rows.parent.mkdir()
    rows.write_text('{"id": 17}\n{"id": 18}\n')
    given = [{"path": str(rows.parent), "fields": ["id"], "category": "payload"}]
    job = write_job(
        tmp_path,
        source.url,
        ms__http__request__method="POST",
        ms__secondary__input=json.dumps(given),
        ms__session__key__field="",
        ms__parameters='[{"name": "unit"}]',
    )
    assert json.loads(str(planned(capsys, job)["text"])) == {"unit": "a", "id": 17}
    assert source.count("/records") == 0


def test_the_statement_of_a_database_has_its_values(tmp_path, capsys):
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE orders (unit TEXT, at INTEGER)")
    statement = "SELECT * FROM orders WHERE unit = {{unit}} AND at >= {{since}}"
    job = read_files(
        tmp_path,
        f"jdbc:sqlite:{file}",
        source__class="jdbc",
        ms__jdbc__statement=statement,
        ms__extractor__class="json",
        ms__parameters='[{"name": "unit"}, {"name": "since", "type": "watermark", "value": "low"}]',
        ms__data__field="",
        ms__output__schema="",
    )
    found = planned(capsys, job)
    assert (found["action"], found["place"]) == ("query", f"jdbc:sqlite:{file}")
    assert " ".join(str(found["text"]).split()) == (
        f"SELECT * FROM orders WHERE unit = 'a' AND at >= {START_MS}"
    )
    assert main(["preview", str(job), *NOW]) == 0
    assert "unit =  'a'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "uri", "place"),
    [
        ("hdfs", "/nowhere/in/{{unit}}", "/nowhere/in/a"),
        ("sftp", "sftp://me@files.test/in/{{unit}}/", "/in/a/"),
        ("s3", "https://drop.s3.amazonaws.com/in/{{unit}}/", "s3://drop/in/a/"),
    ],
)
def test_files_show_what_is_listed(kind: str, uri: str, place: str, tmp_path, capsys):
    changes = {"source__conn__password": TOKEN} if kind == "sftp" else {}
    job = read_files(
        tmp_path,
        uri,
        source__class=kind,
        ms__parameters='[{"name": "unit"}]',
        ms__source__files__pattern=".*[.]csv",
        ms__data__field="",
        ms__output__schema="",
        **changes,
    )
    found = planned(capsys, job)
    assert found["action"] == "list"
    assert str(found["place"]).endswith(place)
    assert ".*[.]csv" in str(found["text"])
    assert found["curl"] is None


def test_the_verbose_log_of_a_run_has_each_request(
    tmp_path, source, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="dil.task.request_log"):
        Story(tmp_path, source).run(day(1))
    asked = [line for line in caplog.messages if line.startswith("request: GET ")]
    assert len(asked) == source.count("/records")
    assert f"{source.url}/records?unit=a&since={START_MS}&" in asked[0]


@pytest.mark.parametrize("shows_curl", [False, True])
def test_a_logged_request_is_masked_part_by_part(shows_curl: bool, capsys) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json"}
    view = RequestView("POST", "https://h/x", headers, '{"a": 1}', is_http=True)

    class Asking(Session):
        def describe(self, values: RequestValues) -> RequestView:
            return view

    logs.configure(level="DEBUG", json_lines=False, stream=sys.stderr)
    write = request_log(redactor([Secret(TOKEN)]), shows_curl=shows_curl)
    write(Asking(), RequestValues({}, {}))

    said = capsys.readouterr().err
    assert "Authorization: Bearer ***" in said
    assert "Accept: application/json" in said
    assert TOKEN not in said
    assert ("curl -X POST" in said) == shows_curl
    assert said.count('{"a": 1}') == 1 + shows_curl
