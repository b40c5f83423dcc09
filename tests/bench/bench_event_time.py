"""How many event times a watermark follows per second, its memory, and its share of a work unit.

    python tests/bench/bench_event_time.py [batches] [rows of a work unit]

1. The adaptive strategy on Arrow arrays of 50,000 rows, a tenth of them late by 200 ms in the mean:
   millions of rows per second of CPU time, with the goal, the best of three rounds.
2. The state of 1,000 partitions, by what share of their rows is late.
3. A work unit of HTTP and one of PostgreSQL, whole runs in this process without Spark, with an
   event column, and partitions (4 in HTTP, 64 in PostgreSQL): CPU time inside what event time does,
   beside that of the rest.
4. What a process imports for event time, beside what each worker imports.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow as pa

from dil import config
from dil.api import event_watermark
from dil.run import event_time
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.run.process import real_clock
from dil.task.event_time import EventRows
from dil.testing.in_process import InProcessExecutor
from tests.bench.bench_rest import output_schema
from tests.bench.processes import stop
from tests.jobs import write_job
from tests.servers.postgresql import PASSWORD, PostgresqlServer
from tests.servers.rows import START_MS

ROWS = 50_000
FIRST_MS = 1_700_000_000_000
NOW = datetime(2030, 1, 1, tzinfo=UTC)
# Order, partitions, goal in millions of rows per second.
CASES = (("batch", 1, 10), ("batch", 64, 5), ("arrival", 1, 10), ("arrival", 64, 5))
PARTITIONS, WINDOW = 1000, 5000
# Share of late rows, mean lateness in ms, unit of times in ms.
STATES = ((0.05, 3000, 1), (0.1, 3000, 1), (0.15, 3000, 1), (1, 3000, 1000), (1, 200, 1),
          (1, 3000, 1))  # fmt: skip
SERVER = Path(__file__).resolve().parents[1] / "servers" / "http_server.py"
TABLE = """
CREATE TABLE orders AS SELECT n AS id, 'customer-' || (n * 7919 % 1000003) AS customer,
  (n % 64)::int AS device, random() AS price, (n % 10000000)::numeric(12, 2) / 100 AS amount,
  n % 3 = 0 AS active, timestamptz '2020-01-01' + n * interval '1 second' AS ordered,
  date '2020-01-01' + (n % 1000)::int AS day FROM generate_series(1::bigint, {rows}) AS n
"""
F = TypeVar("F", bound=Callable[..., object])


def batches(count: int, partitions: int) -> list[tuple[pa.Int64Array, pa.StringArray]]:
    """Return batches of times, one row a millisecond, and the partitions of their rows."""
    chance = random.Random(17)
    found = []
    for number in range(count):
        start = FIRST_MS + number * ROWS
        late = (
            int(chance.expovariate(1 / 200)) if chance.random() < 0.1 else 0 for _ in range(ROWS)
        )
        times = [start + row - min(ms, 2000) for row, ms in enumerate(late)]
        names = [f"device-{chance.randrange(partitions)}" for _ in range(ROWS)]
        found.append((pa.array(times), pa.array(names)))
    return found


def measure_rates(count: int) -> None:
    """Print how many rows a second the strategy takes in."""
    for order, partitions, goal in CASES:
        asked = {"ms.event.watermark": "adaptive", "ms.event.order": order}
        if partitions > 1:
            asked["ms.event.partition.column"] = "device"
        rows = batches(count, partitions)
        spent = []
        for _ in range(3):
            watermark = event_watermark(asked)
            began = time.process_time()
            for times, names in rows:
                given = names if partitions > 1 else None
                watermark.commit(times, given, now=NOW + timedelta(days=1))
            spent.append(time.process_time() - began)
        rate = count * ROWS / min(spent) / 1e6
        print(f"order={order:8}{partitions:3} partitions: {rate:6.1f} M rows/s (goal {goal})")


def measure_states() -> None:
    """Print how large the state of many partitions is."""
    chance = random.Random(17)
    names = pa.array([f"device-{n:04}" for n in range(PARTITIONS) for _ in range(WINDOW)])
    for share, mean, unit in STATES:
        delays = [
            int(chance.expovariate(unit / mean)) * unit if chance.random() < share else 0
            for _ in range(PARTITIONS * WINDOW)
        ]
        watermark = event_watermark(
            {"ms.event.watermark": "adaptive", "ms.event.partition.column": "device"}
        )
        watermark.commit(pa.array([FIRST_MS] * PARTITIONS), names[::WINDOW], now=NOW)
        watermark.commit(pa.array([FIRST_MS - each for each in delays]), names, now=NOW)
        began = time.process_time()
        size = len(watermark.state()) / 1e6
        spent = time.process_time() - began
        what = "whole seconds" if unit > 1 else "milliseconds"
        print(
            f"{share:4.0%} of rows late by {mean:5,} ms in the mean, in {what:14}"
            f"{size:6.2f} MB (goal 2), {spent:.2f} CPU s to write"
        )


class Share:
    """CPU seconds inside functions, those that they call among them."""

    def __init__(self) -> None:
        self.spent_s = 0.0
        self._depth = 0

    def of(self, function: F) -> Callable[..., object]:
        """Return the function, with its time counted."""

        def timed(*given: object, **named: object) -> object:
            self._depth += 1
            began = time.thread_time()
            try:
                return function(*given, **named)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.spent_s += time.thread_time() - began

        return timed


@contextmanager
def counted() -> Iterator[Share]:
    """Count the time of all that a run does for event time."""
    share = Share()
    with (
        patch.object(EventRows, "_judge", share.of(EventRows._judge)),
        patch.object(EventRows, "tally", share.of(EventRows.tally)),
        patch.object(event_time, "kept", share.of(event_time.kept)),
        patch.object(event_time, "advance_watermark", share.of(event_time.advance_watermark)),
    ):
        yield share


def run(job: Path, rows: int) -> float:
    """Run a job in this process; return its CPU seconds."""
    began = time.process_time()
    now_ms = int(NOW.timestamp() * 1000)
    loaded = config.load(job, environ={}).job
    options = RunOptions(now_ms=now_ms, clock=real_clock, executor=InProcessExecutor())
    report = run_job(loaded, options)
    if report.rows != rows:
        raise SystemExit(f"{report.rows:,} rows: {report.failures[:2]}")
    return time.process_time() - began


def measure_shares(rows: int) -> None:
    """Print the share that event time has in a work unit of HTTP, and of PostgreSQL."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        arguments = ["--rows", str(rows), "--units", "a", "--step-ms", "1000"]
        server = subprocess.Popen(
            [sys.executable, str(SERVER), *arguments], stdout=subprocess.PIPE, text=True
        )
        try:
            url = json.loads(server.stdout.readline())["url"]
            measure_share("HTTP", lambda n, **more: http_job(folder / f"h{n}", url, **more), rows)
        finally:
            stop(server)
        with PostgresqlServer() as database:
            database.execute(TABLE.format(rows=rows))
            port = database.port
            measure_share(
                "PostgreSQL", lambda n, **more: sql_job(folder / f"s{n}", port, **more), rows
            )


def measure_share(name: str, job: Callable[..., Path], rows: int) -> None:
    """Print one kind of work unit."""
    run(job("warm"), rows)
    events = {"HTTP": "updated_ms", "PostgreSQL": "ordered"}[name]
    column = {"HTTP": "state", "PostgreSQL": "device"}[name]
    given = {"ms__event__watermark": "adaptive", "ms__event__column": events}
    by_column = {"ms__event__partition__column": column}
    for what, more in (
        ("one partition", given),
        (f"partitions by {column}", {**given, **by_column}),
        (f"partitions by {column}, flag", {**given, **by_column, "ms__late__action": "flag"}),
    ):
        plain, with_events, shares = [], [], []
        for number in range(3):
            plain.append(run(job(f"{what} p{number}"), rows))
            with counted() as share:
                with_events.append(run(job(f"{what} e{number}", **more), rows))
            shares.append(share.spent_s / (with_events[-1] - share.spent_s))
        print(
            f"{name}, {rows:,} rows, {what}: {min(plain):.2f} CPU s without,"
            f" {min(with_events):.2f} with; event time itself adds {min(shares):.1%} (goal 5 %)"
        )


def http_job(folder: Path, url: str, **more: str) -> Path:
    """Write a job of one work unit that walks pages."""
    days = {"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "-"}}
    parameters = [
        {"name": "unit", "value": "a"},
        {"name": "until", "value": str(START_MS + 10**12)},
        {"name": "cursor", "type": "session"},
        {"name": "limit", "type": "primitive", "value": 2000},
    ]
    return write_job(
        folder,
        url,
        ms__work__unit__partition="none",
        ms__watermark=json.dumps([days, {"name": "unit", "type": "unit", "units": "a"}]),
        ms__parameters=json.dumps(parameters),
        ms__output__schema=json.dumps(output_schema()),
        **more,
    )


def sql_job(folder: Path, port: int, **more: str) -> Path:
    """Write a job of one work unit that reads a table."""
    return write_job(
        folder,
        "",
        source__class="jdbc",
        ms__source__uri=f"jdbc:postgresql://127.0.0.1:{port}/postgres",
        source__conn__username="admin",
        source__conn__password=PASSWORD,
        ms__jdbc__statement="select * from orders",
        ms__watermark="",
        ms__work__unit__partition="",
        ms__parameters="",
        ms__session__key__field="",
        ms__data__field="",
        ms__output__schema="",
        **more,
    )


IMPORTS = """
import sys, time
before = len(sys.modules); began = time.process_time()
import dil.task.work_unit, pyarrow.compute
worker = time.process_time() - began; began = time.process_time(); known = len(sys.modules)
import dil.task.event_time
print(worker, time.process_time() - began, len(sys.modules) - known)
"""


def measure_imports() -> None:
    """Print what a worker imports for event time."""
    found = []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True
        )
        found.append(tuple(float(each) for each in done.stdout.split()))
    worker, events, modules = min(found, key=lambda each: each[1])
    print(
        f"imports of a worker: {worker * 1000:.0f} ms of CPU time, and with an event column"
        f" {events * 1000:.0f} ms more, {modules:.0f} modules, no numpy"
    )


if __name__ == "__main__":
    sizes = [int(size) for size in sys.argv[1:]]
    count, rows = sizes + [40, 500_000][len(sizes) :]
    measure_rates(count)
    measure_states()
    measure_shares(rows)
    measure_imports()
