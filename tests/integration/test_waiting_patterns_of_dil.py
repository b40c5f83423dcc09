"""DIL's job files that wait for a file, with a real OpenSSH server and an S3 server."""

from __future__ import annotations

from pathlib import Path

import pytest

from dil.model.report import RunStatus
from tests.integration.test_patterns_of_dil import DilFlow
from tests.servers.hdfs import Hdfs
from tests.servers.s3 import MotoServer
from tests.servers.sftp import SftpServer

NOW = "2024-01-10T18:00:00Z"


@pytest.fixture
def flow(hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DilFlow:
    found = DilFlow.of_lake("http://127.0.0.1:9", tmp_path, hdfs, monkeypatch)
    found.moved()
    return found


@pytest.mark.parametrize(
    ("name", "status"), [("done", RunStatus.SUCCESS), ("csv", RunStatus.FAILED)]
)
def test_a_flow_goes_on_when_the_file_of_the_day_is_done(
    flow: DilFlow, name: str, status: RunStatus
) -> None:
    with SftpServer() as server:
        daily = server.files / "outbound" / "daily"
        daily.mkdir(parents=True)
        (daily / "sales_20240109.done").touch()
        (daily / f"sales_20240110.{name}").touch()
        flow.serve(server)
        report = flow.job("6a-wait-for-file.pull", now=NOW)
    assert report.status is status, report.failures


@pytest.mark.parametrize(
    ("day", "status"), [("2024/01/10", RunStatus.SUCCESS), ("2024/01/09", RunStatus.FAILED)]
)
def test_a_flow_needs_an_object_of_the_day(
    flow: DilFlow, monkeypatch: pytest.MonkeyPatch, day: str, status: RunStatus
) -> None:
    with MotoServer() as server:
        server.bucket("acme-drop", **{f"daily/{day}/a.parquet": b"x"})
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        report = flow.job("6b-require-file.pull", now=NOW)
    assert report.status is status, report.failures
    kept = [row["key"] for row in flow.stage("require_file")]
    assert kept == ([f"daily/{day}/a.parquet"] if status is RunStatus.SUCCESS else [])
