"""Runs a work unit with its page log in forked children that kill themselves at a chosen call.

The server reads one JSON line per run on stdin: {"job", "low", "high", "staging", "run_id",
"earlier", "at"}. ``earlier`` are the staging folders of earlier runs, oldest first. ``at`` is the
number of the profiled call or return at which the child gets SIGKILL, -1 for never. The server
answers with one JSON line: {"killed", "failure", "files", "events"}; ``events`` counts the profiled
calls.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow.parquet  # noqa: F401 - loaded once, before any fork

import connectors.http.session  # noqa: F401
import dil.extraction.json.extractor
import dil.writing.parquet_writer  # noqa: F401
from dil import config
from dil.model.interval import Interval
from dil.model.task import RunContext
from dil.model.work_unit import Reason, WorkUnit
from dil.publishing.page_log import page_logs
from dil.storage import LocalFilesystem
from dil.task.work_unit import run_work_unit
from tests.torture.forks import Answer, killed_at, serve

WATCHED = ("task/", "publishing/", "storage/", "writing/", "extraction/paging/")


def _run(order: Answer) -> Answer:
    job = config.load(Path(order["job"]), overrides={}, environ={}, lenient=False).job
    interval = Interval(order["low"], order["high"])
    unit = WorkUnit(
        signature="s",
        low=interval.low,
        high=interval.high,
        partition=interval,
        unit_name="unit",
        unit_json='{"unit":"a"}',
        reason=Reason.NEW,
    )
    earlier: dict[str, str] = {}
    for folder in order["earlier"]:
        logs = page_logs(LocalFilesystem(), folder)
        earlier.update({signature: log.folder for signature, log in logs.items()})
    run = RunContext(
        job,
        order["run_id"],
        order["high"],
        full_extract=True,
        staging_dir=order["staging"],
        resume_from=earlier,
    )
    with killed_at(order["at"], WATCHED) as events:
        report = run_work_unit(run, unit)
    return {
        "failure": report.failure and report.failure.error,
        "files": [file.path for file in report.files],
        "events": len(events),
    }


if __name__ == "__main__":
    serve(_run, {"failure": None, "files": []})
