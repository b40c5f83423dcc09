"""Many files: each is a work unit of its own that is read once (docs/files.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.local_jobs import FileJob, error_of
from tests.servers.meddling_proxy import MeddlingProxy
from tests.servers.s3 import KEY, REGION, SECRET, RcloneServer
from tests.servers.sftp import SftpServer

LIST = {
    "job__name": "list", "extract__table__name": "list", "state__store__enabled": "false",
    "data__publisher__replace__final__dir": "true", "extract__is__full": "true",
}  # fmt: skip
READ = {
    "ms__secondary__input": json.dumps(
        [{"path": "lake/lake/list", "fields": ["values"], "category": "activation"}]
    ),
    "extract__table__type": "SNAPSHOT_APPEND", "ms__abstinent__period__days": "3650",
    "ms__extractor__class": "csv", "ms__csv": '{"columnHeaderIndex":0}',
    "ms__extractor__target__file__name": "{{values}}",
    "ms__watermark": json.dumps(
        [{"name": "s", "type": "datetime", "range": {"from": "2024-01-01", "to": "-"}}]
    ),
}  # fmt: skip


class Store:
    """Where files are put, and how a job reaches them; ``uri`` is that of one listed name."""

    def __init__(self, put, properties: dict[str, str], folder: str, uri: str) -> None:
        self.put, self.properties, self.folder, self.uri = put, properties, folder, uri


@pytest.fixture(params=["s3", "sftp"])
def store(request) -> Iterator[Store]:
    if request.param == "sftp":
        with SftpServer() as server:
            yield Store(
                lambda name, body: (server.files / name).write_bytes(body),
                server.properties(), str(server.files), "{{values}}",
            )  # fmt: skip
        return
    with RcloneServer() as server:
        client = server.bucket("lake")
        given = {
            "source__class": "s3", "source__conn__username": KEY, "source__conn__password": SECRET,
            "ms__source__s3__parameters": json.dumps({"endpoint": server.url, "region": REGION}),
        }  # fmt: skip
        yield Store(
            lambda name, body: client.put_object(Bucket="lake", Key=f"in/{name}", Body=body),
            given, "s3://lake/in/", "s3://lake/{{values}}",
        )  # fmt: skip


def test_each_file_is_read_once_and_new_ones_by_the_next_run(store: Store, tmp_path: Path):
    store.put("a 1.csv", b"id\n1\n2\n")
    store.put("b,ü.csv", b"id\n3\n")
    listing = FileJob(tmp_path, **store.properties, **LIST, ms__source__uri=store.folder)
    reading = FileJob(tmp_path, **store.properties, **READ, ms__source__uri=store.uri)

    def published() -> list[int]:
        return sorted(row["id"] for row in reading.rows() if "id" in row)

    assert listing.run().failures == ()
    report = reading.run()
    assert (report.failures, report.units.planned) == ((), 2)
    assert published() == [1, 2, 3]
    store.put("c.csv", b"id\n4\n")
    assert listing.run().failures == ()
    report = reading.run()
    assert (report.failures, report.units.planned) == ((), 1)
    assert published() == [1, 2, 3, 4]


ONCE = {
    "extract__table__type": "APPEND_ONLY", "ms__extractor__class": "csv",
    "ms__csv": '{"columnHeaderIndex":0}', "ms__source__files__once": "version",
    "ms__source__files__pattern": ".*[.]csv",
}  # fmt: skip


def test_one_job_reads_each_version_of_each_file_once(store: Store, tmp_path: Path):
    store.put("a 1.csv", b"id\n1\n2\n")
    store.put("b.txt", b"id\n9\n")
    job = FileJob(tmp_path, **store.properties, **ONCE, ms__source__uri=store.folder)

    def published() -> list[int]:
        return sorted(row["id"] for row in job.rows())

    assert job.run().failures == ()
    assert published() == [1, 2]
    assert job.run().units.planned == 0
    store.put("b,c.csv", b"id\n3\n")
    store.put("a 1.csv", b"id\n1\n2\n4\n")
    report = job.run()
    assert (report.failures, report.units.planned) == ((), 2)
    assert published() == [1, 1, 2, 2, 3, 4]
    assert job.run().units.planned == 0


def test_a_version_that_is_replaced_after_it_was_listed_is_not_read_under_its_name(tmp_path: Path):
    with RcloneServer() as server, MeddlingProxy(server.port) as proxy:
        client = server.bucket("lake", **{"in/a.csv": b"id\n1\n"})
        proxy.act_before(
            b"GET /lake/in/a.csv",
            lambda: client.put_object(Bucket="lake", Key="in/a.csv", Body=b"id\n1\n2\n"),
        )
        url = f"http://127.0.0.1:{proxy.port}"
        job = FileJob(
            tmp_path, **ONCE, source__class="s3", source__conn__username=KEY,
            source__conn__password=SECRET, ms__source__uri="s3://lake/in/",
            ms__source__s3__parameters=json.dumps({"endpoint": url, "region": REGION}),
        )  # fmt: skip
        assert error_of(job.run()) == (
            "DIL-SRC-CONTRACT: in/a.csv: the file changed after it was listed"
        )
        assert proxy.failures == []
        assert job.run().failures == ()
        assert sorted(row["id"] for row in job.rows()) == [1, 2]
        assert job.run().units.planned == 0
