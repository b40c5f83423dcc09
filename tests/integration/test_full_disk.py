"""A disk that is full while rows or files are staged: nothing is half there, and one can go on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from dil.errors import WriteError
from dil.model.report import RunStatus
from dil.state import open_store
from tests.integration.dil_processes import run
from tests.integration.jdbc_jobs import DatabaseJob, jdbc
from tests.integration.local_jobs import NOW, LocalJob
from tests.jobs import visible_files
from tests.servers.http_server import HttpServer, Reply
from tests.servers.postgresql import PASSWORD, PostgresqlServer
from tests.servers.rows import Dataset
from tests.servers.s3 import KEY, REGION, SECRET, RcloneServer
from tests.servers.sftp import SftpServer

PLENTY_KIB = 64 * 1024
ROWS = [(i, hashlib.sha512(str(i).encode()).hexdigest()) for i in range(30_000)]
JSON = json.dumps([{"id": i, "text": text} for i, text in ROWS]).encode()
CSV = "".join(["id,text\n", *(f"{i},{text}\n" for i, text in ROWS)]).encode()
ONE_FILE = {"ms__extractor__target__file__name": "x"}  # a name says: read the file, do not list
READ = {
    "json": (JSON, {"ms__extractor__class": "json"}),
    "csv": (CSV, {
        "ms__extractor__class": "csv", "ms__csv": '{"columnHeaderIndex": 0}',
        "ms__output__schema": json.dumps([
            {"columnName": "id", "dataType": {"type": "long"}},
            {"columnName": "text", "dataType": {"type": "string"}},
        ]),
    }),
    "filedump": (JSON, {
        "ms__extractor__class": "filedump", "ms__extractor__target__file__name": "dumped",
        "extract__table__name": "",
    }),
}  # fmt: skip


class Disk:
    """A file system in memory of 1 MiB, mounted at a new folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._mount("size=1m")

    def resize(self, kib: int) -> None:
        self._mount(f"remount,size={kib}k")

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    def _mount(self, options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "dil-test", str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Where jobs of ``tmp_path/job`` stage and publish; their state is on another disk."""
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        pytest.skip("only root mounts a small file system, on Linux")
    found = Disk(tmp_path / "job" / "lake")
    yield found
    found.unmount()


@contextmanager
def over_http(folder: Path, body: bytes) -> Iterator[Mapping[str, str]]:
    with HttpServer(Dataset.generate(1)) as server:
        server.script("/rows", Reply(body, content_type=None))
        yield {"source__class": "http", "ms__source__uri": f"{server.url}/rows"}


@contextmanager
def on_s3(folder: Path, body: bytes) -> Iterator[Mapping[str, str]]:
    with RcloneServer() as server:
        server.bucket("lake", rows=body)
        yield {
            "source__class": "s3", "ms__source__uri": "s3://lake/rows",
            "source__conn__username": KEY, "source__conn__password": SECRET,
            "ms__source__s3__parameters": json.dumps({"endpoint": server.url, "region": REGION}),
        }  # fmt: skip


@contextmanager
def over_sftp(folder: Path, body: bytes) -> Iterator[Mapping[str, str]]:
    with SftpServer() as server:
        (server.files / "rows").write_bytes(body)
        yield {**server.properties(), "ms__source__uri": f"{server.files}/rows"}


@contextmanager
def on_this_machine(folder: Path, body: bytes) -> Iterator[Mapping[str, str]]:
    (folder / "rows").write_bytes(body)
    yield {"source__class": "hdfs", "ms__source__uri": str(folder / "rows")}


def appending(folder: Path, **properties: str) -> LocalJob:
    return LocalJob(folder / "job", extract__table__type="APPEND_ONLY", **properties)


def published(job: LocalJob) -> list[tuple[int, str]]:
    return sorted((row["id"], row["text"]) for row in job.rows())


PLACES = {"http": over_http, "s3": on_s3, "sftp": over_sftp, "local": on_this_machine}


@pytest.mark.parametrize(("place", "read"), list(product(PLACES, READ)))
def test_nothing_of_a_long_answer_is_published_and_later_all_of_it(
    disk: Disk, tmp_path: Path, place: str, read: str
) -> None:
    body, properties = READ[read]
    with PLACES[place](tmp_path, body) as source:
        job = appending(tmp_path, **{**ONE_FILE, **source, **properties})
        fails_and_then_brings_everything(job, disk)
    if read == "filedump":
        assert [path.read_bytes() for path in visible_files(job.folder)] == [body]
    else:
        assert published(job) == ROWS


def test_no_row_of_a_statement_is_published_and_later_each_once(
    disk: Disk, tmp_path: Path, postgresql_server: PostgresqlServer
) -> None:
    job = DatabaseJob(
        tmp_path / "job", jdbc(f"postgresql://127.0.0.1:{postgresql_server.port}/postgres"),
        f"select i as id, encode(sha512(i::text::bytea), 'hex') as text"
        f" from generate_series(0, {len(ROWS) - 1}) i",
        extract__table__type="APPEND_ONLY", source__conn__username="admin",
        source__conn__password=PASSWORD,
    )  # fmt: skip
    fails_and_then_brings_everything(job, disk)
    assert published(job) == ROWS


def fails_and_then_brings_everything(job: LocalJob, disk: Disk) -> None:
    """Run into the full disk, make room, run again, and once more with nothing to do."""
    report = job.run()
    (failure,) = report.failures
    assert (report.exit_code, report.rows, failure.code) == (1, 0, "DIL-WRITE")
    assert "/job/lake/_staging/" in failure.error  # a user's name in front of it is masked
    assert "Check free space" in failure.fix
    require_untouched(job)
    disk.resize(PLENTY_KIB)
    report = job.run()
    assert (report.status, report.failures) == (RunStatus.SUCCESS, ())
    assert job.run().status is RunStatus.NOTHING_DUE


def require_untouched(job: LocalJob) -> None:
    """Nothing is published, and no watermark has moved."""
    assert visible_files(job.folder) == []
    with open_store(job.job().state, job.name, clock=lambda: NOW) as store:
        assert store.head() is None
        assert {state.high for state in store.unit_states()} <= {None}


def test_pages_that_were_kept_before_the_disk_was_full_are_not_read_again(
    disk: Disk, tmp_path: Path
) -> None:
    with HttpServer(Dataset.generate(20_000)) as server:
        job = appending(
            tmp_path, source__class="http", ms__source__uri=f"{server.url}/records",
            ms__data__field="data",
            ms__session__key__field='{"name": "next"}',
            ms__parameters=json.dumps([
                {"name": "cursor", "type": "session"}, {"name": "limit", "value": 500}
            ]),
            ms__state__cursor__commit="page", ms__state__cursor__commit__seconds="0",
        )  # fmt: skip
        fails_and_then_brings_everything(job, disk)
        # The page that found no room, and the one that is read again to see that it is the same.
        assert 40 < server.count("/records") <= 42
    assert sorted(row["id"] for row in job.rows()) == list(range(20_000))


def test_wherever_the_room_ends_the_next_run_leaves_each_row_once(
    disk: Disk, tmp_path: Path
) -> None:
    """From the plan, which is written first, over staging, to the manifest, which is last."""
    with on_this_machine(tmp_path, JSON[: JSON.index(b", {", 4000)] + b"]") as source:
        job = appending(tmp_path, **ONE_FILE, **source)
        for kib in range(4, 256, 4):
            disk.resize(kib)
            if kib == 4:
                with pytest.raises(WriteError, match=r"plan\.json") as caught:
                    job.run()
                assert "Check free space" in caught.value.fix
            elif (report := job.run()).status is RunStatus.SUCCESS:
                break
            else:
                assert [failure.code for failure in report.failures] == ["DIL-WRITE"], kib
            disk.resize(PLENTY_KIB)
            assert job.run().exit_code == 0, kib
            assert published(job) == ROWS[: len(job.rows())], kib
            assert len(job.rows()) > 20
            for path in (disk.folder / "lake", *disk.folder.glob("_*"), job.folder / "state"):
                shutil.rmtree(path)
    assert kib > 16


@pytest.mark.spark
def test_the_command_ends_with_an_error_and_no_traceback(disk: Disk, tmp_path: Path) -> None:
    with on_this_machine(tmp_path, JSON) as source:
        job = appending(tmp_path, **ONE_FILE, **source)
    job.job()
    done = run(job.folder / "rows.conf", "2025-01-01T00:00:00Z")
    assert done.returncode == 1
    (failure,) = json.loads(done.stdout)["failures"]
    assert failure["code"] == "DIL-WRITE"
    assert str(disk.folder) in failure["error"]
    assert "Check free space" in failure["fix"]
    assert "Traceback" not in done.stderr
    require_untouched(job)
