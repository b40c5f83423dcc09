"""Azure's Blob Storage: Microsoft's own emulator, azurite, on a free loopback port.

The emulator has no accounts with real folders (hierarchical namespace), and copies at once.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from azure.storage.blob import BlobServiceClient

from tests.servers.programs import free_port
from tests.servers.third_party import needed
from tests.servers.waiting import wait_until

ACCOUNT = "dillake"
# Any valid key: azurite takes accounts from its environment.
KEY = "ZGlsLWRpbC1kaWwtZGlsLWRpbC1kaWwtZGlsLWRpbCE="


class Azurite:
    """One server, a process of its own, with one account; stopped by its pid."""

    def __init__(self) -> None:
        self._program = needed("node", "node_modules", ".bin", "azurite-blob")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="dil-azure-"))
        command = [
            self._program, "--blobHost", "127.0.0.1", "--blobPort", str(self.port),
            "--silent", "--skipApiVersionCheck",
            "--disableTelemetry",
            "--inMemoryPersistence",
        ]  # fmt: skip
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self._folder, start_new_session=True,
                env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
            )  # fmt: skip
        wait_until(self._answers)
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=30)
        shutil.rmtree(self._folder)

    def connection_string(self, url: str = "") -> str:
        """Return a connection string for Azure's tools; ``url`` replaces the server's address."""
        return f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={url or self.url};"

    def client(self) -> BlobServiceClient:
        """Return a client of the administrator, for tests to make and look at blobs."""
        return BlobServiceClient.from_connection_string(self.connection_string())

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError((self._folder / "log").read_text(errors="replace"))
        return b"successfully listens" in (self._folder / "log").read_bytes()
