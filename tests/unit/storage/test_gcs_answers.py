"""What Google's client library says of credentials, in our words."""

import pytest
from google.auth import exceptions

from dil.errors import WriteError
from dil.storage.objects.filesystem import ObjectFilesystem
from dil.storage.objects.gcs_requests import Requests
from dil.storage.objects.services import GoogleAndAzure
from tests.servers.http_server import HttpServer, Reply


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (exceptions.RefreshError(), "RefreshError"),
        (exceptions.RefreshError("invalid_grant\nand a page of more"), "invalid_grant"),
    ],
)
def test_credentials_that_get_no_token_are_told_with_what_is_known(error, words, monkeypatch):
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    asking = Requests("gs://lake")

    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(asking._session, "request", refuse)
    with pytest.raises(WriteError) as caught:
        asking.ask("gs://lake/a", "GET", "/")
    assert f"were refused ({words})" in caught.value.message


def test_a_path_of_another_store_is_told_with_the_properties_that_name_one():
    with pytest.raises(WriteError, match="neither on Google") as caught:
        ObjectFilesystem(GoogleAndAzure()).put("s3://lake/a", b"")
    assert "data.publisher.final.dir" in caught.value.fix
    assert "state.store.dir" in caught.value.fix


PART = 256 << 10  # the least part that the service takes
WHOLE = f"bytes=0-{PART - 1}"


def sent(server, *answers, size=PART + 1):
    """Send so many bytes in a resumable upload; return the ranges of its requests."""
    begun = Reply(b"{}", headers=(("Location", f"{server.url}/session"),))
    server.script("/upload/storage/v1/b/lake/o", begun)
    server.script("/session", *answers)
    files = ObjectFilesystem(GoogleAndAzure(), part_bytes=PART)
    try:
        with files.open_output("gs://lake/a") as stream:
            stream.write(b"x" * size)
    finally:
        ranges = [each.headers["Content-Range"] for each in server.requests if each.method == "PUT"]
    return ranges


@pytest.fixture
def server(monkeypatch):
    with HttpServer() as made:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", made.url)
        yield made


def seen(text):
    return Reply(status=308, headers=(("Range", text),))


def stored(size):
    return Reply(f'{{"size": "{size}"}}'.encode())


@pytest.mark.parametrize("status", [400, 416, 503])
def test_after_a_refused_part_the_service_is_asked_what_arrived(server, status):
    total = PART + 1
    assert sent(server, seen(WHOLE), Reply(status=status), stored(total)) == [
        f"bytes 0-{PART - 1}/*",
        f"bytes {PART}-{PART}/{total}",
        f"bytes */{total}",
    ]


@pytest.mark.parametrize(
    "answers",
    [
        [stored(PART)],
        [seen(WHOLE), stored(PART)],
        [seen(WHOLE), seen("bytes=0-99")],
        [seen(WHOLE), seen(f"bytes=0-{2 * PART}")],
    ],
    ids=["an object before its last part", "a short object", "bytes lost", "bytes of others"],
)
def test_an_upload_of_which_the_service_lacks_bytes_makes_no_file(server, answers):
    with pytest.raises(WriteError):
        sent(server, *answers)
    assert [each.method for each in server.requests].count("PUT") == len(answers)


def test_the_last_part_of_a_file_of_whole_parts_is_not_empty(server):
    assert sent(server, seen(WHOLE), stored(2 * PART), size=2 * PART) == [
        f"bytes 0-{PART - 1}/*",
        f"bytes {PART}-{2 * PART - 1}/{2 * PART}",
    ]
