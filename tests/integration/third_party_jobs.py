"""Small jobs written as a user would, run in this process, and the rows that they published."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from dil import config
from dil.model.report import RunReport, RunStatus
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from tests.stories import executor

NOW_MS = 1_705_320_000_000  # 2024-01-15T12:00:00Z
Facts = Mapping[str, object]


class ThirdPartyJob:
    """One job in a folder of its own; JSON lines are its output."""

    def __init__(self, folder: Path, uri: str, facts: Facts) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        given: Facts = {
            "job.name": "others",
            "extract.table.name": "others",
            "source.class": "http",
            "ms.source.uri": uri,
            "ms.extractor.class": "json",
            "ms.timezone": "UTC",
            "state.store.dir": "state",
            "data.publisher.final.dir": "lake",
            "writer.output.format": "JSON",
            "writer.file.path.type": "tablename",
            "task.maxretries": 0,
            "ms.http.retry.max": 0,
            **facts,
        }
        lines = [
            f"{name}={value if isinstance(value, str) else json.dumps(value)}"
            for name, value in given.items()
        ]
        self.path = folder / "others.conf"
        self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def run(self, now_ms: int = NOW_MS) -> RunReport:
        """Run it once, whatever comes of it."""
        job = config.load(self.path, environ={}).job
        return run_job(job, RunOptions(now_ms=now_ms, clock=lambda: now_ms, executor=executor()))

    def rows(self) -> list[dict[str, object]]:
        """Return the rows that a reader of the folder finds."""
        files = sorted((self.folder / "lake" / "others").glob("part-*.json"))
        return [
            json.loads(line)
            for path in files
            for line in path.read_text(encoding="utf-8").split("\n")
            if line
        ]


def read(folder: Path, uri: str, facts: Facts | None = None) -> list[dict[str, object]]:
    """Run a job that has to succeed; return its rows."""
    job = ThirdPartyJob(folder, uri, facts or {})
    report = job.run()
    assert report.status is RunStatus.SUCCESS, report.failures
    return job.rows()


def refused(folder: Path, uri: str, facts: Facts | None = None) -> str:
    """Run a job whose only work unit has to fail; return the code of the failure and its text."""
    report = ThirdPartyJob(folder, uri, facts or {}).run()
    assert report.status is RunStatus.FAILED
    (failure,) = report.failures
    return f"{failure.code}: {failure.error}"
