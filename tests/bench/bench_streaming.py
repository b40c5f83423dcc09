"""A stream beside a batch run over the same rows, and micro-batches of a warm service.

    python tests/bench/bench_streaming.py [rows] [micro-batches]

A server serves the rows by pages of 2,000 in 12 daily work units. Both sides read them by `dil run`
into Parquet, to 2 tasks at a time: once as one run, once until caught up in micro-batches of 4 work
units. Then a service reads files of 1,000 rows, one a micro-batch; the first two are left out.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.bench_rest import PAGE, SERVER, output_schema
from tests.bench.processes import Usage, measure, stop
from tests.jobs import DIL, write_job
from tests.streams import INGEST, StreamFeed

DAYS = 12
NOW = f"2020-01-{1 + DAYS}T00:00:00Z"
ROWS_OF_FILE = 1_000


def main(rows: int, batches: int) -> None:
    """Measure and print."""
    step_ms = str(DAYS * 86_400_000 // rows)
    server = subprocess.Popen(
        [sys.executable, str(SERVER), "--rows", str(rows), "--units", "a", "--step-ms", step_ms],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        with tempfile.TemporaryDirectory() as place:
            batch = _ingest(Path(place) / "batch", url, rows)
            changes = {"ms__stream__mode": "ingest", "ms__stream__max__files": "4"}
            stream = _ingest(Path(place) / "stream", url, rows, **changes)
    finally:
        stop(server)
    for name, usage in (("batch", batch), ("stream", stream)):
        print(f"{name:7} {rows:,} rows: {usage.wall_s:.2f} s, {usage.cpu_s:.2f} CPU s")
    print(
        f"stream by batch: {stream.wall_s / batch.wall_s:.2f} in time,"
        f" {stream.cpu_s / batch.cpu_s:.2f} in CPU time"
    )
    with tempfile.TemporaryDirectory() as place:
        seconds = _service(Path(place), batches)
    print(
        f"warm micro-batches of {ROWS_OF_FILE:,} rows: {statistics.median(seconds):.2f} s in the"
        f" middle, {max(seconds):.2f} s at most, of {len(seconds)}"
    )


def _ingest(folder: Path, url: str, rows: int, **changes: str) -> Usage:
    job = write_job(
        folder,
        url,
        ms__watermark=json.dumps(
            [
                {"name": "s", "type": "datetime", "range": {"from": "2020-01-01", "to": "P0D"}},
                {"name": "unit", "type": "unit", "units": "a"},
            ]
        ),
        ms__parameters=json.dumps(
            [
                {"name": "unit"},
                {"name": "since", "type": "watermark", "value": "low"},
                {"name": "until", "type": "watermark", "value": "high"},
                {"name": "cursor", "type": "session"},
                {"name": "limit", "type": "primitive", "value": PAGE},
            ]
        ),
        ms__output__schema=json.dumps(output_schema()),
        taskexecutor__threadpool__size="2",
        **changes,
    )
    usage = measure([*DIL, "run", str(job), "--now", NOW, "--json"])
    if usage.exit_code or json.loads(usage.stdout)["rows"] != rows:
        raise SystemExit(f"dil run failed:\n{usage.stdout}\n{usage.stderr}")
    return usage


def _service(folder: Path, batches: int) -> list[float]:
    """Return the seconds of each micro-batch, from looking what is due to its commit."""
    feed = StreamFeed(folder)
    for _ in range(batches + 2):
        feed.put(*range(ROWS_OF_FILE))
    feed.job(**{**INGEST, "ms.stream.max.files": "1", "taskexecutor.threadpool.size": "2"})
    job = str(folder / "feed.conf")
    usage = measure([*DIL, "run", job, "--json"])
    if usage.exit_code:
        raise SystemExit(f"dil run failed:\n{usage.stdout}\n{usage.stderr}")
    runs = measure([*DIL, "runs", "list", job, "--json"])
    return [float(run["seconds"]) for run in json.loads(runs.stdout)][:batches]


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000,
        int(sys.argv[2]) if len(sys.argv) > 2 else 20,
    )
