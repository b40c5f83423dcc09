"""Derived datasets beside plain Spark over the same files: an append filter, and windows.

    python tests/bench/bench_derived.py [rows] [rounds]

A root job publishes the rows as Parquet in 8 files. Then all sides run in one process on one Spark
session, in turns, after a round that warms up; each reads all rows and writes Parquet. "append" and
"windowed" are runs of derived jobs that have not run before; "where" and "groupBy" are
`spark.read.parquet(...)` with the same filter, and with the same windows. What both wrote is
compared, row by row. Seconds of each round, and CPU seconds of this process, the JVM and its
workers: those say more on a machine with other work.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import dil.api
from tests.bench.bench_spark_source import cpu_seconds
from tests.derived import AGGS, MINUTE, NOW, TIMED
from tests.integration.spark_sessions import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 8
FILTER = "id % 10 = 0"
PAIRS = {"append": "where", "windowed": "groupBy"}
KEYS = {"append": ["id"], "windowed": ["window_start", "site"]}


def main(rows: int, rounds: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as place, spark_session(Path(place)) as spark:
        measure(spark, Path(place), rows, rounds)


def measure(spark: SparkSession, folder: Path, rows: int, rounds: int) -> None:
    root = publish(spark, folder, rows)
    query = {
        "ms.query.inputs": json.dumps([{"job": root.name, "as": "rows"}]),
        "extract.table.type": "",
    }
    append = job_file(
        folder, "append", query | {"ms.query.sql": f"SELECT * FROM rows WHERE {FILTER}"}
    )
    windows = {
        "ms.query.mode": "windowed",
        "ms.window.column": "at",
        "ms.window.size": "PT1H",
        "ms.window.keys": "site",
        "ms.window.aggs": json.dumps(AGGS),
    }
    windowed = job_file(folder, "windowed", query | windows)
    sides: dict[str, Callable[[], object]] = {
        "append": lambda: derived(spark, folder, append),
        "where": lambda: written(plain(spark, folder).where(FILTER), folder / "where"),
        "windowed": lambda: derived(spark, folder, windowed),
        "groupBy": lambda: written(grouped(plain(spark, folder), rows), folder / "groupBy"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, side in sides.items():
            begun, before = time.monotonic(), cpu_seconds()
            side()
            taken, used = time.monotonic() - begun, cpu_seconds() - before
            if number:
                seconds[name].append(taken)
                spent[name].append(used)
    counts = {name: compared(folder, name) for name in PAIRS}
    print(f"{rows:,} rows, {rounds} rounds, load {os.getloadavg()[0]:.1f}; equal results: {counts}")
    show("s", seconds)
    show("CPU s", spent)


def publish(spark: SparkSession, folder: Path, rows: int) -> Path:
    """Write the source, a row a second, and run the root job over it; return its job file."""
    source = folder / "in"
    source.mkdir()
    for number in range(FILES):
        ids = range(number * rows // FILES, (number + 1) * rows // FILES)
        table = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "at": pa.array((NOW + 1000 * each for each in ids), pa.int64()),
                "site": pa.array(f"site-{each % 16}" for each in ids),
            }
        )
        pq.write_table(table, source / f"{number}.parquet")
    properties = {
        "source.class": "file",
        "ms.source.uri": str(source),
        "ms.source.files.once": "path",
        "ms.extractor.class": "parquet",
        "ms.output.schema": json.dumps(TIMED),
        "ms.event.column": "at",
        "ms.event.watermark": "bounded",
        "ms.event.delay": "PT1M",
        "extract.table.type": "APPEND_ONLY",
    }
    path = job_file(folder, "root", properties)
    report = dil.api.run(path, spark=spark)
    if report.rows != rows:
        raise SystemExit(f"the root published {report.rows} rows: {report.failures}")
    return path


def job_file(folder: Path, name: str, properties: dict[str, str]) -> Path:
    found = {
        "job.name": name,
        "extract.table.name": name,
        "writer.output.format": "PARQUET",
        "writer.file.path.type": "tablename",
        "data.publisher.final.dir": str(folder / "lake"),
        "state.store.dir": str(folder / f"state-{name}"),
        **properties,
    }
    path = folder / f"{name}.conf"
    path.write_text("".join(f"{key}={text}\n" for key, text in found.items() if text))
    return path


def derived(spark: SparkSession, folder: Path, path: Path) -> None:
    """Run a derived job as if it had never run."""
    shutil.rmtree(folder / "lake" / path.stem, ignore_errors=True)
    shutil.rmtree(folder / f"state-{path.stem}", ignore_errors=True)
    report = dil.api.run(path, spark=spark)
    if report.exit_code or not report.rows:
        raise SystemExit(f"{path.stem} failed: {report.failures}")


def plain(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.parquet(f"{folder}/lake/root/part-*")


def grouped(frame: DataFrame, rows: int) -> DataFrame:
    """Return the windows that end by the watermark, which is a minute behind the newest row."""
    from pyspark.sql import functions as f

    window = f.window(f.timestamp_millis("at"), "1 hour")
    aggs = [f.expr(text).alias(name) for name, text in AGGS.items()]
    found = frame.groupBy(window.alias("w"), "site").agg(*aggs)
    until_ms = NOW + 1000 * (rows - 1) - MINUTE
    closed = found.where(f.unix_millis("w.end") <= until_ms)
    start, end = f.col("w.start").alias("window_start"), f.col("w.end").alias("window_end")
    return closed.select(start, end, "site", *AGGS)


def written(frame: DataFrame, folder: Path) -> None:
    frame.write.mode("overwrite").parquet(str(folder))


def compared(folder: Path, name: str) -> int:
    """Return how many rows a derived dataset has, which are those that plain Spark wrote."""
    ours = table_of(folder / "lake" / name, KEYS[name])
    theirs = table_of(folder / PAIRS[name], KEYS[name])
    if not ours.equals(theirs.cast(ours.schema)):
        raise SystemExit(f"{name} and {PAIRS[name]} gave other rows: {len(ours)}, {len(theirs)}")
    return len(ours)


def table_of(folder: Path, keys: list[str]) -> pa.Table:
    files = [str(each) for each in folder.glob("part-*.parquet")]
    return ds.dataset(files).to_table().sort_by([(key, "ascending") for key in keys])


def show(what: str, of: dict[str, list[float]]) -> None:
    for name, each in of.items():
        shown = ", ".join(f"{value:.2f}" for value in each)
        print(f"{name:9} {statistics.median(each):7.2f} {what:5} ({shown})")
    for ours, theirs in PAIRS.items():
        ratio = statistics.median(of[ours]) / statistics.median(of[theirs])
        print(f"{ours} / {theirs}, {what}: {ratio:.2f}")


if __name__ == "__main__":
    arguments = [int(each) for each in sys.argv[1:]]
    main(*(arguments + [2_000_000, 3][len(arguments) :]))
