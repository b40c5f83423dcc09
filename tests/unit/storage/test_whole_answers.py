"""Answers of Google Cloud Storage, Azure and HDFS that break off among their headers.

Such an answer is no empty list, no object without a size, and no object that was written.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dil.errors import WriteError
from dil.storage.hdfs.filesystem import HdfsFilesystem
from dil.storage.objects.azure import AzureContainer
from dil.storage.objects.bucket import Bucket, ObjectState
from dil.storage.objects.gcs import GcsBucket
from dil.storage.objects.services import GoogleAndAzure
from tests.servers.http_server import HttpServer, Reply

TORN = Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: 1\r\n")
XML = b"<?xml version='1.0'?><EnumerationResults ServiceEndpoint='http://a'><Blobs/>"
STAMP = ("Last-Modified", "Sun, 22 Nov 2026 10:00:00 GMT")
# The place, and for each service the path and the whole answer of a list and of a state.
GCS = ("gs://b/a", ("/storage/v1/b/b/o", Reply(b"{}")),
       ("/storage/v1/b/b/o/a%2Fk", Reply(b'{"size": "2", "generation": "1"}')))  # fmt: skip
AZURE = ("abfss://b@acct.dfs.core.windows.net/a",
         ("/acct/b", Reply(XML + b"</EnumerationResults>", content_type="application/xml")),
         ("/acct/b/a/k", Reply(headers=(("ETag", "1"), STAMP))))  # fmt: skip


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpServer]:
    monkeypatch.setattr("time.sleep", lambda _: None)  # the waits between repetitions
    with HttpServer() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        monkeypatch.setenv(
            "AZURE_STORAGE_CONNECTION_STRING",
            f"AccountName=acct;AccountKey=c2VjcmV0;BlobEndpoint={server.url}/acct",
        )
        yield server


def opened(place: str) -> Bucket:
    kind = GcsBucket if place.startswith("gs:") else AzureContainer
    return kind(GoogleAndAzure.address.place(place))


@pytest.mark.parametrize(("place", "listed", "asked"), [GCS, AZURE])
def test_a_request_is_sent_again(server, place, listed, asked):
    for path, whole in (listed, asked):
        server.script(path, TORN, whole)
    assert list(opened(place).entries("a/")) == []
    assert isinstance(opened(place).state("a/k"), ObjectState)
    assert [server.count(path) for path, _ in (listed, asked)] == [2, 2]


@pytest.mark.parametrize(("place", "listed", "asked"), [GCS, AZURE])
def test_a_service_that_never_gives_a_whole_answer_fails_the_attempt(server, place, listed, asked):
    for path, _ in (listed, asked):
        server.script(path, TORN)
    with pytest.raises(WriteError):
        list(opened(place).entries("a/"))
    with pytest.raises(WriteError):
        opened(place).state("a/k")


def test_a_page_of_a_proxy_is_no_answer_of_google(server):
    page = Reply(b"<html><body>Blocked</body></html>", content_type="text/html")
    written, deleted = "/upload/storage/v1/b/b/o", GCS[2][0]
    server.script(written, page, Reply(b"{}"), page)
    server.script(deleted, page, Reply(status=204), page)
    bucket = opened(GCS[0])
    bucket.put("a/k", b"1")
    bucket.delete("a/k")
    assert [server.count(path) for path in (written, deleted)] == [2, 2]
    for act in (lambda: bucket.put("a/k", b"1"), lambda: bucket.delete("a/k")):
        with pytest.raises(WriteError):
            act()


def test_a_page_of_a_proxy_is_no_deletion_in_hdfs(server):
    path = f"{server.url.replace('http', 'webhdfs')}/a"
    server.script("/webhdfs/v1/a", Reply(b'{"boolean": true}'), Reply(b"<html/>"))
    HdfsFilesystem().delete_file(path)
    with pytest.raises(WriteError):
        HdfsFilesystem().delete_file(path)


def test_a_list_of_hdfs_is_asked_for_again(server):
    empty = b'{"partialListing": {"FileStatuses": {"FileStatus": []}}, "remainingEntries": 0}'
    whole = Reply(b'{"DirectoryListing": %b}' % empty)
    server.script("/webhdfs/v1/a", TORN, whole)
    folder = f"{server.url.replace('http', 'webhdfs')}/a"
    assert list(HdfsFilesystem().files(folder)) == []
    assert server.count("/webhdfs/v1/a") == 2
