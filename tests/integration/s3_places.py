"""A bucket as a place of files, for tests: its environment, and a look at it past ``dil``."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from tests.servers.s3 import KEY, REGION, SECRET, MotoServer, S3Server

_OF_THIS_MACHINE = (
    "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION",
)  # fmt: skip


def environment(url: str) -> dict[str, str]:
    """Return the variables by which the AWS tools reach a server."""
    return {
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def use(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process, and what it starts, reach a server and nothing else."""
    for name in _OF_THIS_MACHINE:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment(url).items():
        monkeypatch.setenv(name, value)


class OrderlyMoto(MotoServer):
    """Moto's server, one request at a time, for writers that race.

    It looks whether there is an object and writes one in two steps, between which another thread
    of it may do the same; S3 does not.
    """

    def command(self) -> list[str]:
        program = (
            "import sys, threading\n"
            "from werkzeug.serving import run_simple; from moto import server\n"
            "app = server.DomainDispatcherApplication(server.create_backend_app)\n"
            "turn = threading.Lock()\n"
            "def in_turn(environ, start):\n"
            "    with turn: return list(app(environ, start))\n"
            "run_simple('127.0.0.1', int(sys.argv[1]), in_turn, threaded=True)\n"
        )
        return [sys.executable, "-c", program, str(self.port)]


def opened(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """Return a new bucket, which this process, and what it starts, reaches."""
    use(server.url, monkeypatch)
    return Bucket(server)


class Bucket:
    """A new bucket of a server, over the administrator's client."""

    def __init__(self, server: S3Server) -> None:
        self.name = f"b{uuid.uuid4().hex[:12]}"
        self.uri = f"s3://{self.name}"
        self.client: Any = server.bucket(self.name)

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """Return the content of all objects by their keys."""
        return {
            key: self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
            for key in self.keys(prefix)
        }

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys that begin so, sorted."""
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.name, Prefix=prefix
        )
        return sorted(each["Key"] for page in pages for each in page.get("Contents", ()))

    def uploads(self) -> list[dict[str, Any]]:
        """Return the multipart uploads that are open."""
        answer = self.client.list_multipart_uploads(Bucket=self.name)
        return list(answer.get("Uploads", ()))

    def write(self, key: str, data: bytes) -> None:
        """Write an object, over one that may be there."""
        self.client.put_object(Bucket=self.name, Key=key, Body=data)

    def restore(self, objects: Mapping[str, bytes]) -> None:
        """Let the bucket hold these objects and no others; notes on objects are lost."""
        for key in self.keys():
            self.client.delete_object(Bucket=self.name, Key=key)
        for key, data in objects.items():
            self.write(key, data)
