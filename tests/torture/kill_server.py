"""Runs jobs in forked children that kill themselves at a chosen call, for the kill matrix.

The server reads one JSON line per run on stdin: {"job", "now", "at", "flags"}. ``flags`` are
properties as ``-D`` sets them, by default none. ``at`` is the number of the profiled call or return
at which the child gets SIGKILL, -1 for never. The server answers with one JSON line: {"killed",
"exit", "events"}; "events" has every profiled call if ``at`` is -1.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import dil.task.work_unit  # noqa: F401 - loaded once, before any fork
from dil import config
from dil.errors import DilError
from dil.operator.streaming import run_stream
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.testing.in_process import InProcessExecutor
from tests.torture.forks import Answer, killed_at, serve

WATCHED = ("run/", "state/", "publishing/", "reshaping/", "storage/", "streaming/")


def _run(order: Answer) -> Answer:
    loaded = config.load(
        Path(order["job"]), overrides=order.get("flags", {}), environ={}, lenient=False
    )
    options = RunOptions(
        now_ms=order["now"],
        clock=lambda: time.time_ns() // 1_000_000,
        executor=InProcessExecutor(),
        run_id=order.get("run_id"),
    )
    with killed_at(order["at"], WATCHED) as events:
        try:
            run = run_job if loaded.job.stream is None else run_stream
            exit_code = run(loaded.job, options).exit_code
        except DilError as error:
            print(error, file=sys.stderr)
            exit_code = 1
    return {"exit": exit_code, "events": events if order["at"] == -1 else []}


if __name__ == "__main__":
    serve(_run, {"exit": None, "events": []})
