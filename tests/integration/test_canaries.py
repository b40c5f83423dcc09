"""Canaries in jobs over databases and SFTP, told back by the servers: no sink keeps one."""

from __future__ import annotations

import io
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from connectors.files.remote import RemoteFileSession
from dil import config
from dil.cli.main import main
from dil.errors import DilError
from dil.observe import logs
from dil.observe.redaction import redactor, secrets_of
from dil.observe.report import redacted, report_json, report_text
from tests.integration.jdbc_jobs import jdbc
from tests.integration.local_jobs import LocalJob
from tests.servers.certificates import authority, client_of
from tests.servers.databases import new_database
from tests.servers.http_server import HttpServer, Reply
from tests.servers.postgresql import PASSWORD
from tests.servers.sftp import PasswordServer, SftpServer
from tests.unit.cli.test_secrets_do_not_leave import disguises

CANARY = 'c4n&ry"Zk+77=<x>'
SECRET = [{"name": "secret", "value": "env:CANARY"}]
COMMANDS = (
    ("validate", "--json"), ("plan", "--json"), ("plan", "-v"), ("check", "--json"),
    ("check", "-v"),
    ("preview", "--json"), ("preview", "-v"), ("explain",),
    ("runs", "list", "--json"), ("runs", "clean"), ("state", "show", "--json"),
    ("state", "log", "--json"), ("state", "verify"),
)  # fmt: skip


@pytest.fixture(scope="module")
def sshd() -> Iterator[SftpServer]:
    with SftpServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", CANARY)
    monkeypatch.setenv("ENCODED", quote(CANARY, safe=""))
    monkeypatch.setitem(RemoteFileSession.__init__.__kwdefaults__, "sleep", lambda seconds: None)


Given = Mapping[str, str]
Place = Callable[[pytest.FixtureRequest, Path], "Iterator[Given]"]


def database(url: str, statement: str, **more: str) -> Given:
    return {
        "source__class": "jdbc", "ms__source__uri": jdbc(url), "ms__jdbc__statement": statement,
        "source__conn__username": "admin", "source__conn__password": PASSWORD,
        "ms__parameters": json.dumps(SECRET), **more,
    }  # fmt: skip


def on_postgresql(statement: str, ending: str = "", **more: str) -> Place:
    @contextmanager
    def place(request: pytest.FixtureRequest, _: Path) -> Iterator[Given]:
        with new_database(request.getfixturevalue("postgresql_server")) as url:
            yield database(url + ending, statement, **more)

    return place


def on_file(statement: str, **more: str) -> Place:
    @contextmanager
    def place(_: pytest.FixtureRequest, folder: Path) -> Iterator[Given]:
        path = folder.parent / "source.db"
        with closing(sqlite3.connect(path)) as made, made:
            made.execute("create table t (id integer)")
            made.execute("insert into t values (1)")
        yield {**database("", statement, **more), "ms__source__uri": f"jdbc:sqlite:{path}"}

    return place


@contextmanager
def on_sftp_by_password(_: pytest.FixtureRequest, __: Path) -> Iterator[Given]:
    with PasswordServer("reader", "another one") as server:
        yield {
            "source__class": "sftp", "ms__source__uri": "/in/a.json",
            "source__conn__host": "127.0.0.1", "source__conn__port": str(server.port),
            "source__conn__username": "reader", "source__conn__password": "env:CANARY",
            "ms__sftp__host__key__check": "false",
        }  # fmt: skip


@contextmanager
def on_sftp_by_key(request: pytest.FixtureRequest, __: Path) -> Iterator[Given]:
    server = request.getfixturevalue("sshd")
    yield {
        **server.properties(), "source__class": "sftp", "ms__source__uri": f"{server.files}/none",
        "ms__sftp__private__key__passphrase": "env:CANARY",
    }  # fmt: skip


@contextmanager
def on_s3(_: pytest.FixtureRequest, __: Path) -> Iterator[Given]:
    """A service that refuses and tells what it was sent, in all forms."""
    with HttpServer() as server:
        told = "\n".join(disguises(CANARY)).replace("&", "&amp;").replace("<", "&lt;")
        text = f"<Error><Code>AccessDenied</Code><Message>{told}</Message></Error>"
        reply = Reply(text.encode(), status=403, content_type="application/xml")
        for path in ("/lake", "/lake/"):
            server.script(path, *[reply] * 40)
        yield {
            "source__class": "s3", "ms__source__uri": "s3://lake/in/",
            "ms__source__s3__parameters": json.dumps({"endpoint": server.url, "region": "eu"}),
            "source__conn__username": "env:CANARY", "source__conn__password": "env:CANARY",
        }  # fmt: skip


@contextmanager
def on_http_by_certificate(_: pytest.FixtureRequest, folder: Path) -> Iterator[Given]:
    store = folder.parent / "client.p12"
    store.write_bytes(client_of(authority("ours")).pkcs12("another"))
    secrets = dict.fromkeys(("keyStorePassword", "keyPassword"), "env:CANARY")
    with HttpServer() as server:
        yield {
            "source__class": "http", "ms__source__uri": f"{server.url}/x",
            "ms__ssl": json.dumps({"keyStorePath": str(store), **secrets}),
        }  # fmt: skip


def to_warehouse(request: pytest.FixtureRequest, folder: Path) -> AbstractContextManager[Given]:
    @contextmanager
    def place() -> Iterator[Given]:
        with (
            new_database(request.getfixturevalue("postgresql_server")) as url,
            on_file("select id from t")(request, folder) as source,
        ):
            yield {
                **source, "ms__warehouse__url": url, "ms__warehouse__user": "admin",
                "ms__warehouse__password": "env:CANARY", "ms__parameters": "",
            }  # fmt: skip

    return place()


CASES: dict[str, Place] = {
    "password of a database": on_postgresql("select 1 as id", source__conn__password="env:CANARY"),
    "password in the address": on_postgresql(
        "select 1 as id",
        "?password=${env:ENCODED}",
        source__conn__password="",
        source__conn__username="",
    ),
    "parameter that the server quotes": on_postgresql("select {{secret}}::int as id"),
    "literal that the server quotes": on_postgresql("select '{{secret}}'::int as id"),
    "parameter of a statement that is wrong": on_postgresql("select {{secret}} frum as id"),
    "user of a database": on_postgresql("select 1 as id", source__conn__username="env:CANARY"),
    "parameter of a wrong statement on a file": on_file("select {{secret}} frum t"),
    "parameter that selects": on_file("select id from t where id <> {{secret}}"),
    "password of SFTP": on_sftp_by_password,
    "passphrase of a key": on_sftp_by_key,
    "keys of S3": on_s3,
    "passwords of a key store": on_http_by_certificate,
    "password of a warehouse": to_warehouse,
}
# Where it is sent, the canary has to be refused or quoted, so that there is something to hide.
FAILS_WITH = {
    "password of a database": {"DIL-SRC-AUTH"},
    "password in the address": {"DIL-SRC-AUTH"},
    "user of a database": {"DIL-SRC-AUTH"},
    "password of SFTP": {"DIL-SRC-AUTH"},
    "parameter that selects": set(),
    "keys of S3": {"DIL-SRC-AUTH"},
    "passwords of a key store": {"DIL-CONFIG"},
    "password of a warehouse": {"DIL-WRITE"},
}
FORMS = [form.encode() for form in disguises(CANARY)]


@pytest.mark.parametrize("case", CASES)
def test_no_sink_keeps_a_canary(
    case: str, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "job"
    sinks: dict[str, bytes] = {}
    with CASES[case](request, folder) as given:
        job = LocalJob(folder, **given)
        folder.mkdir(parents=True)
        path = folder / "rows.conf"
        path.write_text("".join(f"{name}={text}\n" for name, text in job.properties.items()))
        loaded = config.load(path, environ=dict(os.environ)).job
        for number in range(2):
            stream = io.StringIO()
            secrets = secrets_of(loaded)
            logs.configure(level="DEBUG", json_lines=bool(number), stream=stream, secrets=secrets)
            expected = FAILS_WITH.get(case, {"DIL-SRC"})
            try:
                report = redacted(job.run(loaded), redactor(secrets))
            except DilError as error:  # before any work unit began
                codes = {error.code}
                sinks[f"error {number}"] = redactor(secrets)(str(error)).encode()
            else:
                codes = {one.code for one in report.failures}
                sinks[f"report {number}"] = json.dumps(report_json(report)).encode()
                sinks[f"text {number}"] = report_text(report).encode()
            assert codes == expected
            sinks[f"log {number}"] = stream.getvalue().encode()
        for words in COMMANDS:
            size = 2 if words[0] in {"runs", "state"} else 1
            capsys.readouterr()
            main([*words[:size], str(path), *words[size:]])
            told = capsys.readouterr()
            sinks[" ".join(words)] = (told.out + told.err).encode()
    for file in folder.rglob("*"):
        if file.is_file():
            sinks[str(file.relative_to(folder))] = file.read_bytes()

    found = {(name, form) for name, held in sinks.items() for form in FORMS if form in held}
    assert found == set()
