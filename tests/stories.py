"""Runs one job again and again, without Spark: real source, staging, publishing, state."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

from dil import config
from dil.execution.executor import Executor
from dil.model.dataset import RunRecord
from dil.model.job import Job
from dil.model.json import JsonObject
from dil.model.report import RunReport
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.spi.state_store import StateStore, UnitState
from dil.state import open_store
from dil.state.blocks.verification import verify_chain
from dil.task.context import Clocks
from dil.testing.in_process import InProcessExecutor
from tests.jobs import dataset, manifest_files, published_ids, visible_files, write_job
from tests.servers.http_server import Fault, HttpServer
from tests.servers.rows import DAY_MS, START_MS

ROWS_PER_DAY = 4
STEP_MS = DAY_MS // ROWS_PER_DAY
REAL_NOW = START_MS + 1000 * DAY_MS


def day(number: int) -> int:
    """Return the midnight (epoch ms UTC) at which a day of the source begins; days count from 0."""
    return START_MS + number * DAY_MS


def ids_of(*units: str, days: range) -> Counter[tuple[str, int]]:
    """Return the rows that the source has for these units and days, each row once."""
    numbers = range(days.start * ROWS_PER_DAY, days.stop * ROWS_PER_DAY)
    return Counter((unit, number) for unit in units for number in numbers)


def work_unit(number: int, unit: str) -> str:
    """Return the signature of the work unit of one day and unit."""
    return f'[watermark.system.{day(number)}, watermark.unit.{{"unit":"{unit}"}}]'


def failing(number: int, unit: str, *, status: int = 404, at: tuple[int, ...] = ()) -> Fault:
    """Return a fault that refuses the requests of one work unit."""
    return Fault(
        "status", at=at, where=(("unit", unit), ("since", str(day(number)))), status=status
    )


class Story:
    """One job in a folder of its own, its source, and a real clock that stands still."""

    def __init__(self, folder: Path, source: HttpServer, **changes: str) -> None:
        self.folder = folder
        self.source = source
        self.changes = changes
        self.clock = REAL_NOW
        self._runs = 0

    def job(self, **changes: str) -> Job:
        """Write the job file anew and load it."""
        path = write_job(self.folder, self.source.url, **{**self.changes, **changes})
        return config.load(path, environ={}).job

    def options(self, now: int, **changes: object) -> RunOptions:
        """Return the options of the next run, ``run-1`` and so on."""
        self._runs += 1
        options = RunOptions(
            now_ms=now,
            clock=lambda: self.clock,
            executor=executor(),
            run_id=f"run-{self._runs}",
        )
        return replace(options, **changes)  # type: ignore[arg-type]

    def run(self, now: int, job: Job | None = None, **changes: object) -> RunReport:
        """Run the job as of ``now``."""
        return run_job(job or self.job(), self.options(now, **changes))

    def store(self) -> StateStore:
        """Open the job's state."""
        job = self.job()
        return open_store(job.state, job.name, clock=lambda: self.clock)

    def states(self) -> dict[str, UnitState]:
        """Return the recorded work units by signature."""
        with self.store() as store:
            return {state.signature: state for state in store.unit_states()}

    def runs(self) -> dict[str, RunRecord]:
        """Return the runs whose staging was not swept."""
        with self.store() as store:
            return {run.run_id: run for run in store.unfinished_runs()}

    def head(self) -> JsonObject | None:
        """Return the newest block, after verifying the whole chain."""
        with self.store() as store:
            assert verify_chain(store).problems == ()
            return store.head()

    def rows(self) -> Counter[tuple[str, int]]:
        """Return the rows in the folder; check that the manifest lists the same files."""
        assert manifest_files(self.folder) == visible_files(self.folder)
        return published_ids(visible_files(self.folder))

    def staged(self) -> list[Path]:
        """Return the files in all staging folders of the job."""
        root = self.folder / "lake" / "_staging"
        return sorted(path for path in root.rglob("*") if path.is_file())

    def manifest(self) -> JsonObject:
        """Return the newest manifest."""
        manifest: JsonObject = json.loads(self._manifest_path().read_text())
        return manifest

    def drop_units(self) -> None:
        """Give the newest manifest the form of a release that kept no work units of rows."""
        manifest = self.manifest()
        for file in manifest["files"]:
            file.pop("units", None)
        self.write_manifest({**manifest, "format": 1})

    def write_manifest(self, manifest: JsonObject) -> None:
        """Replace the newest manifest by another manifest."""
        self._manifest_path().write_text(json.dumps(manifest))

    def _manifest_path(self) -> Path:
        meta = dataset(self.folder) / "_dil"
        hint = json.loads((meta / "current.json").read_text())
        return meta / str(hint["manifest"])


def executor() -> Executor:
    """Return an executor that never sleeps."""
    return InProcessExecutor(Clocks(sleep=lambda seconds: None))


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Return every file in a folder and its subfolders, with its size and inode."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_ino)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def notes_of(report: RunReport) -> tuple[str, ...]:
    """Return the notes of a report, without the note that a story's schema leaves columns out."""
    return tuple(note for note in report.notes if "leaves out: " not in note)
