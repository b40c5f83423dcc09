"""The client of S3 that all tasks of a process share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.errors import WriteError
from dil.storage.objects.bucket import md5
from dil.storage.objects.filesystem import ObjectFilesystem
from dil.storage.objects.services import S3
from dil.storage.s3.client import connect
from dil.storage.s3.failures import translated_errors
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
XML = (("Content-Type", "application/xml"),)
# Not every service says whether the list continues.
LIST = Reply(b"<ListBucketResult><Name>b</Name></ListBucketResult>", headers=XML)
BEGUN = Reply(
    b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>",
    headers=XML,
)
DONE = Reply(
    b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>", headers=XML
)
TAG = (("ETag", '"1"'),)
OBJECT = {"Bucket": "b", "Key": "k"}


@pytest.fixture
def service(credentials, monkeypatch) -> Iterator[HttpServer]:
    write(credentials, "k", 1)
    monkeypatch.setattr("random.random", lambda: 0.0)  # The client does not wait.
    with HttpServer() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        yield server


@pytest.mark.parametrize(
    ("path", "request_of", "whole"),
    [
        ("/b", lambda client: client.list_objects_v2(Bucket="b"), LIST),
        ("/b/k", lambda client: client.head_object(**OBJECT), Reply(headers=TAG)),
        ("/b/k", lambda client: client.get_object(**OBJECT), Reply(b"{}", headers=TAG)),
        ("/b/k", lambda client: client.create_multipart_upload(**OBJECT), BEGUN),
        ("/b/k", lambda client: client.complete_multipart_upload(**OBJECT, UploadId="u"), DONE),
    ],
)
def test_a_request_whose_answer_breaks_off_in_its_headers_is_sent_again(
    service, path, request_of, whole
):
    service.script(path, TORN, whole)
    client = connect().client
    assert request_of(client)["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert service.count(path) == 2

    service.script(path, TORN)
    with pytest.raises(WriteError), translated_errors("s3://b", client):
        request_of(client)


def test_a_page_of_another_program_is_no_object_and_no_list(service):
    page = Reply(b"<html><body>Sign in</body></html>", content_type="text/html")
    service.script("/b/k", page)
    with pytest.raises(WriteError):
        ObjectFilesystem(S3()).open_input("s3://b/k")
    with pytest.raises(WriteError):
        ObjectFilesystem(S3()).move("s3://b/k", "s3://b/l")

    service.script("/b", page, LIST)
    assert list(ObjectFilesystem(S3()).files("s3://b/in")) == []
    assert service.count("/b") == 2

    service.script("/b", page)
    with pytest.raises(WriteError):
        list(ObjectFilesystem(S3()).files("s3://b/in"))


def test_a_page_of_another_program_is_no_answer_to_a_write_or_a_deletion(service):
    page = Reply(b"<html><body>Blocked</body></html>", content_type="text/html")
    files = ObjectFilesystem(S3())
    service.script("/b/k", page, Reply(headers=TAG), page, Reply(status=204))
    files.put("s3://b/k", b"1")
    files.delete_file("s3://b/k")
    assert [request.method for request in service.requests] == ["PUT"] * 2 + ["DELETE"] * 2

    service.script("/b/l", page)
    for act in (lambda: files.put("s3://b/l", b"1"), lambda: files.delete_file("s3://b/l")):
        with pytest.raises(WriteError):
            act()


def test_an_object_without_a_length_or_without_a_tag_is_an_error_of_the_service(service):
    head = b"HTTP/1.1 200 OK\r\nETag: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    service.script("/b/k", Reply(raw=head + b"1\r\na\r\n0\r\n\r\n"))
    with pytest.raises(WriteError):
        ObjectFilesystem(S3()).open_input("s3://b/k")
    service.script("/b/l", Reply(headers=(("Last-Modified", "Sun, 22 Nov 2026 10:00:00 GMT"),)))
    with pytest.raises(WriteError):
        ObjectFilesystem(S3()).move("s3://b/l", "s3://b/m")


def test_a_list_that_begins_again_is_refused(service):
    page = (
        "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>{}"
        "</NextContinuationToken><Contents><Key>in/a</Key><Size>1</Size>"
        "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>"
    )
    pages = (Reply(page.format(token).encode(), headers=XML) for token in "12")
    service.script("/b", *pages)
    with pytest.raises(WriteError):
        list(ObjectFilesystem(S3()).files("s3://b/in"))
    assert service.count("/b") == 2


def folders(*names, following=""):
    more = f"<NextContinuationToken>{following}</NextContinuationToken>" if following else ""
    form = "<CommonPrefixes><Prefix>in/{}/</Prefix></CommonPrefixes>"
    found = "".join(map(form.format, names))
    text = f"<IsTruncated>{'true' if following else 'false'}</IsTruncated>{more}{found}"
    return Reply(f"<ListBucketResult>{text}</ListBucketResult>".encode(), headers=XML)


def test_a_list_of_folders_that_begins_again_is_refused(service):
    service.script("/b", *(folders("a", "b", following=token) for token in "12"))
    with pytest.raises(WriteError):
        list(ObjectFilesystem(S3()).folders("s3://b/in"))
    assert service.count("/b") == 2


def test_a_folder_of_many_objects_may_be_on_several_pages(service):
    pages = [folders("a", "b", following="1"), folders("b", following="2")]
    service.script("/b", *pages, folders("b", following="3"), folders("b", "c"))
    assert ObjectFilesystem(S3()).folders("s3://b/in") == ["a", "b", "c"]


def test_an_answer_without_a_body_is_whole_where_none_is_needed(service):
    service.script("/b/k", TORN)
    connect().client.put_object(**OBJECT, Body=b"")
    assert service.count("/b/k") == 1


PAGE = (
    "<ListBucketResult><IsTruncated>true</IsTruncated>{}<Contents><Key>in/{}</Key><Size>1</Size>"
    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>"
)
TOKEN = "<NextContinuationToken>1</NextContinuationToken>"


@pytest.mark.parametrize(
    "pages", [[PAGE.format("", "a")], [PAGE.format(TOKEN, "a"), PAGE.format(TOKEN, "b")]]
)
def test_a_list_that_continues_without_a_new_place_is_not_taken_for_the_whole(service, pages):
    service.script("/b", *(Reply(page.encode(), headers=XML) for page in pages))
    with pytest.raises(WriteError):
        list(ObjectFilesystem(S3()).files("s3://b/in"))
    assert service.count("/b") == len(pages)


def test_a_folder_is_not_said_to_be_deleted_while_an_object_may_not_be_deleted(service):
    uploads = Reply(b"<ListMultipartUploadsResult></ListMultipartUploadsResult>", headers=XML)
    found = PAGE.replace("true", "false").format("", "a")
    refused = (
        b"<DeleteResult><Error><Key>in/a</Key><Code>AccessDenied</Code></Error></DeleteResult>"
    )
    service.script("/b", uploads, Reply(found.encode(), headers=XML), Reply(refused, headers=XML))
    with pytest.raises(WriteError) as caught:
        ObjectFilesystem(S3()).delete_tree("s3://b/in")
    assert "s3:DeleteObject" in caught.value.fix
    assert service.count("/b") == 3


def test_a_move_copies_only_the_version_that_was_looked_at(service):
    service.script("/b/k", Reply(headers=TAG))
    service.script("/b/l", Reply(status=404), Reply(status=412), Reply(status=404))
    with pytest.raises(WriteError):
        ObjectFilesystem(S3()).move("s3://b/k", "s3://b/l")
    copies = [each for each in service.requests if each.method == "PUT"]
    assert [each.headers["x-amz-copy-source-if-match"] for each in copies] == ['"1"']
    assert "DELETE" not in [each.method for each in service.requests]


def test_a_first_writer_whose_key_another_writer_changes_tries_again(service, monkeypatch):
    monkeypatch.setattr("dil.storage.s3.bucket._obeying", {f"{service.url} b"})
    racing = Reply(
        b"<Error><Code>ConditionalRequestConflict</Code></Error>", status=409, headers=XML
    )
    service.script("/b/k", racing, Reply(headers=TAG))
    assert ObjectFilesystem(S3()).put_if_absent("s3://b/k", b"1") is True
    assert service.count("/b/k") == 2
    assert {each.headers["If-None-Match"] for each in service.requests} == {"*"}


def test_each_write_carries_the_digest_of_its_data(service):
    service.script("/b/k", Reply(headers=TAG))
    ObjectFilesystem(S3()).put("s3://b/k", b"1")
    assert [each.headers["Content-MD5"] for each in service.requests] == [md5(b"1")]


def test_a_source_that_is_gone_without_its_target_is_lost_and_not_moved(service):
    gone = Reply(b"<Error><Code>NoSuchKey</Code></Error>", status=404, headers=XML)
    files = ObjectFilesystem(S3())
    service.script("/b", LIST)
    service.script("/b/k", gone)
    service.script("/b/l", gone)
    with pytest.raises(WriteError):
        files.replace("s3://b/k", "s3://b/l")

    service.script("/b/k", Reply(headers=TAG))  # It goes between the look and the copy.
    with pytest.raises(WriteError):
        files.move("s3://b/k", "s3://b/l")


def test_a_copy_in_parts_that_fails_leaves_no_parts_behind(service):
    refused = Reply(b"<Error><Code>AccessDenied</Code></Error>", status=403, headers=XML)
    service.script("/b/k", Reply(b"123456789", headers=TAG))
    service.script("/b/l", Reply(status=404), BEGUN, refused, Reply(status=204))
    with pytest.raises(WriteError):
        ObjectFilesystem(S3(copy_bytes=4)).move("s3://b/k", "s3://b/l")
    last = service.requests[-1]
    assert (last.method, last.path, last.query) == ("DELETE", "/b/l", (("uploadId", "u"),))
