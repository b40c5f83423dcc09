"""One large JSON response, and very many small ones: speed and memory of the worker.

    python tests/bench/bench_json.py [megabytes] [pages]

Each is one work unit, from HTTP to Parquet, in a Python process of its own without Spark: what a
Spark worker runs. Megabytes are 10^6 bytes, 2,000 by default; pages have 10 rows, 100,000 pages by
default. CPU seconds are the worker's, the server has its own process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dil import config
from dil.model.interval import Interval
from dil.model.task import RunContext
from dil.model.work_unit import Reason, WorkUnit
from dil.task.work_unit import run_work_unit
from tests.bench.bench_rest import output_schema
from tests.bench.processes import stop
from tests.jobs import ROOT, write_job
from tests.servers.rows import DAY_MS, START_MS

SERVER = ROOT / "tests" / "servers" / "json_server.py"


@contextmanager
def json_server() -> Iterator[str]:
    """Run the server in a process of its own; yield its address."""
    process = subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        stop(process)
        process.stdout.close()


def measured(folder: Path, uri: str, *, is_inferred: bool = False) -> dict[str, float]:
    """Run one work unit on an address in a process of its own; return what it took."""
    job = write_job(
        folder,
        "http://127.0.0.1",
        ms__source__uri=uri,
        ms__parameters=json.dumps([{"name": "cursor", "type": "session"}]),
        ms__output__schema="" if is_inferred else json.dumps(output_schema()),
    )
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--worker", str(job)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def work(job: Path) -> None:
    """Run the work unit and print its figures: this process is the worker."""
    loaded = config.load(job, environ={}).job
    unit = WorkUnit(
        signature="s",
        low=START_MS,
        high=START_MS + DAY_MS,
        partition=Interval(START_MS, START_MS + DAY_MS),
        unit_name="unit",
        unit_json='{"unit":"a"}',
        reason=Reason.NEW,
    )
    run = RunContext(
        loaded, "r1", START_MS + DAY_MS, full_extract=True, staging_dir=str(job.parent / "staging")
    )
    began, cpu = time.monotonic(), time.process_time()
    report = run_work_unit(run, unit)
    if report.failure is not None:
        raise SystemExit(f"{report.failure.error}\n{report.failure.fix}")
    print(
        json.dumps(
            {
                "rows": report.counters.rows_written,
                "pages": report.counters.pages,
                "megabytes": report.counters.bytes_read / 1e6,
                "seconds": time.monotonic() - began,
                "cpu_s": time.process_time() - cpu,
                "peak_rss_mb": report.counters.peak_rss_bytes / 1e6,
            }
        )
    )


def main(megabytes: int, pages: int) -> None:
    """Measure and print."""
    with json_server() as url, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, uri, is_inferred in (
            ("one response", f"{url}/array/{megabytes}", False),
            ("the same, columns found", f"{url}/array/{megabytes}", True),
            ("a walk", f"{url}/pages/{pages}", False),
        ):
            found = measured(folder / name.replace(" ", "_"), uri, is_inferred=is_inferred)
            print(
                f"{name}: {found['rows']:,} rows, {found['pages']:,} pages,"
                f" {found['megabytes']:,.0f} MB, {found['seconds']:.1f} s,"
                f" {found['cpu_s']:.1f} CPU s,"
                f" {found['megabytes'] / found['cpu_s']:.0f} MB per CPU s,"
                f" {found['cpu_s'] / found['pages'] * 1000:.2f} CPU ms per page,"
                f" peak {found['peak_rss_mb']:.0f} MB"
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(Path(sys.argv[2]))
    else:
        sizes = [int(size) for size in sys.argv[1:]]
        main(*(sizes + [2_000, 100_000][len(sizes) :]))
