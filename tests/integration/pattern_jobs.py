"""The jobs of conf/patterns and the vendor they talk to, as processes or in this process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import fastavro

from dil import config
from dil.model.report import RunReport
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.task.context import Clocks
from dil.testing.in_process import InProcessExecutor
from tests.integration.dil_processes import dil
from tests.jobs import ROOT

PATTERNS = ROOT / "conf" / "patterns"
sys.path.insert(0, str(PATTERNS))

from vendor import (  # noqa: E402 - its folder has to be on the path first
    CONTACTS,
    CONVERSIONS,
    CUSTOMERS,
    SECRET,
    SURVEYS,
    UNKNOWN,
    Acme,
    VendorServer,
)

__all__ = [
    "CONTACTS",
    "CONVERSIONS",
    "CUSTOMERS",
    "ENVIRON",
    "NOW",
    "PATTERNS",
    "SURVEYS",
    "UNKNOWN",
    "Acme",
    "Flow",
    "VendorServer",
    "paths_of",
    "read_rows",
    "running_vendor",
]

ENVIRON = {"ACME_SECRET": SECRET}
NOW = "2024-01-10T12:00:00Z"


@contextmanager
def running_vendor() -> Iterator[VendorServer]:
    """Serve the vendor in a thread of this process, on a free loopback port."""
    server = VendorServer(0)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class HastyClock:
    """A monotonic clock that a wait moves on at once."""

    def __init__(self) -> None:
        self._skipped = 0.0

    def sleep(self, seconds: float) -> None:
        """Be later by so many seconds."""
        self._skipped += seconds

    def monotonic(self) -> float:
        """Return seconds."""
        return time.monotonic() + self._skipped


def epoch_ms(instant: str) -> int:
    """Return the epoch milliseconds of ISO 8601 text."""
    return int(datetime.fromisoformat(instant).timestamp() * 1000)


@dataclass(frozen=True)
class Flow:
    """Runs of jobs whose output, state and master password are in one folder."""

    url: str
    home: Path

    @property
    def lake(self) -> Path:
        """Return the folder of the tables."""
        return self.home / "lake"

    def moved(self) -> dict[str, str]:
        """Return what the job files of conf/patterns leave to the place where they run."""
        key = self.home / "master.key"
        if not key.exists():
            key.write_text("testkey\n", encoding="utf-8")
        return {
            "vendor": self.url,
            "data.publisher.final.dir": str(self.lake),
            "state.store.dir": str(self.home / "state"),
            "encrypt.key.loc": str(key),
        }

    def cli(self, job: str, *arguments: str, now: str = NOW) -> subprocess.CompletedProcess[str]:
        """Run a job of conf/patterns as a user does, in a folder and at a time of its own."""
        settings = [f"-D{name}={value}" for name, value in self.moved().items()]
        words = ("run", f"conf/patterns/{job}", *settings, "--now", now, "--json", *arguments)
        return dil(*words, environ=ENVIRON)

    def run(self, job: str, *arguments: str, now: str = NOW) -> dict[str, object]:
        """Run a job of conf/patterns, which has to succeed; return its report."""
        done = self.cli(job, *arguments, now=now)
        assert done.returncode == 0, done.stderr
        report: dict[str, object] = json.loads(done.stdout)
        return report

    def quick(self, job: str | Path, *, now: str = NOW, **changes: str) -> RunReport:
        """Run a job in this process, without Spark; between requests it does not wait."""
        given = {name.replace("__", "."): value for name, value in changes.items()}
        loaded = config.load(PATTERNS / job, overrides={**self.moved(), **given}, environ=ENVIRON)
        clock = HastyClock()
        options = RunOptions(
            now_ms=epoch_ms(now),
            clock=lambda: epoch_ms(now),
            executor=InProcessExecutor(Clocks(sleep=clock.sleep, monotonic=clock.monotonic)),
            environ=ENVIRON,
            sleep=clock.sleep,
        )
        return run_job(loaded.job, options)

    def rows(self, table: str) -> list[dict[str, object]]:
        """Return the rows of a table that a reader of its folder finds."""
        return read_rows(self.lake / table)


def read_rows(folder: Path) -> list[dict[str, object]]:
    """Return the rows of the Avro files below a folder that a reader of the folder finds."""
    found: list[dict[str, object]] = []
    for path in sorted(folder.glob("**/part*.avro")):
        if "_" not in {part[:1] for part in path.relative_to(folder).parts}:
            with path.open("rb") as file:
                found.extend(row for row in fastavro.reader(file) if isinstance(row, dict))
    return found


def paths_of(acme: Acme, method: str) -> list[str]:
    """Return the paths that were asked for by one method, but those of tokens."""
    return [
        asked.path
        for asked in acme.asked
        if asked.method == method and not asked.path.startswith("/oauth2")
    ]
