"""Runs a command and counts the CPU seconds of all its processes, also those that outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE_S = 0.02


@dataclass(frozen=True)
class Usage:
    """What a command took; ``cpu_s`` sums user and system time over its process tree.

    ``root_peak_kb`` is the peak of the resident memory of the command's own process.
    """

    wall_s: float
    cpu_s: float
    exit_code: int
    stdout: str
    stderr: str
    root_peak_kb: int = 0


def measure(command: Sequence[str], environ: Mapping[str, str] | None = None) -> Usage:
    """Run a command to its end; Linux only, because it reads /proc."""
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environ or {})},
        start_new_session=True,
    )
    sampler = _Sampler(process.pid)
    sampler.start()
    stdout, stderr = process.communicate()
    wall_s = time.monotonic() - started
    cpu_s = sampler.stop()
    return Usage(wall_s, cpu_s, process.returncode, stdout, stderr, sampler.root_peak_kb)


class _Sampler(threading.Thread):
    """Watches the processes of a tree; the last sight of each one counts."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root_peak_kb = 0
        self._root = root
        self._known = {root}
        self._ticks: dict[int, int] = {}
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(_SAMPLE_S):
            self._look()

    def stop(self) -> float:
        self._look()
        self._over.set()
        self.join()
        return sum(self._ticks.values()) / _TICKS

    def _look(self) -> None:
        with suppress(OSError, IndexError):
            status = Path(f"/proc/{self._root}/status").read_text()
            self.root_peak_kb = int(status.partition("VmHWM:")[2].split()[0])
        parents = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            fields = text.rpartition(")")[2].split()
            pid = int(entry.name)
            parents[pid] = (int(fields[1]), int(fields[11]) + int(fields[12]))
        grown = True
        while grown:
            found = {pid for pid, (parent, _) in parents.items() if parent in self._known}
            grown = not found <= self._known
            self._known |= found
        for pid in self._known & parents.keys():
            self._ticks[pid] = parents[pid][1]


def stop(process: subprocess.Popen[str]) -> None:
    """Stop a server by its pid."""
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=10)
