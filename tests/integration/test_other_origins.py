"""A row chooses paths and queries; whom a job asks, as whom and with which options is the job's."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import fastavro
import pytest

from dil.cli.main import main
from tests.servers.http_server import HttpServer, Reply
from tests.stories import Story, day

ROWS = b'{"data":[{"id":1}]}'
JOB = """\
job.name=orders
extract.table.name=orders
extract.table.type=SNAPSHOT_ONLY
ms.timezone=UTC
ms.secondary.input=[{"path":"rows","fields":["value"],"category":"activation"}]
data.publisher.final.dir=out
"""
HTTP = """\
source.class=http
ms.extractor.class=json
ms.data.field=data
ms.http.retry.max=0
ms.authentication={"method":"bearer","encryption":"none","token":"t0ken"}
"""


SYSTEM = json.dumps(
    [{"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "P0D"}}]
)


class Other:
    """A port that notes who connects: the place where an attacker waits."""

    def __init__(self) -> None:
        self.connections = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)


@pytest.fixture
def other() -> Iterator[Other]:
    listening = Other()
    yield listening
    listening.close()


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with HttpServer() as running:
        running.script("/ok", *[Reply(ROWS)] * 9)
        running.script("/files/a%2Fb", *[Reply(ROWS)] * 9)
        yield running


def preview(folder: Path, text: str, value: str) -> int:
    """Look at the source of a job whose secondary input has one row with this value."""
    (folder / "rows").mkdir(exist_ok=True)
    schema = {
        "type": "record", "name": "row", "fields": [{"name": "value", "type": "string"}],
    }  # fmt: skip
    with (folder / "rows/part.avro").open("wb") as file:
        fastavro.writer(file, schema, [{"value": value}])
    (folder / "job.conf").write_text(JOB + text)
    return main(["preview", str(folder / "job.conf")])


@pytest.mark.parametrize("method", ["GET", "GET_XE"])
@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("http://{own}{{{{value}}}}", "@{other}/ok"),
        ("http://{own}{{{{value}}}}", ".evil.test/ok"),
        ("http://{own}{{{{value}}}}", "0/ok"),
        ("http://{{{{value}}}}/ok", "{other}"),
        ("http://127.0.0.1:{{{{value}}}}/ok", "{port}"),
        ("{{{{value}}}}", "http://{other}/ok"),
        ("http://user:{{{{value}}}}@{own}/ok", "x@{other}/"),
    ],
)
def test_no_value_moves_an_http_request(
    tmp_path: Path,
    server: HttpServer,
    other: Other,
    template: str,
    value: str,
    method: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = server.url.removeprefix("http://")
    places = {"own": own, "other": f"127.0.0.1:{other.port}", "port": other.port}
    text = f"{HTTP}ms.http.request.method={method}\nms.source.uri={template.format(**places)}\n"

    assert preview(tmp_path, text, value.format(**places)) != 0

    assert other.connections == 0
    assert server.requests == []
    told = capsys.readouterr().err
    is_whole_address = template == "{{{{value}}}}" and method == "GET"
    assert "ms.source.uri is filled with" in told
    assert ("GET_XE" if is_whole_address else "Values fill the path and the query") in told


@pytest.mark.parametrize("value", ["0/ok", "evil.test:99999/x", "@evil.test/ok", "/ok"])
def test_a_report_counts_the_requests_that_were_sent(
    tmp_path: Path, server: HttpServer, value: str
) -> None:
    rows = tmp_path / "rows.json"
    rows.write_text("".join(f'{{"value":"{value}","n":{number}}}\n' for number in range(3)))
    entry = {"path": str(rows), "fields": ["value", "n"]}
    job = Story(
        tmp_path / "job", server, ms__secondary__input=json.dumps([entry]),
        ms__watermark=SYSTEM, ms__work__unit__partition="none",
        ms__source__uri=f"{server.url}{{{{value}}}}", ms__http__request__method="GET_XE",
        ms__parameters="", ms__http__retry__max="0", ms__output__schema="",
        ms__data__field="data",
    )  # fmt: skip
    report = job.run(day(1))
    assert report.units.planned == 3
    assert report.requests == len(server.requests) == (3 if value == "/ok" else 0)


def test_a_value_fills_path_and_query_of_an_http_address(
    tmp_path: Path, server: HttpServer
) -> None:
    address = f"ms.source.uri={server.url}/files/{{{{value}}}}\n"
    assert preview(tmp_path, HTTP + address, "a/b") == 0
    unencoded = "ms.http.request.method=GET_XE\n"
    behind = f"ms.source.uri={server.url}{{{{value}}}}\n"
    assert preview(tmp_path, HTTP + unencoded + behind, "/ok") == 0
    assert [each.path for each in server.requests] == ["/files/a%2Fb", "/ok"]


@pytest.mark.parametrize("entry", ["{other}", "http://{other}", "x.test, {other}"])
def test_the_job_can_allow_more_hosts(
    tmp_path: Path, server: HttpServer, other: Other, entry: str
) -> None:
    text = (
        f"{HTTP}ms.http.request.method=GET_XE\n"
        "ms.source.uri=http://{{value}}/ok\nms.source.uri.hosts="
    )
    own = server.url.removeprefix("http://")

    assert preview(tmp_path, text + entry.format(other=own) + "\n", own) == 0
    assert preview(tmp_path, text + entry.format(other=own) + "\n", f"127.0.0.1:{other.port}") != 0
    assert other.connections == 0


REMOTE = {
    "sftp": (
        "source.class=sftp\nms.extractor.class=filedump\nsource.conn.host=127.0.0.1\n"
        "source.conn.port=1\nsource.conn.username=u\nsource.conn.password=p\n"
        "source.conn.known.hosts=known\nms.extractor.target.file.name=x\n",
        "sftp://127.0.0.1:{port}/x",
    ),
    "webhdfs": (
        "source.class=hdfs\nms.extractor.class=json\nsource.filebased.fs.uri=hdfs://127.0.0.1:1\n",
        "webhdfs://127.0.0.1:{port}/x",
    ),
    "files": ("source.class=hdfs\nms.extractor.class=json\n", "webhdfs://127.0.0.1:{port}/x"),
    "s3": (
        "source.class=s3\nms.extractor.class=filedump\nsource.conn.username=u\n"
        "source.conn.password=p\nms.extractor.target.file.name=x\n",
        "http://bucket.127.0.0.1:{port}/x",
    ),
    "jdbc": (
        "source.class=jdbc\nms.extractor.class=json\nms.jdbc.statement=select 1\n",
        "jdbc:postgresql://127.0.0.1:{port}/postgres",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REMOTE)
def test_a_row_names_no_server(
    tmp_path: Path, other: Other, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text, value = REMOTE[kind]
    (tmp_path / "known").touch()

    assert preview(tmp_path, f"{text}ms.source.uri={{{{value}}}}\n", value.format(port=other.port))

    assert "ms.source.uri is filled with values that lead to" in capsys.readouterr().err
    assert other.connections == 0


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("jdbc:postgresql://db-{{{{value}}}}.corp:1/s?sslmode=require", "@127.0.0.1:{port}/x?"),
        ("jdbc:postgresql://127.0.0.1:{{{{value}}}}/shop", "{port}"),
        ("jdbc:postgresql://127.0.0.1:{port}/shop?sslmode={{{{value}}}}", "disable"),
        ("jdbc:mysql://127.0.0.1:{port}/shop?user={{{{value}}}}", "root"),
        ("jdbc:sqlserver://127.0.0.1:{port};databaseName={{{{value}}}}", "x;encrypt=false"),
        ("jdbc:sqlite:data/{{{{value}}}}.db", "../secret"),
        ("jdbc:sqlite:file:data/{{{{value}}}}.db", "%2e%2e/secret"),
    ],
)  # fmt: skip
def test_a_row_chooses_neither_host_nor_option_nor_folder_of_a_database(
    tmp_path: Path, other: Other, template: str, value: str
) -> None:
    (tmp_path / "data").mkdir()
    with closing(sqlite3.connect(tmp_path / "secret.db")) as secret, secret:
        secret.execute("create table t (a)")
    text, _ = REMOTE["jdbc"]
    address = template.format(port=other.port)

    assert preview(tmp_path, f"{text}ms.source.uri={address}\n", value.format(port=other.port))

    assert other.connections == 0


def test_a_row_chooses_a_database_file_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with closing(sqlite3.connect(tmp_path / "data/shop.db")) as shop, shop:
        shop.execute("create table t (a)")
        shop.execute("insert into t values (1)")
    text = "source.class=jdbc\nms.extractor.class=json\nms.jdbc.statement=select a from t\n"
    assert (
        preview(tmp_path, f"{text}ms.source.uri=jdbc:sqlite:data/{{{{value}}}}.db\n", "shop") == 0
    )


@pytest.mark.parametrize("value", ["/etc/passwd", "{folder}/secret.json", "in/../secret.json"])
def test_rows_do_not_lead_out_of_the_folder_that_is_the_file_system(
    tmp_path: Path, value: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text('[{"id":1}]')
    (tmp_path / "secret.json").write_text('[{"id":2}]')
    text = (
        "source.class=hdfs\nms.extractor.class=json\nms.source.uri={{value}}\n"
        f"source.filebased.fs.uri=file://{tmp_path}/in\n"
    )

    assert preview(tmp_path, text, f"{tmp_path}/in/a.json") == 0
    assert preview(tmp_path, text, value.format(folder=tmp_path)) != 0


@pytest.mark.parametrize(
    "written",
    [
        'ms.authentication={"method":"custom","header":"X-Key","encryption":"none",'
        '"token":"{{access_token}}"}',
        'ms.http.request.headers={"X-Plain":"Bearer {{access_token}}"}',
        'ms.http.request.headers={"X-Name":"${env:HOME}","Accept":"application/json"}',
    ],
)
def test_a_redirect_to_another_port_is_followed_bare(
    tmp_path: Path, server: HttpServer, written: str
) -> None:
    with HttpServer() as far:
        far.script("/there", Reply(ROWS))
        away = (("Location", f"{far.url}/there"), ("Set-Cookie", "session=s3cret"))
        server.script("/away", Reply(status=302, headers=away))
        text = (
            "source.class=http\nms.extractor.class=json\nms.data.field=data\n"
            f"ms.source.uri={server.url}/away?key={{{{value}}}}\n"
            'ms.parameters=[{"name":"access_token","value":"t0ken"}]\n'
        )

        assert preview(tmp_path, f"{text}{written}\n", "k") == 0

        (asked,) = far.requests
    assert {name.lower() for name in asked.headers} <= {
        "host", "connection", "accept", "accept-encoding", "user-agent"
    }  # fmt: skip
    assert asked.path == "/there"
    assert "t0ken" not in str(asked)


@pytest.mark.parametrize("name", ["User-Agent", "accept", "Accept-Encoding"])
@pytest.mark.parametrize(
    "text", ["me {{access_token}}", "me env:TOKEN", "env:TOKEN", "me ${env:TOKEN}", "me ${text}"]
)
def test_what_another_port_may_know_of_a_job_holds_no_secret_and_no_value(
    tmp_path: Path, server: HttpServer, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv("TOKEN", "t0ken-of-the-job")
    with HttpServer() as far:
        far.script("/there", Reply(ROWS))
        server.script("/away", Reply(status=302, headers=(("Location", f"{far.url}/there"),)))
        job = (
            "source.class=http\nms.extractor.class=json\nms.data.field=data\ntext=env:TOKEN\n"
            f"ms.source.uri={server.url}/away?key={{{{value}}}}\n"
            'ms.parameters=[{"name":"access_token","value":"t0ken-of-the-job"}]\n'
            f'ms.http.request.headers={{"{name}":"{text}"}}\n'
        )
        assert preview(tmp_path, job, "k") == 0
        (asked,) = far.requests
    assert "t0ken" in str(server.requests[0].headers) or "env:" in text or "$" in text
    assert "t0ken" not in str(asked)


def test_another_port_is_asked_for_what_the_job_writes_word_for_word(
    tmp_path: Path, server: HttpServer
) -> None:
    with HttpServer() as far:
        far.script("/there", Reply(ROWS))
        server.script("/away", Reply(status=302, headers=(("Location", f"{far.url}/there"),)))
        job = (
            "source.class=http\nms.extractor.class=json\nms.data.field=data\n"
            f"ms.source.uri={server.url}/away?key={{{{value}}}}\n"
            'ms.http.request.headers={"Accept":"application/json","User-Agent":"me {{value}}"}\n'
        )
        assert preview(tmp_path, job, "k") == 0
        (asked,) = far.requests
    assert asked.headers["Accept"] == "application/json"
    assert asked.headers["User-Agent"].startswith("dil-spark/")
