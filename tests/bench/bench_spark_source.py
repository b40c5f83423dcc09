"""``format("dil")`` counted as a DataFrame, beside a run of the same job, over the same rows.

    python tests/bench/bench_spark_source.py [rows] [rounds]

A server serves the rows by pages of 2,000, in 4 daily work units, to 2 tasks at a time. All sides
run in one process on one Spark session, in turns, after a round that warms up: `dil.api.run` reads
and publishes Parquet, and keeps state; "conf" reads the source and counts; "dataset" counts what
was published, and "parquet" is Spark's own reader over the same files. Seconds of each round, and
CPU seconds of this process, the JVM and its workers: those say more on a machine with other work.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import dil.api
from tests.bench.bench_rest import PAGE, SERVER, output_schema
from tests.integration.spark_sessions import spark_session
from tests.jobs import dataset, write_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = 4
NOW = datetime(2020, 1, 1 + DAYS, tzinfo=UTC)
# The JVM of tests ends soon, so it compiles without optimising. That of a user's session optimises.
WHOLE_COMPILER = {"spark.driver.extraJavaOptions": ""}


def main(rows: int, rounds: int) -> None:
    step_ms = DAYS * 86_400_000 // rows
    command = [sys.executable, str(SERVER), "--rows", str(rows), "--units", "a"]
    command += ["--step-ms", str(step_ms)]
    with (
        tempfile.TemporaryDirectory() as place,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            with spark_session(Path(place), settings=WHOLE_COMPILER) as spark:
                measure(spark, Path(place), url, rows, rounds)
        finally:
            server.terminate()


def measure(spark: SparkSession, folder: Path, url: str, rows: int, rounds: int) -> None:
    path = job_file(folder, url)

    def run() -> int:
        for each in ("lake", "state"):
            shutil.rmtree(folder / each, ignore_errors=True)
        return dil.api.run(path, now=NOW, spark=spark).rows

    def source() -> int:
        reader = spark.read.format("dil").option("conf", str(path))
        return int(reader.option("now", NOW.isoformat()).load().count())

    def published() -> int:
        return int(spark.read.format("dil").option("dataset", str(path)).load().count())

    def parquet() -> int:
        return int(spark.read.parquet(f"{dataset(folder)}/part-*").count())

    sides: dict[str, Callable[[], int]] = {
        "run": run, "conf": source, "dataset": published, "parquet": parquet,
    }  # fmt: skip
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, side in sides.items():
            begun, before = time.monotonic(), cpu_seconds()
            found = side()
            taken, used = time.monotonic() - begun, cpu_seconds() - before
            assert found == rows, (name, found)
            if number:
                seconds[name].append(taken)
                spent[name].append(used)
    print(f"{rows} rows, {rounds} rounds, load {os.getloadavg()[0]:.1f}")
    show("s", seconds)
    show("CPU s", spent)


def show(what: str, of: dict[str, list[float]]) -> None:
    for name, each in of.items():
        shown = ", ".join(f"{value:.2f}" for value in each)
        print(f"{name:8} {statistics.median(each):7.2f} {what:5} ({shown})")
    ratio = statistics.median(of["conf"]) / statistics.median(of["run"])
    print(f"conf / run, {what}: {ratio:.2f}")


def cpu_seconds() -> float:
    """Return what this process and all below it have used, those that have ended among them."""
    parents, used = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(place.name)] = int(fields[1])
        used[int(place.name)] = sum(map(int, fields[11:15]))
    known = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in known} - known:
        known |= more
    return sum(used[pid] for pid in known) / os.sysconf("SC_CLK_TCK")


def job_file(folder: Path, url: str) -> Path:
    watermark = [
        {"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "P0D"}},
        {"name": "unit", "type": "unit", "units": "a"},
    ]
    parameters = [
        {"name": "unit"},
        {"name": "since", "type": "watermark", "value": "low"},
        {"name": "until", "type": "watermark", "value": "high"},
        {"name": "cursor", "type": "session"},
        {"name": "limit", "type": "primitive", "value": PAGE},
    ]
    return write_job(
        folder,
        url,
        ms__watermark=json.dumps(watermark),
        ms__parameters=json.dumps(parameters),
        ms__output__schema=json.dumps(output_schema()),
    )


if __name__ == "__main__":
    arguments = [int(each) for each in sys.argv[1:]]
    main(*(arguments + [2_000_000, 3][len(arguments) :]))
