"""What the lateness meter adds to a work unit, as a share of the CPU time of its run.

    python tests/bench/bench_lateness.py [rows]

One work unit of JSON lines, as a REST source gives them, and of Parquet; in this process, without
Spark. It is read once and then again, with and without a key; the smallest of several CPU times.
The goal is 5 % of a unit of a REST source, whose requests are not even in it.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dil import config
from dil.model.job import Job
from dil.model.report import RunStatus
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.task.new_rows import NewRows
from dil.testing.in_process import InProcessExecutor

START, DAY = 1_704_067_200_000, 86_400_000
TIMES = 5
TYPES = {"id": "long", "at": "long", "customer": "string", "amount": "double", "note": "string"}


def put_rows(folder: Path, rows: int) -> None:
    """Write the rows of two days, once as JSON lines and once as Parquet."""
    for day in range(2):
        chance = random.Random(17)
        table = [
            {
                "id": number,
                "at": START + day * DAY + chance.randrange(DAY),
                "customer": f"customer-{chance.randrange(10_000):06}",
                "amount": chance.randrange(10**6) / 100,
                "note": "x" * chance.randrange(120),
            }
            for number in range(rows)
        ]
        for kind in ("json", "parquet"):
            (folder / kind / f"{day + 1}").mkdir(parents=True)
        text = "".join(json.dumps(row) + "\n" for row in table)
        (folder / "json" / f"{day + 1}" / "rows.jsonl").write_text(text)
        pq.write_table(
            pa.Table.from_pylist(table), folder / "parquet" / f"{day + 1}" / "rows.parquet"
        )


def job_of(folder: Path, kind: str, **changes: str):
    """Return the job that reads one day whole, and again in each run."""
    schema = [
        {"columnName": name, "isNullable": True, "dataType": {"type": word}}
        for name, word in TYPES.items()
    ]
    dates = [{"name": "d", "type": "datetime", "range": {"from": "2024-01-01", "to": "P0D"}}]
    day = [
        {"name": "day", "type": "watermark", "value": "low", "format": "datetime", "pattern": "d"}
    ]
    given = {
        "job.name": "meter",
        "source.class": "hdfs",
        "ms.source.uri": f"{folder / kind}/{{{{day}}}}",
        "ms.parameters": json.dumps(day),
        "ms.extractor.class": kind,
        "ms.output.schema": json.dumps(schema),
        "ms.watermark": json.dumps(dates),
        "ms.event.column": "at",
        "ms.work.unit.partition": "daily",
        "ms.publish.mode": "window_replace",
        "extract.namespace": "lake",
        "extract.table.name": "meter",
        "extract.table.type": "APPEND_ONLY",
        "ms.timezone": "UTC",
        "writer.output.format": "PARQUET",
        "writer.file.path.type": "namespace_table",
        "data.publisher.final.dir": str(folder / "lake"),
        "state.store.dir": str(folder / "state"),
        **{name.replace("__", "."): value for name, value in changes.items()},
    }
    path = folder / "meter.conf"
    path.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    return config.load(path, environ={}).job


class Metered:
    """Adds up the CPU time that the meter takes in a task."""

    def __init__(self) -> None:
        self.seconds = 0.0
        for name in ("take", "finish"):
            setattr(NewRows, name, self.timed(getattr(NewRows, name)))

    def timed(self, method: Callable[..., None]) -> Callable[..., None]:
        def call(*given: object) -> None:
            began = time.process_time()
            method(*given)
            self.seconds += time.process_time() - began

        return call


def cpu_seconds(folder: Path, kind: str, metered: Metered, **changes: str) -> list[str]:
    """Return the CPU time of a first and of a later reading, and the share of the meter in it."""
    found: dict[str, list[tuple[float, float]]] = {"first": [], "again": []}
    for _ in range(TIMES):
        for name in ("lake", "state"):
            shutil.rmtree(folder / name, ignore_errors=True)
        # What is measured is relative to what was there before.
        run(job_of(folder, kind, **changes), START + DAY)
        for name, days in (("first", "0"), ("again", "1"), ("again", "1")):
            job = job_of(folder, kind, ms__grace__period__days=days, **changes)
            metered.seconds = 0.0
            began = time.process_time()
            run(job, START + 2 * DAY)
            spent = time.process_time() - began
            found[name].append((spent, metered.seconds))
    return [
        f"{name} {spent:.2f} s, meter {own * 1000:3.0f} ms, {own / spent:5.1%}"
        for name, each in found.items()
        for spent, own in [min(each)]
    ]


def run(job: Job, now: int) -> None:
    """Run a job in this process."""
    report = run_job(job, RunOptions(now_ms=now, clock=lambda: now, executor=InProcessExecutor()))
    if report.status is not RunStatus.SUCCESS:
        raise SystemExit(f"{report.failures}")


def main(rows: int) -> None:
    """Print one line per case."""
    folder, metered = Path(tempfile.mkdtemp(prefix="dil-bench-")), Metered()
    try:
        put_rows(folder, rows)
        print(f"one work unit of {rows:,} rows: CPU time of its run, and of the meter in it")
        for kind in ("json", "parquet"):
            for name, keys in (
                ("with a key", {"extract__primary__key__fields": "id"}),
                ("without", {}),
            ):
                found = cpu_seconds(folder, kind, metered, **keys)
                print(f"{kind:8} {name:11} {';  '.join(found)}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
