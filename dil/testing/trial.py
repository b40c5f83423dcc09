"""Runs one job in its own folder, in this process without Spark, and reads its dataset."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq

from dil import config
from dil.coordination import local_coordinator
from dil.errors import DilError
from dil.extraction.parameters import ParameterScope
from dil.model.job import Job
from dil.model.report import RunReport
from dil.run import plan_builder
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.spi.connector import SessionContext
from dil.state import open_store
from dil.task.context import Clocks
from dil.task.reading import UnitReading
from dil.task.secondary_inputs import authentication_reader
from dil.testing.in_process import InProcessExecutor

NOW_MS = 1_735_689_600_000  # 2025-01-01T00:00:00Z
DAY = {"name": "day", "type": "datetime", "range": {"from": "2024-12-31", "to": "P0D"}}
_JOB = {
    "job.name": "trial",
    "extract.namespace": "trial",
    "extract.table.name": "rows",
    "extract.table.type": "APPEND_ONLY",
    "ms.extractor.class": "json",
    "ms.timezone": "UTC",
    "ms.watermark": json.dumps([DAY]),
    "writer.output.format": "PARQUET",
    "writer.file.path.type": "namespace_table",
    "data.publisher.final.dir": "lake",
    "state.store.dir": "state",
    "task.maxretries": "0",
}


class Trial:
    """Runs jobs that have one work unit, the day before ``NOW_MS``; retries begin without a wait.

    ``without`` are properties that the jobs have only if the caller sets them.
    """

    def __init__(self, folder: Path, without: Collection[str] = ()) -> None:
        self._folder = folder
        self._base = {name: text for name, text in _JOB.items() if name not in without}

    def job(self, properties: Mapping[str, str], **changes: str) -> Job:
        """Write a new job file and load it; ``__`` in the name of a change is a dot.

        Raises:
            ConfigError: the job is wrong; the error has all problems.
        """
        more = {name.replace("__", "."): text for name, text in changes.items()}
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / "trial.yaml"  # JSON is YAML, and keeps every character of a value
        text = json.dumps({**self._base, **properties, **more}, ensure_ascii=False, indent=0)
        path.write_text(text, encoding="utf-8")
        return config.load(path, environ={}).job

    def run(self, job: Job) -> RunReport:
        """Run the job once, as of ``NOW_MS``."""
        executor = InProcessExecutor(Clocks(sleep=lambda _seconds: None))
        return run_job(job, RunOptions(now_ms=NOW_MS, clock=lambda: NOW_MS, executor=executor))

    def failure(self, job: Job) -> str:
        """Run a job that has to fail, and return the code of its failure."""
        try:
            report = self.run(job)
        except DilError as error:  # the driver asks for the units, before there is a task
            return error.code
        return " ".join({failure.code for failure in report.failures})

    def ids(self) -> list[int]:
        """Return the column ``id`` of everything that was published, sorted."""
        found = [
            int(value.as_py())
            for path in self.visible()
            for value in pq.read_table(path, columns=["id"])["id"]
        ]
        return sorted(found)

    def visible(self) -> Iterator[Path]:
        """Yield the files that a reader of the dataset sees."""
        lake = self._folder / "lake"
        for path in sorted(lake.rglob("*")):
            parts = path.relative_to(lake).parts
            if path.is_file() and not any(part.startswith(("_", ".")) for part in parts):
                yield path

    def state(self, job: Job) -> list[object]:
        """Return the content of the state store, for comparisons."""
        with open_store(job.state, job.name, clock=lambda: NOW_MS) as store:
            return [store.head(), *store.unit_states(), *store.unfinished_runs()]

    def files(self) -> list[str]:
        """Return the paths of all files and folders in the trial's folder."""
        return sorted(path.relative_to(self._folder).as_posix() for path in self._folder.rglob("*"))


def reading_of(job: Job) -> UnitReading:
    """Return a reading of the job's work unit, as a task reads it."""
    unit = plan_builder.plan_job(job, now_ms=NOW_MS).plan.work_units[0]
    shared, renewed = local_coordinator(job), authentication_reader(job)
    context = SessionContext(job, unit, "trial", NOW_MS, 1, coordinator=shared, renewed=renewed)
    return UnitReading(context, ParameterScope.of(unit, full_extract=False), "")
