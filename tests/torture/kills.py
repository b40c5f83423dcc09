"""Drives the kill servers: they run a job, kill it at a step, and run it again."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

JOB_SERVER = Path(__file__).with_name("kill_server.py")
PAGE_SERVER = Path(__file__).with_name("page_kill_server.py")
GROUP_SERVER = Path(__file__).with_name("group_kill_server.py")


class KillServer:
    """A process of ``JOB_SERVER`` or ``PAGE_SERVER``, which forks one child per run."""

    def __init__(self, program: Path = JOB_SERVER) -> None:
        self._program = program

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(self._program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()

    def run(self, job: Path, now: int, at: int = -1, flags: Mapping[str, str] = {}) -> dict:
        """Run a job in a child of ``JOB_SERVER``; kill it at event number ``at``."""
        return self.order(job=str(job), now=now, at=at, flags=dict(flags))

    def order(self, **order: object) -> dict:
        """Let a child carry out an order; return the answer."""
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def steps(events: list[str]) -> dict[str, int]:
    """Return for each function the event numbers of its first and last call and return."""
    chosen: dict[str, int] = {}
    for number, event in enumerate(events):
        chosen.setdefault(f"first {event}", number)
        chosen[f"last {event}"] = number
    return chosen


def spread(numbers: Sequence[int], count: int) -> Sequence[int]:
    """Return at least ``count`` of the numbers, evenly spread; all if there are fewer."""
    return numbers[:: max(1, len(numbers) // count)]


def restore(backup: Path, folder: Path) -> None:
    """Replace a folder by its backup."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(backup, folder, symlinks=True)
