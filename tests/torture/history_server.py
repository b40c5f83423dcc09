"""Runs jobs and commands in forked children that kill themselves at a chosen call.

The server reads one JSON line per order on stdin: {"job", "now", "at", "changes"} for a run, and
{"arguments", "at"} for a command of ``dil``. ``at`` is the number of the call or return at which
the child gets SIGKILL, -1 for never. The server answers with {"killed", "exit", "calls", "error"}.
If an order has "stops", the child gets SIGSTOP in place of SIGKILL (``serve``), and calls of the
state store do not count: the child would sleep with a lock on the store. "ahead" is how many
seconds the child's clock is ahead, by default 0.
"""

from __future__ import annotations

import contextlib
import io
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import dil.task.work_unit  # noqa: F401 - loaded once, before any fork
from dil import config
from dil.cli.main import main
from dil.errors import DilError
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.testing.in_process import InProcessExecutor
from tests.torture.forks import Answer, killed_at, serve

WATCHED = ("run/", "state/", "publishing/", "operator/", "storage/")


UNLOCKED = ("run/", "publishing/", "operator/", "storage/")


def _do(order: Answer) -> Answer:
    said = io.StringIO()
    if ahead := order.get("ahead"):
        plain = time.time_ns
        time.time_ns = lambda: plain() + ahead * 1_000_000_000
    is_stop = order.get("stops", False)
    with (
        contextlib.redirect_stderr(said),
        contextlib.redirect_stdout(said),
        killed_at(
            order["at"],
            UNLOCKED if is_stop else WATCHED,
            by=signal.SIGSTOP if is_stop else signal.SIGKILL,
        ) as events,
    ):
        exit_code = main(order["arguments"]) if "arguments" in order else _run(order)
    answer = {"exit": exit_code, "calls": len(events), "error": said.getvalue()[-2000:]}
    return {**answer, "events": events} if is_stop and order["at"] == -1 else answer


def _run(order: Answer) -> int:
    options = RunOptions(
        now_ms=order["now"],
        clock=lambda: time.time_ns() // 1_000_000,
        executor=InProcessExecutor(),
    )
    try:
        loaded = config.load(Path(order["job"]), overrides=order.get("changes", {}), environ={})
        report = run_job(loaded.job, options)
    except DilError as error:
        print(f"{error.code}: {error}")
        return 1
    for failure in report.failures:
        print(f"{failure.code}: {failure.error}")
    return report.exit_code


if __name__ == "__main__":
    serve(_do, {"exit": None, "calls": 0, "error": ""})
