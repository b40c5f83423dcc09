"""Copies that Azure makes: slow ones, and those whose source it may not read.

The emulator copies at once, so a server that says what Azure's documentation says stands for it.
"""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dil.errors import WriteError
from dil.storage.objects import azure
from dil.storage.objects.filesystem import ObjectFilesystem
from dil.storage.objects.services import GoogleAndAzure
from tests.servers.in_thread import InThread

ACCOUNT = "slow"
SECRET = "c2VjcmV0"
NO_BLOBS = b"<?xml version='1.0'?><EnumerationResults><Blobs/></EnumerationResults>"
LAKE = f"abfss://lake@{ACCOUNT}.dfs.core.windows.net"


class Copies(InThread):
    """Blobs that are being copied, until ``states`` has one left; refuses copies unless asked to.

    ``deleted`` has the paths of deleted blobs.
    """

    def __init__(self, *states, accepts=False):
        self.states = list(states)
        self.accepts = accepts
        self.deleted = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    def _handler(self):
        states, accepts, deleted = self.states, self.accepts, self.deleted

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                state = states.pop(0) if len(states) > 1 else states[0]
                self._answer(
                    200,
                    ("x-ms-copy-status", state),
                    ("x-ms-copy-progress", "1/5"),
                    ("x-ms-meta-dil_moved_from", "source"),
                    size=5,
                )

            def do_GET(self):
                self._answer(200, ("Content-Type", "application/xml"), body=NO_BLOBS)

            def do_DELETE(self):
                deleted.append(self.path.partition("?")[0])
                self._answer(202)

            def do_PUT(self):
                if accepts:
                    self._answer(202, ("x-ms-copy-status", "pending"))
                    return
                self._answer(404, ("x-ms-error-code", "CannotVerifyCopySource"))

            def _answer(self, status, *headers, size=0, body=b""):
                self.send_response(status)
                stamp = ("Last-Modified", "Sun, 22 Nov 2026 10:00:00 GMT")
                for name, value in (
                    ("ETag", '"1"'),
                    stamp,
                    *headers,
                    ("Content-Length", size or len(body)),
                ):
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        return Handler


@pytest.fixture
def connect(monkeypatch):
    monkeypatch.setattr(azure, "_FIRST_PAUSE_S", 0.001)

    def use(server):
        monkeypatch.setenv(
            "AZURE_STORAGE_CONNECTION_STRING",
            f"AccountName={ACCOUNT};BlobEndpoint=http://127.0.0.1:{server.port}/{ACCOUNT};"
            f"SharedAccessSignature=sv=1&sig={SECRET}",
        )
        return ObjectFilesystem(GoogleAndAzure())

    return use


def test_a_copy_that_takes_its_time_is_waited_for(connect):
    with Copies("pending", "pending", "success") as server:
        assert connect(server).exists(f"{LAKE}/a")
        assert server.states == ["success"]


def test_a_copy_that_does_not_end_is_not_waited_for_without_end(connect, monkeypatch):
    monkeypatch.setattr(azure, "_COPY_LIMIT_S", 0.05)
    with Copies("pending") as server, pytest.raises(WriteError) as caught:
        connect(server).exists(f"{LAKE}/a")
    assert caught.value.message == f"{LAKE}/a: Azure is still copying it (1/5 bytes)"
    assert "run again" in caught.value.fix


def test_a_copy_whose_source_azure_cannot_read_is_told_with_what_a_signature_needs(connect):
    with Copies("success") as server, pytest.raises(WriteError) as caught:
        connect(server).replace(f"{LAKE}/a", f"{LAKE}/b")
    assert "answers CannotVerifyCopySource" in caught.value.message
    assert "AZURE_STORAGE_SAS_TOKEN" in caught.value.fix
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None, "the library's error has the address"


def test_a_copy_that_fails_while_it_is_waited_for_loses_no_blob(connect):
    states = ("success", "pending", "failed")  # the source, then the copy
    with Copies(*states, accepts=True) as server, pytest.raises(WriteError):
        connect(server).replace(f"{LAKE}/a", f"{LAKE}/b")
    assert server.deleted == [f"/{ACCOUNT}/lake/b"]
