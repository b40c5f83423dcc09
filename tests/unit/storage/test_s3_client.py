"""The client of S3 that all tasks of a process share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.errors import WriteError
from dil.storage.s3.client import connect
from dil.storage.s3.failures import translated_errors
from dil.storage.s3.listing import list_page
from tests.servers.http_server import HttpServer, Reply


@pytest.fixture
def credentials(tmp_path, monkeypatch) -> Path:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    return tmp_path / "credentials"


def write(file: Path, key: str, changed: int) -> None:
    file.write_text(f"[default]\naws_access_key_id={key}\naws_secret_access_key=s\n")
    os.utime(file, (changed, changed))


def key_of(connection) -> str:
    return connection.session.get_credentials().access_key


def test_a_process_has_one_client_until_its_settings_change(credentials, monkeypatch):
    write(credentials, "first", 1)
    before = connect()
    assert connect() is before

    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    assert connect().client.meta.endpoint_url == "http://127.0.0.1:9"


def test_credentials_that_another_program_renews_are_used(credentials):
    write(credentials, "first", 1)
    assert key_of(connect()) == "first"
    write(credentials, "second", 2)
    assert key_of(connect()) == "second"


TORN = Reply(raw=b"HTTP/1.1 200 OK\r\nServer: faulty\r\n")
LIST = Reply(
    b"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key><Size>1</Size>"
    b"</Contents></ListBucketResult>",
    headers=(("Content-Type", "application/xml"),),
)


@pytest.fixture
def lists(credentials, monkeypatch) -> Iterator[HttpServer]:
    write(credentials, "k", 1)
    with HttpServer() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        yield server


def test_a_list_whose_answer_breaks_off_in_its_headers_is_asked_for_again(lists):
    lists.script("/b", TORN, LIST)
    page = list_page(connect().client, Bucket="b")
    assert [each["Key"] for each in page["Contents"]] == ["a"]


def test_a_list_whose_answers_break_off_is_not_empty(lists):
    lists.script("/b", TORN)
    client = connect().client
    with pytest.raises(WriteError), translated_errors("s3://b", client):
        list_page(client, Bucket="b")
