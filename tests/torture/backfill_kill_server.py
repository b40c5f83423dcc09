"""Reads, publishes and takes back backfills in forked children that kill themselves.

The server reads one JSON line per act on stdin: {"job", "now", "verb", "id", "at"}. ``verb`` is
``read``, ``publish``, ``undo``, ``drop``, or ``run`` for a run of the job. ``at`` is the number of
the profiled call or return at which the child gets SIGKILL, -1 for never. The server answers with
one JSON line: {"killed", "error", "events"}.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import dil.operator.backfill.comparing
import dil.reshaping.steps
import dil.task.work_unit  # noqa: F401 - loaded once, before any fork
from dil import config
from dil.errors import DilError
from dil.model.job import Job
from dil.operator import amendments
from dil.operator.backfill import publication, publishing, reading
from dil.operator.backfill.definition import find_backfill
from dil.operator.backfill.status import Phase, read_status
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.state import open_store
from dil.testing.in_process import InProcessExecutor
from tests.torture.forks import Answer, killed_at, serve

WATCHED = ("operator/", "run/", "reshaping/", "state/", "publishing/", "storage/")


def _clock() -> int:
    return time.time_ns() // 1_000_000


def _act(order: Answer, job: Job, options: RunOptions) -> None:
    definition = find_backfill(job, order["id"])
    match order["verb"]:
        case "read":
            report = reading.read(job, definition, options)
            if report.exit_code:
                raise DilError(str(report.failures))
        case "drop":
            publishing.drop(job, definition, _clock)
        case "publish" | "undo" as verb:
            with (
                open_store(job.state, job.name, clock=_clock) as store,
                publishing.open_session(
                    job,
                    store,
                    definition,
                    now_ms=options.now_ms,
                    clock=_clock,
                    is_dry_run=False,
                    verb="undo" if verb == "undo" else "",
                ) as session,
            ):
                phase = read_status(job, definition, _clock).phase
                if verb == "undo" and phase is not Phase.UNDONE:
                    amendments.apply(session, amendments.propose_undo(session))
                if verb == "publish" and phase is not Phase.PUBLISHED:
                    publishing.publish(
                        session, publication.propose_publication(session, definition), options
                    )


def _run(order: Answer) -> Answer:
    job = config.load(Path(order["job"]), overrides={}, environ={}, lenient=False).job
    options = RunOptions(now_ms=order["now"], clock=_clock, executor=InProcessExecutor())
    error = ""
    with killed_at(order["at"], WATCHED) as events:
        try:
            if order["verb"] == "run":
                run_job(job, options)
            else:
                _act(order, job, options)
        except DilError as failure:
            error = str(failure)
    return {"error": error, "events": events if order["at"] == -1 else []}


if __name__ == "__main__":
    serve(_run, {"error": None, "events": []})
