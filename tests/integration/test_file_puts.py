"""Whole files sent to S3 and SFTP (docs/object-stores.md): what arrives is what was there."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.files.remote import RemoteFileSession
from connectors.s3.client import JobSettings
from connectors.s3.session import S3Files
from connectors.sftp.connection import SftpSettings
from connectors.sftp.session import SftpFiles
from dil.errors import ConfigError, DilError, SourceContractError, SourceError, TransientSourceError
from dil.model.secondary import SecondaryInput
from dil.operator.source_preview import preview_source
from dil.spi.connector import RequestValues
from tests.integration.local_jobs import NOW, FileJob
from tests.servers.meddling_proxy import MeddlingProxy
from tests.servers.s3 import KEY, REGION, SECRET, MotoServer, RcloneServer, S3Server
from tests.servers.sftp import SftpServer

LARGE = os.urandom(9 * 1024 * 1024 + 17)


@pytest.fixture(scope="module")
def rclone() -> Iterator[S3Server]:
    with RcloneServer() as server:
        server.bucket("out")
        yield server


@pytest.fixture(scope="module")
def moto() -> Iterator[S3Server]:
    with MotoServer() as server:
        server.bucket("out")
        yield server


@pytest.fixture(scope="module")
def sshd() -> Iterator[SftpServer]:
    with SftpServer() as server:
        yield server


@pytest.fixture
def source(tmp_path) -> Path:
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "orders 1.csv"
    path.write_bytes(b"id\n1\n")
    return path


def sending(tmp_path: Path, path: str, **properties: str):
    job = FileJob(tmp_path, **properties).job()
    entry = SecondaryInput(path=path, category="payload", format="binary")
    return replace(job, properties=job.properties.having("ms.secondary.input", (entry,)))


def to_s3(tmp_path: Path, url: str, path: str, prefix: str = "in/", **variables: str) -> dict:
    job = sending(
        tmp_path, path, source__class="s3", ms__source__uri=f"s3://out/{prefix}",
        ms__source__s3__parameters=json.dumps({"endpoint": url, "region": REGION}),
        source__conn__username=KEY, source__conn__password=SECRET,
    )  # fmt: skip
    server = S3Files(JobSettings.of(job))
    with RemoteFileSession(job, server, sleep=lambda seconds: None) as session:
        response = session.fetch(RequestValues(variables, {}))
        return json.loads(response.body.read())


def to_sftp(tmp_path: Path, server: SftpServer, path: str, port: int | None = None, **more) -> dict:
    folder = more.pop("folder", str(server.files))
    job = sending(tmp_path, path, ms__source__uri=folder, **server.properties(port))
    remote = SftpFiles(SftpSettings.of(job))
    with RemoteFileSession(job, remote, sleep=lambda seconds: None) as session:
        return json.loads(session.fetch(RequestValues(more, {})).body.read())


@pytest.mark.parametrize("kind", ["rclone", "moto"])
def test_a_small_file_is_one_put_whose_etag_is_its_md5(kind, request, tmp_path, source):
    server = request.getfixturevalue(kind)
    row = to_s3(tmp_path, server.url, f"{source.parent}/{{{{name}}}}", name="orders 1.csv")
    digest = hashlib.md5(b"id\n1\n").hexdigest()
    assert (row["md5Valid"], row["bucket"], row["key"]) == (True, "out", "in/orders 1.csv")
    assert row["eTag"] == f'"{digest}"'
    found = server.client().get_object(Bucket="out", Key="in/orders 1.csv")["Body"]
    assert found.read() == b"id\n1\n"


@pytest.mark.parametrize("kind", ["rclone", "moto"])
def test_a_large_file_goes_in_parts_and_arrives_whole(kind, request, tmp_path, source):
    server = request.getfixturevalue(kind)
    source.write_bytes(LARGE)
    row = to_s3(tmp_path, server.url, str(source), prefix="", uploadS3Key="big.bin")
    assert (row["md5Valid"], row["key"]) == (None, "big.bin")
    assert server.client().get_object(Bucket="out", Key="big.bin")["Body"].read() == LARGE


def test_an_upload_that_breaks_off_leaves_no_object_and_no_parts(moto, tmp_path, source):
    source.write_bytes(LARGE)
    with MeddlingProxy(moto.port) as proxy:
        proxy.act_before(b"partNumber=2", lambda: source.write_bytes(LARGE[:-1]))
        with pytest.raises(SourceContractError, match="changed while it was read"):
            to_s3(tmp_path, f"http://127.0.0.1:{proxy.port}", str(source), uploadS3Key="torn.bin")
    client = moto.client()
    assert client.list_objects_v2(Bucket="out", Prefix="in/torn").get("Contents", []) == []
    assert client.list_multipart_uploads(Bucket="out").get("Uploads", []) == []


def test_an_empty_file_is_sent_as_such(rclone, tmp_path, source):
    source.write_bytes(b"")
    assert to_s3(tmp_path, rclone.url, str(source), uploadS3Key="empty")["md5Valid"] is True


def test_a_file_that_is_not_there_is_an_error(rclone, sshd, tmp_path):
    words = r"the file to send, .*/none, cannot be read: No such file or directory"
    with pytest.raises(SourceError, match=words):
        to_s3(tmp_path, rclone.url, str(tmp_path / "none"))
    with pytest.raises(SourceError, match=words):
        to_sftp(tmp_path, sshd, str(tmp_path / "none"))


def test_a_path_with_a_variable_that_has_no_value_is_an_error(rclone, tmp_path):
    with pytest.raises(SourceContractError, match=r"\{\{name\}\}, which nothing gives a value"):
        to_s3(tmp_path, rclone.url, "/data/{{name}}")


def test_sftp_takes_a_file_whole_and_over_the_one_of_that_name(sshd, tmp_path, source):
    (sshd.files / "orders 1.csv").write_text("old")
    row = to_sftp(tmp_path, sshd, str(source))
    target = sshd.files / "orders 1.csv"
    digest = hashlib.md5(b"id\n1\n").hexdigest()
    assert row == {"path": str(target), "size": 5, "md5": digest}
    assert target.read_bytes() == b"id\n1\n"
    source.write_bytes(LARGE)
    to_sftp(tmp_path, sshd, str(source))
    assert target.read_bytes() == LARGE


def test_an_sftp_transfer_that_breaks_off_leaves_the_file_of_that_name_as_it_was(
    sshd, tmp_path, source
):
    (sshd.files / "kept.csv").write_text("old")
    source.write_bytes(LARGE)
    with MeddlingProxy(sshd.port) as proxy:
        proxy.cut_after(3_500, times=100)
        with pytest.raises(TransientSourceError):
            to_sftp(tmp_path, sshd, str(source), proxy.port, uploadS3Key="kept.csv")
        assert proxy.cuts
    assert (sshd.files / "kept.csv").read_text() == "old"


def test_a_folder_that_the_server_does_not_have_is_told(sshd, tmp_path, source):
    with pytest.raises(DilError, match="there is no such folder on the server"):
        to_sftp(tmp_path, sshd, str(source), folder=str(sshd.files / "none"))


def test_a_run_sends_a_file_for_each_unit_and_its_rows_tell_what_was_sent(rclone, tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(name)
    marks = [
        {"name": "s", "type": "datetime", "range": {"from": "2024-12-31", "to": "P0D"}},
        {"name": "u", "type": "unit", "units": [{"file": "a.csv"}, {"file": "b.csv"}]},
    ]
    entry = {"path": f"{tmp_path}/{{{{file}}}}", "category": "payload", "format": "binary"}
    job = FileJob(
        tmp_path / "job", source__class="s3", ms__source__uri="s3://out/run/",
        ms__source__s3__parameters=json.dumps({"endpoint": rclone.url, "region": REGION}),
        source__conn__username=KEY, source__conn__password=SECRET,
        ms__watermark=json.dumps(marks), ms__secondary__input=json.dumps([entry]),
    )  # fmt: skip
    with pytest.raises(ConfigError, match="has a file to send, which the preview would send too"):
        preview_source(job.job(), now_ms=NOW, rows=1)
    assert job.run().failures == ()
    assert {(row["key"], row["md5Valid"]) for row in job.rows()} == {
        ("run/a.csv", True), ("run/b.csv", True)
    }  # fmt: skip
    assert rclone.client().get_object(Bucket="out", Key="run/b.csv")["Body"].read() == b"b.csv"
