"""Our own sources under the contract that every connector has to keep (dil.testing)."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.files.remote import RemoteFileSession
from connectors.hdfs.session import FilesSession
from dil.testing.source_contract import SourceContract, SourceHarness
from tests.servers.http_server import Fault, HttpServer, Reply
from tests.servers.meddling_proxy import MeddlingProxy
from tests.servers.postgresql import PASSWORD, PostgresqlServer
from tests.servers.programs import free_port
from tests.servers.rows import Dataset, encode, generated_row
from tests.servers.s3 import KEY, REGION, SECRET, RcloneServer, S3Server
from tests.servers.sftp import SftpServer
from tests.servers.webhdfs import WebHdfs

WRONG = "wr0ng/pass+word"
CUT_AFTER = 20_000  # bytes; all rows are some 250 kB


def rows_of(numbers: range) -> list[dict[str, object]]:
    """Return rows of about 255 bytes of JSON."""
    return [generated_row("a", number, 0) for number in numbers]


def parts_of(rows: int) -> dict[str, bytes]:
    """Return the rows as files: the first has as many as all others together."""
    half = rows // 2
    return {
        "a.json": encode(rows_of(range(half))),
        "b.json": encode(rows_of(range(half, half))),
        "c.json": encode(rows_of(range(half, rows))),
    }


@pytest.fixture(autouse=True)
def _no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    for session in (FilesSession, RemoteFileSession):
        monkeypatch.setitem(session.__init__.__kwdefaults__, "sleep", lambda seconds: None)


class HttpHarness(SourceHarness):
    mistakes = (
        ("ms.source.uri", "ftp://host/records"),
        ("ms.http.idempotency.header", "a b"),
    )
    secrets = ("t0ken.of.the.source", WRONG)
    elsewhere = ("../records", "../records?x=", "..%2frecords", "//records")

    def __init__(self, server: HttpServer) -> None:
        self._server = server

    def fill(self, rows: int) -> dict[str, str]:
        self._server.dataset.extend(rows_of(range(rows)))
        return {
            **self._login(self.secrets[0]),
            "ms.source.uri": f"{self._server.url}/records",
            "ms.data.field": "data",
            "ms.session.key.field": '{"name": "next"}',
            "ms.parameters": json.dumps(
                [
                    {"name": "cursor", "type": "session"},
                    {"name": "limit", "type": "primitive", "value": 300},
                ]
            ),
        }

    def gone(self) -> dict[str, str]:
        return {"ms.source.uri": f"http://127.0.0.1:{free_port()}/records"}

    def refusing(self) -> dict[str, str]:
        return self._login(WRONG)

    def cut(self, times: int) -> None:
        at = tuple(range(3, 3 + times))  # not the first page
        self._server.faults[:] = [Fault("short_body", at=at)] if times else []

    def named(self, name: str) -> dict[str, str]:
        self._server.script(f"/named/{name}", Reply(encode(rows_of(range(1)))))
        uri = f"{self._server.url}/named/{{{{name}}}}"
        return {**self._login(self.secrets[0]), "ms.source.uri": uri}

    def _login(self, token: str) -> dict[str, str]:
        return {
            "source.class": "http",
            "ms.http.retry.max": "0",
            "ms.http.request.headers": json.dumps({"Authorization": f"Bearer {token}"}),
        }


class TestHttp(SourceContract):
    @pytest.fixture
    def source(self) -> Iterator[SourceHarness]:
        with HttpServer(Dataset(), token=HttpHarness.secrets[0]) as server:
            yield HttpHarness(server)


PAGES = {
    "source.class": "jdbc",
    "ms.jdbc.statement": "select * from held where id > {{cursor}} order by id limit 300",
    "ms.session.key.field": '{"name": "id", "initValue": "-1"}',
    "ms.parameters": '[{"name": "cursor", "type": "session"}]',
}
NAMED = {
    "source.class": "jdbc",
    "ms.jdbc.statement": "select id from named where name = {{name}} or name = '{{name}}'",
}


class JdbcHarness(SourceHarness):
    """A table, read in pages by its key, and one that has rows by name."""

    mistakes = (
        ("ms.jdbc.statement", ""),
        ("ms.source.uri", "jdbc:nosuch://host/db"),
        ("ms.extractor.class", "avro"),
    )


class SqliteHarness(JdbcHarness):
    def __init__(self, folder: Path) -> None:
        self._file = folder / "source.db"

    def fill(self, rows: int) -> dict[str, str]:
        self._run("create table held (id integer primary key, text text)")
        if rows:
            self._run("insert into held values (?, ?)", *((each, "x" * 90) for each in range(rows)))
        return {**PAGES, "ms.source.uri": f"jdbc:sqlite:{self._file}"}

    def gone(self) -> dict[str, str]:
        self._file.unlink()
        return {}

    def named(self, name: str) -> dict[str, str]:
        self._run("create table named (id integer, name text)")
        self._run("insert into named values (?, ?)", (0, name))
        return {**NAMED, "ms.source.uri": f"jdbc:sqlite:{self._file}"}

    def _run(self, statement: str, *rows: tuple[object, ...]) -> None:
        connection = sqlite3.connect(self._file)
        connection.executemany(statement, rows) if rows else connection.execute(statement)
        connection.commit()
        connection.close()


class TestSqlite(SourceContract):
    @pytest.fixture
    def source(self, tmp_path: Path) -> SourceHarness:
        return SqliteHarness(tmp_path)


class PostgresqlHarness(JdbcHarness):
    secrets = (PASSWORD, WRONG)

    def __init__(self, server: PostgresqlServer, proxy: MeddlingProxy, database: str) -> None:
        self._server, self._proxy, self._database = server, proxy, database

    def fill(self, rows: int) -> dict[str, str]:
        self._run(
            "create table held as select i::int as id, repeat('x', 200) as pad"
            f" from generate_series(0, {rows - 1}) i"
        )
        return {**PAGES, **self._login(self._proxy.port)}

    def gone(self) -> dict[str, str]:
        return self._login(free_port())

    def refusing(self) -> dict[str, str]:
        return {"source.conn.password": WRONG}

    def cut(self, times: int) -> None:
        self._proxy.cut_after(CUT_AFTER, times=times)

    def named(self, name: str) -> dict[str, str]:
        self._run(f"create table named as select 0 as id, '{name}' as name")
        return {**NAMED, **self._login(self._proxy.port)}

    def _login(self, port: int) -> dict[str, str]:
        return {
            "ms.source.uri": f"jdbc:postgresql://127.0.0.1:{port}/{self._database}",
            "source.conn.username": "admin",
            "source.conn.password": PASSWORD,
        }

    def _run(self, statement: str) -> None:
        self._server.execute(statement, self._database)


class TestPostgresql(SourceContract):
    @pytest.fixture
    def source(self, postgresql_server: PostgresqlServer) -> Iterator[SourceHarness]:
        database = f"t{uuid.uuid4().hex[:12]}"
        postgresql_server.add_database(database)
        with MeddlingProxy(postgresql_server.port) as proxy:
            yield PostgresqlHarness(postgresql_server, proxy, database)
        postgresql_server.drop_database(database)


class FolderHarness(SourceHarness):
    """Files of this machine, read from a folder one after the other."""

    mistakes = (("ms.source.uri", "s3://bucket/in"),)
    elsewhere = ("../held/a", "x/../../held/a")

    def __init__(self, folder: Path, uri: str = "") -> None:
        self._folder = folder
        self._properties = {"source.class": "file"}
        self._root = uri or str(folder)

    def fill(self, rows: int) -> dict[str, str]:
        self.put("held", parts_of(rows))
        return {**self._properties, "ms.source.uri": f"{self._root}/held"}

    def gone(self) -> dict[str, str]:
        (self._folder / "held").rename(self._folder / "elsewhere")
        return {}

    def named(self, name: str) -> dict[str, str]:
        self.put("named", {f"{name}.json": encode(rows_of(range(1)))})
        self.put("held", parts_of(2))
        return {**self._properties, "ms.source.uri": f"{self._root}/named/{{{{name}}}}.json"}

    def put(self, folder: str, files: dict[str, bytes]) -> None:
        (self._folder / folder).mkdir()
        for name, body in files.items():
            (self._folder / folder / name).write_bytes(body)


class TestFolder(SourceContract):
    @pytest.fixture
    def source(self, tmp_path: Path) -> SourceHarness:
        return FolderHarness(tmp_path)


class WebHdfsHarness(FolderHarness):
    mistakes = (("ms.source.uri", "webhdfs:///in"),)

    def __init__(self, hdfs: WebHdfs) -> None:
        super().__init__(hdfs.folder, f"webhdfs://{hdfs.authority}")
        self._properties = {"source.class": "hdfs", "source.conn.username": "lake"}
        self._hdfs = hdfs
        hdfs.users = frozenset({"lake"})

    def gone(self) -> dict[str, str]:
        return {"ms.source.uri": f"webhdfs://127.0.0.1:{free_port()}/held"}

    def refusing(self) -> dict[str, str]:
        return {"source.conn.username": "nobody"}

    def cut(self, times: int) -> None:
        self._hdfs.cuts = [1000] * times


class TestWebHdfs(SourceContract):
    """On a stated fake of HDFS's REST interface."""

    @pytest.fixture
    def source(self, tmp_path: Path) -> Iterator[SourceHarness]:
        with WebHdfs(tmp_path) as hdfs:
            yield WebHdfsHarness(hdfs)


@pytest.fixture(scope="module")
def s3_server() -> Iterator[S3Server]:
    with RcloneServer() as server:
        yield server


class S3Harness(FolderHarness):
    """Objects of one prefix, each of them a unit of its own that is read once."""

    mistakes = (
        ("ms.source.uri", "s3://"),
        ("ms.source.s3.parameters", "eu-test-1"),
    )
    secrets = (SECRET, WRONG)

    def __init__(self, server: S3Server, proxy: MeddlingProxy) -> None:
        self._bucket = f"t{uuid.uuid4().hex[:12]}"
        self._client = server.bucket(self._bucket)
        super().__init__(server.folder, f"s3://{self._bucket}")
        self._proxy = proxy
        self._properties = {
            "source.class": "s3",
            "source.conn.username": KEY,
            "source.conn.password": SECRET,
            **_endpoint(proxy.port),
        }

    def fill(self, rows: int) -> dict[str, str]:
        once = {"ms.source.files.once": "path", "ms.watermark": ""}
        uri = {"ms.source.uri": f"{self._root}/held/"}
        return {**super().fill(rows), **once, **uri}

    def gone(self) -> dict[str, str]:
        return _endpoint(free_port())

    def refusing(self) -> dict[str, str]:
        return {"source.conn.password": WRONG}

    def cut(self, times: int) -> None:
        self._proxy.cut_after(CUT_AFTER, times=times)

    def named(self, name: str) -> dict[str, str]:
        return {**super().named(name), "ms.extractor.target.file.name": "x"}

    def put(self, folder: str, files: dict[str, bytes]) -> None:
        for name, body in files.items():
            self._client.put_object(Bucket=self._bucket, Key=f"{folder}/{name}", Body=body)


def _endpoint(port: int) -> dict[str, str]:
    facts = {"endpoint": f"http://127.0.0.1:{port}", "region": REGION}
    return {"ms.source.s3.parameters": json.dumps(facts)}


class TestS3(SourceContract):
    @pytest.fixture
    def source(self, s3_server: S3Server) -> Iterator[SourceHarness]:
        with MeddlingProxy(s3_server.port) as proxy:
            yield S3Harness(s3_server, proxy)


@pytest.fixture(scope="module")
def sshd() -> Iterator[SftpServer]:
    with SftpServer() as server:
        yield server


class SftpHarness(FolderHarness):
    """One file by its name; the server's keys are of the test's own making."""

    mistakes = (
        ("ms.source.uri", "sftp://u:pass@host/in"),
        ("ms.sftp.host.key.fingerprint", "MD5:x"),
    )
    secrets = (WRONG,)

    def __init__(self, sshd: SftpServer, proxy: MeddlingProxy, folder: Path) -> None:
        super().__init__(folder)
        self._sshd, self._proxy = sshd, proxy
        given = sshd.properties(proxy.port)
        self._properties = {name.replace("__", "."): text for name, text in given.items()}
        self._properties["ms.extractor.target.file.name"] = "x"

    def fill(self, rows: int) -> dict[str, str]:
        self.put("held", {"a.json": encode(rows_of(range(rows)))})
        return {**self._properties, "ms.source.uri": f"{self._folder}/held/a.json"}

    def gone(self) -> dict[str, str]:
        return {"source.conn.port": str(free_port())}

    def refusing(self) -> dict[str, str]:
        return {"source.conn.private.key": "", "source.conn.password": WRONG}

    def cut(self, times: int) -> None:
        self._proxy.cut_after(CUT_AFTER, times=times)


class TestSftp(SourceContract):
    @pytest.fixture
    def source(self, sshd: SftpServer) -> Iterator[SourceHarness]:
        folder = sshd.files / uuid.uuid4().hex
        folder.mkdir()
        with MeddlingProxy(sshd.port) as proxy:
            yield SftpHarness(sshd, proxy, folder)
