"""Runs a work unit in forked children that kill themselves at a chosen call, page log and all.

Reads one JSON line per run on stdin: {"job", "low", "high", "staging", "run_id", "earlier", "at"};
``earlier`` are the staging folders of the runs before, oldest first. ``at`` is the number of the
profiled call or return at which the child gets SIGKILL, -1 for never. Answers with one JSON line:
{"killed", "failure", "files", "events"}; ``events`` counts the profiled calls.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow.parquet  # noqa: F401 - loaded once, before any fork

import connectors.http.session  # noqa: F401
import dil
import dil.extraction.json.extractor
import dil.writing.parquet_writer
from dil import config
from dil.model.interval import Interval
from dil.model.task import RunContext
from dil.model.work_unit import Reason, WorkUnit
from dil.publishing.page_log import page_logs
from dil.storage import LocalFilesystem
from dil.task import run_work_unit

PACKAGE = str(Path(dil.__file__).parent)
WATCHED = ("task.py", "checkpoints.py", "publishing", "storage", "writing", "extraction/paging.py")


def _is_watched(code) -> bool:
    name = code.co_filename
    return name.startswith(PACKAGE) and name[len(PACKAGE) + 1 :].startswith(WATCHED)


def _profiler(at: int, count: list[int]):
    def profile(frame, event, argument) -> None:
        if event not in {"call", "return"} or not _is_watched(frame.f_code):
            return
        if count[0] == at:
            os.kill(os.getpid(), signal.SIGKILL)
        count[0] += 1

    return profile


def _child(order: dict, answer_to: int) -> None:
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
    count = [0]
    sys.setprofile(_profiler(order["at"], count))
    report = run_work_unit(run, unit)
    sys.setprofile(None)
    answer = {
        "killed": False,
        "failure": report.failure and report.failure.error,
        "files": [file.path for file in report.files],
        "events": count[0],
    }
    with os.fdopen(answer_to, "w") as stream:
        json.dump(answer, stream)


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
        print(answer or json.dumps({"killed": killed, "failure": None, "files": []}), flush=True)


if __name__ == "__main__":
    main()
