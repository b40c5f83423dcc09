"""Servers that this project did not write, from PyPI and npm, on free loopback ports."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import requests

from tests.servers.programs import free_port, give_up
from tests.servers.waiting import wait_until

CACHE = Path(__file__).resolve().parents[3] / ".cache" / "servers"
HOW = "Run scripts/ensure-third-party; it needs PyPI, and npm with node 20."


def needed(*parts: str) -> str:
    """Return an installed program; if it is missing, skip the test, or fail if it is required."""
    path = CACHE.joinpath(*parts)
    return str(path) if path.exists() else give_up(f"{path} is not installed. {HOW}")


class ThirdPartyServer:
    """One process in a session of its own; ``{port}`` in the command is replaced by a free port."""

    def __init__(self, command: Sequence[str], folder: Path, *, ready: str = "/") -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [part.replace("{port}", str(self.port)) for part in command]
        self._ready = f"{self.url}{ready}"
        self._folder = folder

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, stdout=log, stderr=log, start_new_session=True
            )
        wait_until(self._answers)
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=30)

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError((self._folder / "server.log").read_text(encoding="utf-8")[-2000:])
        try:
            requests.get(self._ready, timeout=5)
        except requests.ConnectionError:
            return False
        return True


def json_server(folder: Path, database: Path) -> ThirdPartyServer:
    """Serve the arrays of a JSON file: pages by _page and _limit, with a Link header."""
    program = needed("node", "node_modules", ".bin", "json-server")
    return ThirdPartyServer(
        [program, "--host", "127.0.0.1", "--port", "{port}", "--quiet", str(database)], folder
    )


def oauth2_server(folder: Path) -> ThirdPartyServer:
    """Serve tokens of the OAuth2 grants at /token."""
    program = needed("node", "node_modules", ".bin", "oauth2-mock-server")
    return ThirdPartyServer(
        [program, "-a", "127.0.0.1", "-p", "{port}"],
        folder,
        ready="/.well-known/openid-configuration",
    )


def datasette(folder: Path, database: Path) -> ThirdPartyServer:
    """Serve the tables of an SQLite file: JSON with next and next_url, CSV."""
    program = needed("python", "bin", "datasette")
    return ThirdPartyServer(
        [program, "serve", str(database), "--host", "127.0.0.1", "--port", "{port}"], folder
    )


def httpbin(folder: Path) -> ThirdPartyServer:
    """Serve echoes of requests, statuses, redirects, delays, codings."""
    python = needed("python", "bin", "python")
    run = "from httpbin import app; app.run('127.0.0.1', {port}, threaded=True)"
    return ThirdPartyServer([python, "-c", run], folder, ready="/get")


def localstripe(folder: Path) -> ThirdPartyServer:
    """Serve like Stripe: an API key as user name, form bodies, cursors by the last id."""
    program = needed("python", "bin", "localstripe")
    return ThirdPartyServer([program, "--port", "{port}", "--from-scratch"], folder)
