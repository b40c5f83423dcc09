"""S3 servers on free loopback ports, processes of their own, stopped by pid.

``RcloneServer`` is a real server: it keeps objects as files and verifies signatures. ``MotoServer``
knows more of S3, such as versions.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

from tests.servers.programs import free_port
from tests.servers.third_party import needed
from tests.servers.waiting import wait_until_listening

KEY, SECRET = "AKIADILDILDILDILDIL", "s3cr/et+key/of/dil"
REGION = "eu-test-1"


class S3Server(ABC):
    """One server; ``bucket`` makes buckets."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="dil-s3-"))
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, cwd=self.folder, start_new_session=True,
                env={**os.environ, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"},
            )  # fmt: skip
        wait_until_listening(self._process, self.port, self.folder / "log")

    def stop(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=30)

    @abstractmethod
    def command(self) -> list[str]:
        """Return the program and its arguments."""

    def client(self, url: str = "") -> Any:
        """Return a client of the administrator, for tests to make and look at objects."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3", endpoint_url=url or self.url, aws_access_key_id=KEY, aws_secret_access_key=SECRET,
            region_name=REGION,
            config=Config(s3={"addressing_style": "path"}, proxies={},
                          request_checksum_calculation="when_required"),
        )  # fmt: skip

    def bucket(self, name: str, **objects: bytes) -> Any:
        """Make a bucket and return the administrator's client."""
        client = self.client()
        client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
        for key, body in objects.items():
            client.put_object(Bucket=name, Key=key, Body=body)
        return client


class MotoServer(S3Server):
    """Moto's server (a development dependency)."""

    def command(self) -> list[str]:
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]


class RcloneServer(S3Server):
    """``rclone serve s3`` over a folder (scripts/ensure-third-party)."""

    def __init__(self) -> None:
        super().__init__()
        self._program = needed("python", "bin", "rclone")

    def command(self) -> list[str]:
        (self.folder / "objects").mkdir(exist_ok=True)
        return [
            self._program, "serve", "s3", str(self.folder / "objects"), "--config", "",
            "--addr", f"127.0.0.1:{self.port}", "--auth-key", f"{KEY},{SECRET}",
            "--vfs-cache-mode", "off",
        ]  # fmt: skip
