"""A job with an event column that reads each file of a folder once, for tests of late rows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from dil import config
from dil.model.event_tally import EVENT_TIME
from dil.model.report import RunReport
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.state import open_store
from tests.integration.local_jobs import NOW
from tests.jobs import visible_files
from tests.stories import executor

MINUTE = 60_000
# The short form kills at some steps, the long form (make torture) at all.
KILLS = int(os.environ.get("DIL_KILLS", "14"))
EVENTS = {
    "ms.event.column": "at",
    "ms.event.watermark": "bounded",
    "ms.event.delay": "PT1M",
    "ms.late.action": "flag",
}
SCHEMA = json.dumps(
    [
        {"columnName": "id", "isNullable": False, "dataType": {"type": "long"}},
        {"columnName": "at", "isNullable": True, "dataType": {"type": "long"}},
        {"columnName": "site", "isNullable": True, "dataType": {"type": "string"}},
    ]
)


class Feed:
    """A folder of which each file is read once, and the job that reads it."""

    def __init__(self, folder: Path, **changes: str) -> None:
        self.folder = folder
        (folder / "in").mkdir(parents=True)
        self.properties = {
            "job.name": "feed",
            "source.class": "hdfs",
            "ms.source.uri": str(folder / "in"),
            "ms.source.files.once": "version",
            "ms.extractor.class": "json",
            "ms.output.schema": SCHEMA,
            "extract.namespace": "lake",
            "extract.table.name": "feed",
            "extract.table.type": "APPEND_ONLY",
            "ms.timezone": "UTC",
            "writer.output.format": "PARQUET",
            "writer.file.path.type": "namespace_table",
            "data.publisher.final.dir": str(folder / "lake"),
            "state.store.dir": str(folder / "state"),
            "task.maxretries": "0",
            **EVENTS,
            **changes,
        }
        self.runs = self.files = 0

    def put(self, *times: int | None, site: str = "a", start: int = 0) -> None:
        """Put a file of rows, of event times in minutes around now."""
        self.files += 1
        lines = [
            json.dumps(
                {
                    "id": self.files * 100 + n,
                    "at": None if at is None else NOW + at * MINUTE,
                    "site": site,
                }
            )
            for n, at in enumerate(times, start)
        ]
        (self.folder / "in" / f"{self.files:03}.jsonl").write_text("\n".join(lines) + "\n")

    def job(self, **changes: str):
        path = self.folder / "feed.conf"
        given = {**self.properties, **changes}
        path.write_text("".join(f"{name}={value}\n" for name, value in given.items() if value))
        return config.load(path, environ={}).job

    def run(self, *, at: int = 0, **changes: str) -> RunReport:
        """Run the job, in minutes after now."""
        self.runs += 1
        now = NOW + at * MINUTE
        options = RunOptions(
            now_ms=now, clock=lambda: now, executor=executor(), run_id=f"run-{self.runs}"
        )
        return run_job(self.job(**changes), options)

    def checkpoint(self) -> dict[str, object]:
        job = self.job()
        with open_store(job.state, job.name, clock=lambda: NOW) as store:
            return dict(store.checkpoint(EVENT_TIME))

    def head(self) -> dict[str, object]:
        job = self.job()
        with open_store(job.state, job.name, clock=lambda: NOW) as store:
            return dict(store.head() or {})

    def rows(self) -> list[dict[str, object]]:
        tables = [
            pq.read_table(path) for path in visible_files(self.folder) if path.parent.name != "in"
        ]
        found = [row for table in tables for row in table.to_pylist()]
        return sorted(found, key=lambda row: row["id"])

    def late(self) -> dict[int, bool | None]:
        return {row["id"]: row.get("_late") for row in self.rows()}


def minutes(ms: object) -> float | None:
    return None if ms is None else (int(str(ms)) - NOW) / MINUTE


def beside(feed: Feed, namespace: str = "lake") -> list[dict[str, object]]:
    """Return the rows of the side table, without the id of the run that read them."""
    folder = feed.folder / "lake" / namespace / "feed_late"
    found = [row for path in sorted(folder.glob("*")) for row in pq.read_table(path).to_pylist()]
    assert all(row.pop("_batch") for row in found)
    return sorted(found, key=lambda row: row["id"])


def kept_watermark(feed: Feed) -> dict[str, object]:
    return {name: feed.checkpoint()[name] for name in ("state", "watermark", "counts")}


class Crash(BaseException):
    """The driver is gone."""


def crash_at_second_call(step: Callable[..., object], when: str) -> Callable[..., object]:
    """Return a step whose second call crashes, before or after it is carried out."""
    calls = 0

    def crashing(*given, **more):
        nonlocal calls
        calls += 1
        if calls == 2 and when == "before":
            raise Crash
        result = step(*given, **more)
        if calls == 2:
            raise Crash
        return result

    return crashing
