"""Runs job files one after the other in one process, on one local Spark: its start is what costs.

``python -m tests.integration.spark_runs NOW_MS JOB.conf ...`` prints a report in each line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dil import config
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from tests.integration.dil_processes import printed_by


def reports_of(paths: Mapping[str, Path], now_ms: int) -> dict[str, dict[str, Any]]:
    """Run the jobs in order, in a process of its own; return their reports by name."""
    jobs = map(str, paths.values())
    reports = printed_by("tests.integration.spark_runs", str(now_ms), *jobs)
    return dict(zip(paths, reports, strict=True))


def main(now_ms: int, paths: list[str]) -> None:
    for path in paths:
        options = RunOptions(
            now_ms=now_ms,
            clock=lambda: now_ms,
            environ=dict(os.environ),
            cache=Path.home() / ".cache" / "dil",
        )
        report = run_job(config.load(Path(path), environ={}).job, options)
        print(json.dumps(asdict(report), default=str), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
