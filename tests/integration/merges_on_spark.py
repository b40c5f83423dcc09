"""Merges by tasks of one local Spark: ``python -m tests.integration.merges_on_spark ...``.

``jobs JOB.conf NOW_MS ...`` runs a job as of each time and prints a report in each line.
``lakes FOLDER`` merges the same random rows twice, by tasks and in this process, and prints what
became of both in each line.
"""

from __future__ import annotations

import json
import os
import random
import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from dil import config
from dil.execution.session import SparkSettings
from dil.execution.spark import SparkExecutor
from dil.execution.stages import Executors, Stages
from dil.model.destination import MergeSpec
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from tests.merging import Lake
from tests.unit.publishing.published import job

CACHE = Path.home() / ".cache" / "dil"


def jobs(path: str, times: list[int]) -> None:
    for now in times:
        options = RunOptions(
            now_ms=now, clock=lambda: times[-1], environ=dict(os.environ), cache=CACHE,
            stage_bytes=0,
        )  # fmt: skip
        report = run_job(config.load(Path(path), environ={}).job, options)
        print(json.dumps(asdict(report), default=str), flush=True)


def lakes(folder: Path) -> None:
    executor = SparkExecutor(SparkSettings("merges", 2, dict(os.environ), CACHE))
    with closing(executor):
        stages = Stages(Executors(job(folder), {}, None, executor), bytes=0)
        for seed in range(3):
            by_tasks = _lake(folder / f"{seed}-tasks", seed, stage=stages)
            here = _lake(folder / f"{seed}-here", seed)
            print(json.dumps([_content(by_tasks), _content(here)], default=str), flush=True)


def _lake(folder: Path, seed: int, **how: object) -> Lake:
    spec = MergeSpec(
        ("id",), ("at",), "op", ("d",), is_soft=seed == 1, deletes_missing=seed == 2,
        max_deleted_percent=100,
    )  # fmt: skip
    lake = Lake(folder, spec, bucket_rows=10, target_bytes=1, row_group_rows=8, **how)
    chance = random.Random(seed)
    for number in range(2):
        units = [lake.stage_unit(at, *(_rows(chance) for _ in range(3))) for at in range(2)]
        lake.run(*units, now=number * 1000, has_all_rows=True)
    return lake


def _rows(chance: random.Random) -> pa.Table:
    numbers = range(12)
    return pa.table(
        {
            "id": [str(chance.randrange(36)) for _ in numbers],
            "at": [chance.randrange(4) for _ in numbers],
            "op": [chance.choice("iud") for _ in numbers],
            "value": [chance.random() for _ in numbers],
        }
    )


def _content(lake: Lake) -> list[object]:
    """Return the rows of each file; names and order are the same, whoever wrote them."""
    return [[file.uri.rpartition("/")[2], lake.rows_of(file)] for file in lake.live]


if __name__ == "__main__":
    if sys.argv[1] == "jobs":
        jobs(sys.argv[2], [int(each) for each in sys.argv[3:]])
    else:
        lakes(Path(sys.argv[2]))
