"""Answers of Azure that the emulator never gives."""

from __future__ import annotations

import pytest

from dil.storage.objects.filesystem import ObjectFilesystem
from dil.storage.objects.services import GoogleAndAzure
from tests.servers.http_server import HttpServer, Reply

LAKE = "abfss://lake@shop.dfs.core.windows.net"
LIST = "<?xml version='1.0'?><EnumerationResults><Blobs>{}</Blobs></EnumerationResults>"
BLOB = (
    "<Blob><Name>{}</Name><Properties><BlobType>BlockBlob</BlobType>"
    "<Content-Length>1</Content-Length>"
    "<Last-Modified>Sun, 22 Nov 2026 10:00:00 GMT</Last-Modified></Properties></Blob>"
)


def test_files_are_in_order_where_an_account_lists_folders_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ["in/b/1", "in/a"]
    body = LIST.format("".join(map(BLOB.format, names))).encode()
    with HttpServer() as server:
        monkeypatch.setenv(
            "AZURE_STORAGE_CONNECTION_STRING",
            f"AccountName=shop;BlobEndpoint={server.url}/shop;SharedAccessSignature=sv=1&sig=eA",
        )
        server.script("/shop/lake", Reply(body, content_type="application/xml"))
        found = [file.path for file in ObjectFilesystem(GoogleAndAzure()).files(f"{LAKE}/in")]
    assert found == [f"{LAKE}/{name}" for name in sorted(names)]
