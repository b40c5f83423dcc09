"""Runs the work units of one task in forked children that kill themselves at a chosen call.

The server reads one JSON line per run on stdin: {"job", "days", "lanes", "staging", "is_repeated",
"at"}. There is a work unit for each day from 2020-01-01. ``at`` is the number of the profiled call
or return, in any thread, at which the child gets SIGKILL, -1 for never. The server answers with a
line: {"killed", "failures", "files", "events"}; ``events`` counts the profiled calls.
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
from dil.task import result_log
from dil.task.group import run_group
from tests.servers.rows import DAY_MS, START_MS
from tests.torture.forks import Answer, killed_at, serve

# So few results per write that a task of some work units writes its log several times.
result_log.MOST_UNITS = 2
WATCHED = ("task/", "publishing/", "storage/", "writing/")


def _run(order: Answer) -> Answer:
    job = config.load(Path(order["job"]), overrides={}, environ={}, lenient=False).job
    days = [
        Interval(START_MS + day * DAY_MS, START_MS + (day + 1) * DAY_MS)
        for day in range(order["days"])
    ]
    units = [
        WorkUnit(
            signature=f"day {number}",
            low=day.low,
            high=day.high,
            partition=day,
            unit_name="unit",
            unit_json='{"unit":"a"}',
            reason=Reason.NEW,
        )
        for number, day in enumerate(days)
    ]
    run = RunContext(job, "r1", days[-1].high, full_extract=True, staging_dir=order["staging"])
    with killed_at(order["at"], WATCHED, in_threads=True) as events:
        reports = run_group(run, units, order["lanes"], is_repeated=order["is_repeated"])
    return {
        "failures": [report.failure.error for report in reports if report.failure],
        "files": {report.signature: [file.path for file in report.files] for report in reports},
        "events": len(events),
    }


if __name__ == "__main__":
    serve(_run, {"failures": None, "files": {}})
