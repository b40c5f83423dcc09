"""Runs one job and its tasks in this process, so that a test can kill it: JOB RUN_ID.

The program prints one JSON line: {"status", "codes", "errors", "notes", "files"}.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dil import config
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.task.context import Clocks
from dil.testing.in_process import InProcessExecutor


def run(path: str, run_id: str) -> dict[str, Any]:
    """Run the job now and return the facts about the run."""
    job = config.load(path, environ={}).job
    now = time.time_ns() // 1_000_000
    clocks = Clocks(sleep=lambda seconds: None)
    options = RunOptions(
        now_ms=now,
        clock=lambda: time.time_ns() // 1_000_000,
        executor=InProcessExecutor(clocks),
        run_id=run_id,
        wait_lease_s=10,
    )
    report = run_job(job, options)
    return {
        "status": report.status.value,
        "codes": [one.code for one in report.failures],
        "errors": [one.error for one in report.failures],
        "notes": report.notes,
        "files": report.files,
    }


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:])), flush=True)
