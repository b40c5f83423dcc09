"""How long dil takes before and around the work: plan, nothing due, and a one-page job.

    python tests/bench/bench_start.py [rounds]

Prints medians. The one-page job is compared, in the same rounds, with a bare SparkContext plus one
RDD job, once with PySpark's defaults and once with the flags that dil gives its own JVM.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.processes import Usage, measure
from tests.jobs import DIL, write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS, Dataset

DEFAULTS = "bare Spark, PySpark's defaults"
EQUAL = "bare Spark, dil's flags"
NOW = "2020-01-02T00:00:00Z"
BARE = """
from pyspark import SparkConf, SparkContext
context = SparkContext(conf=SparkConf().setMaster("local[1]").setAppName("bare"){more})
assert context.parallelize([1], 1).map(lambda x: x + 1).collect() == [2]
{end}
"""
SAME_FLAGS = """
import os, pathlib
from dil.execution.session import SparkSettings, spark_context
settings = SparkSettings("bare", 1, dict(os.environ), pathlib.Path.home() / ".cache" / "dil")
with spark_context(settings) as context:
    assert context.parallelize([1], 1).map(lambda x: x + 1).collect() == [2]
"""


def main(rounds: int) -> None:
    """Measure and print."""
    walls: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as temporary, _one_page() as server:
        for number in range(rounds + 1):
            job = write_job(
                Path(temporary) / str(number),
                server.url,
                ms__work__unit__partition="none",
                ms__watermark=json.dumps(
                    [
                        {
                            "name": "system",
                            "type": "datetime",
                            "range": {"from": "2020-01-01", "to": "P0D"},
                        },
                        {"name": "unit", "type": "unit", "units": "a"},
                    ]
                ),
            )
            commands = {
                "dil plan": [*DIL, "plan", str(job), "--now", NOW],
                DEFAULTS: [
                    sys.executable, "-c", BARE.format(more="", end="context.stop()")
                ],
                EQUAL: [sys.executable, "-c", SAME_FLAGS],
                "dil run, one page": [*DIL, "run", str(job), "--now", NOW],
                "dil run, nothing due": [*DIL, "run", str(job), "--now", NOW],
            }  # fmt: skip
            for name, command in commands.items():
                usage = _checked(name, measure(command))
                if number:  # the first round warms the page cache and makes the class archive
                    walls.setdefault(name, []).append(usage.wall_s)
    for name, seconds in walls.items():
        spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
        print(f"{name:32} {statistics.median(seconds):6.2f} s  ({spread}, {len(seconds)} rounds)")
    medians = {name: statistics.median(seconds) for name, seconds in walls.items()}
    ours = medians["dil run, one page"]
    print(f"ratio to the defaults: {ours / medians[DEFAULTS]:.2f}")
    print(f"over equal flags: {ours - medians[EQUAL]:.2f} s")


def _one_page() -> HttpServer:
    return HttpServer(Dataset.generate(90, units=("a",), step_ms=DAY_MS // 100))


def _checked(name: str, usage: Usage) -> Usage:
    if usage.exit_code:
        raise SystemExit(f"{name} failed:\n{usage.stdout}\n{usage.stderr}")
    return usage


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
