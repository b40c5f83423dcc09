"""Drives the kill server: run a job, kill it at a step, run it again."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

SERVER = Path(__file__).with_name("kill_server.py")


class KillServer:
    """A process that forks one child per run."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(SERVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()

    def run(self, job: Path, now: int, at: int = -1) -> dict:
        """Run a job in a child; kill it at event number ``at``."""
        order = {"job": str(job), "now": now, "at": at}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def steps(events: list[str]) -> dict[str, int]:
    """Return the numbers of the first and last call and return of each function."""
    chosen: dict[str, int] = {}
    for number, event in enumerate(events):
        chosen.setdefault(f"first {event}", number)
        chosen[f"last {event}"] = number
    return chosen


def restore(backup: Path, folder: Path) -> None:
    """Put a folder back to what it was."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(backup, folder, symlinks=True)
