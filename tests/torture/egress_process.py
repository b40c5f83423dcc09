"""Runs one job in this process, tasks and all, so that a test can kill it: JOB RUN_ID [KEY=VALUE].

Prints one JSON line: {"status", "codes", "errors", "notes", "files"}.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dil import config
from dil.job import RunOptions, run_job
from dil.task import Surroundings
from dil.testing.in_process import InProcessExecutor


def main(path: str, run_id: str, *settings: str) -> None:
    """Run the job now."""
    overrides = dict(each.split("=", 1) for each in settings)
    job = config.load(path, overrides=overrides, environ={}).job
    now = time.time_ns() // 1_000_000
    around = Surroundings(sleep=lambda seconds: None)
    options = RunOptions(
        now_ms=now,
        clock=lambda: time.time_ns() // 1_000_000,
        executor=InProcessExecutor(around),
        run_id=run_id,
        wait_lease_s=10,
    )
    report = run_job(job, options)
    answer = {
        "status": report.status.value,
        "codes": [one.code for one in report.failures],
        "errors": [one.error for one in report.failures],
        "notes": report.notes,
        "files": report.files,
    }
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
