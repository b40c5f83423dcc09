"""Starts database servers of the system's packages, as a user that may run them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

HOW = (
    "Run scripts/ensure-servers, or install them: apt-get install postgresql mariadb-server "
    "(macOS: brew install postgresql mariadb)."
)


def needed_program(name: str, *places: str) -> str:
    """Return a server's program; if it is missing, skip the test, or fail if it is required."""
    return find_program(name, places) or give_up(f"{name} is not installed. {HOW}")


def give_up(reason: str) -> NoReturn:
    """Skip the test because a server is missing, or fail it if servers are required.

    Servers are required if ``DIL_REQUIRE_SERVERS`` or ``CI`` is set.
    """
    if os.environ.get("DIL_REQUIRE_SERVERS") or os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def find_program(name: str, places: Iterable[str]) -> str | None:
    """Return the newest program of a name in some folders (``*`` is allowed), or on the path."""
    for place in places:
        root, _, pattern = place.partition("*")
        if pattern:
            folder, _, stem = root.rpartition("/")
            found = sorted(Path(folder).glob(f"{stem}*{pattern}/{name}"), key=_release)
        else:
            found = [path for path in [Path(place) / name] if path.exists()]
        if found:
            return str(found[-1])
    return shutil.which(name)


def _release(program: Path) -> list[int]:
    return [int(part) for part in program.parts if part.isdecimal()]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def own_folder(user: str) -> tuple[Path, str | None]:
    """Return a new folder that a server may use, and the user to run it as.

    Servers refuse to run as root, and pytest's own folders are closed to other users.
    """
    folder = Path(tempfile.mkdtemp(prefix="dil-server-"))
    if os.geteuid() != 0:
        return folder, None
    shutil.chown(folder, user, user)
    return folder, user


def run(command: Sequence[str], user: str | None) -> None:
    subprocess.run(command, check=True, capture_output=True, user=user, group=user,
                   extra_groups=[] if user else None, cwd="/")  # fmt: skip


def start(command: Sequence[str], user: str | None, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as stream:
        return subprocess.Popen(command, stdout=stream, stderr=stream, user=user, group=user,
                                extra_groups=[] if user else None, cwd="/",
                                start_new_session=True)  # fmt: skip
