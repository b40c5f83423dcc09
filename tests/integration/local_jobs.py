"""Small jobs run in this process, one run after the other, and what they published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dil import config
from dil.model.job import Job
from dil.model.report import RunReport
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from tests.jobs import visible_files
from tests.stories import executor

NOW = 1_735_689_600_000  # 2025-01-01T00:00:00Z


class LocalJob:
    """One job in a folder of its own; dots in names of properties are double underscores."""

    name = "rows"
    now_ms = NOW

    def __init__(self, folder: Path, **properties: str) -> None:
        self.folder = folder
        self.properties = {
            "job.name": self.name,
            "ms.extractor.class": "json",
            "extract.namespace": "lake",
            "extract.table.name": self.name,
            "extract.table.type": "SNAPSHOT_ONLY",
            "ms.timezone": "UTC",
            "ms.watermark": json.dumps(
                [{"name": "s", "type": "datetime", "range": {"from": "2024-12-31", "to": "P0D"}}]
            ),
            "writer.output.format": "PARQUET",
            "writer.file.path.type": "namespace_table",
            "data.publisher.final.dir": str(folder / "lake"),
            "state.store.dir": str(folder / "state"),
            "task.maxretries": "0",
            **_dotted(properties),
        }
        self._runs = 0

    def job(self, **changes: str) -> Job:
        """Write the job file anew and load it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self.name}.conf"
        given = {**self.properties, **_dotted(changes)}
        path.write_text("\n".join(f"{name}={value}" for name, value in given.items()) + "\n")
        return config.load(path, environ={}).job

    def run(self, job: Job | None = None, **changes: str) -> RunReport:
        """Run the job once; nothing sleeps."""
        self._runs += 1
        options = RunOptions(
            now_ms=self.now_ms,
            clock=lambda: self.now_ms,
            executor=executor(),
            run_id=f"run-{self._runs}",
        )
        return run_job(job or self.job(**changes), options)

    def rows(self) -> list[dict[str, Any]]:
        """Return all published rows, file by file."""
        return [
            row for path in visible_files(self.folder) for row in pq.read_table(path).to_pylist()
        ]


class FileJob(LocalJob):
    """A job over files on a server or a disk."""

    name = "files"


def error_of(report: RunReport) -> str:
    """Return the one failure of a run, as people see it."""
    (failure,) = report.failures
    return f"{failure.code}: {failure.error}"


def _dotted(properties: dict[str, str]) -> dict[str, str]:
    return {name.replace("__", "."): value for name, value in properties.items()}
