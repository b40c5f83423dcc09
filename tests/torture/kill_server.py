"""Runs jobs in forked children that kill themselves at a chosen call, for the kill matrix.

Reads one JSON line per run on stdin: {"job", "now", "at"}; ``at`` is the number of the profiled
call or return at which the child gets SIGKILL, -1 for never. Answers with one JSON line:
{"killed", "exit", "events"}; events name every profiled call when ``at`` is -1. The modules are
loaded once, before any fork, so that a run costs a tenth of a second.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import dil
import dil.task
from dil import config
from dil.errors import DilError
from dil.job import RunOptions, run_job
from dil.testing.in_process import InProcessExecutor

PACKAGE = str(Path(dil.__file__).parent)
WATCHED = ("job.py", "state", "publishing", "storage")


def _name(code) -> str | None:
    if not code.co_filename.startswith(PACKAGE):
        return None
    relative = code.co_filename[len(PACKAGE) + 1 :]
    if relative.split("/")[0] not in WATCHED or relative.endswith("keeping.py"):
        return None
    return f"{relative}:{code.co_qualname}"


def _profiler(at: int, events: list[str]):
    def profile(frame, event, argument) -> None:
        if event not in {"call", "return"}:
            return
        name = _name(frame.f_code)
        if name is None:
            return
        if len(events) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        events.append(f"{event} {name}")

    return profile


def _child(order: dict, answer_to: int) -> None:
    events: list[str] = []
    loaded = config.load(Path(order["job"]), overrides={}, environ={}, lenient=False)
    options = RunOptions(
        now_ms=order["now"],
        clock=lambda: time.time_ns() // 1_000_000,
        executor=InProcessExecutor(),
        run_id=order.get("run_id"),
    )
    sys.setprofile(_profiler(order["at"], events))
    try:
        report = run_job(loaded.job, options)
        exit_code = report.exit_code
    except DilError as error:
        sys.setprofile(None)
        print(error, file=sys.stderr)
        exit_code = 1
    finally:
        sys.setprofile(None)
    names = events if order["at"] == -1 else []
    with os.fdopen(answer_to, "w") as stream:
        json.dump({"killed": False, "exit": exit_code, "events": names}, stream)


def main() -> None:
    """Serve until stdin ends."""
    for line in sys.stdin:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _child(json.loads(line), writing)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as stream:
            answer = stream.read()
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(answer or json.dumps({"killed": killed, "exit": None, "events": []}), flush=True)


if __name__ == "__main__":
    main()
