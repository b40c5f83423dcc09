"""Many small work units: units x days of ten rows each, beside a plain loop over the same requests.

    python tests/bench/bench_tiny_units.py [--shared] [work units ...]

Each work unit is one request on loopback and one Parquet file; with ``--shared`` the work units of
a run share files (ms.output.file.per.work.unit=false). The plain loop has requests,
msgspec and pyarrow, four threads with a session each, and neither fsync nor state. Whole processes,
one after the other, so Spark's start counts for dil; it is measured by itself, too. The driver's
memory is the peak of the process that plans and publishes.
"""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import date, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.bench_json import json_server
from tests.bench.bench_rest import output_schema
from tests.bench.bench_start import SAME_FLAGS
from tests.bench.processes import Usage, measure
from tests.jobs import DIL, visible_files, write_job

COUNTS = (10, 200, 2_000, 20_000)
DAYS = 1_000
ROWS = 10
LOOP = """
import sys, threading, requests, msgspec, pyarrow as pa, pyarrow.parquet as pq
from concurrent.futures import ThreadPoolExecutor
url, target, units = sys.argv[1], sys.argv[2], int(sys.argv[3])
address = pa.struct([("city", pa.string()), ("zip", pa.string())])
customer = pa.struct([("name", pa.string()), ("email", pa.string()), ("address", address)])
schema = pa.schema([("id", pa.int64()), ("unit", pa.string()), ("updated_ms", pa.int64()),
    ("state", pa.string()), ("amount", pa.float64()), ("active", pa.bool_()),
    ("note", pa.string()), ("customer", customer), ("tags", pa.list_(pa.string()))])
own = threading.local()
def read(number):
    session = own.__dict__.setdefault("session", requests.Session())
    page = msgspec.json.decode(session.get(url, params={"unit": number}).content)
    table = pa.Table.from_pylist(page["data"], schema=schema)
    pq.write_table(table, f"{target}/{number}.parquet")
    return table.num_rows
with ThreadPoolExecutor(4) as threads:
    print(sum(threads.map(read, range(units))))
"""


def main(counts: list[int], *, is_shared: bool) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as temporary, json_server() as url:
        folder = Path(temporary)
        start = min((measure([sys.executable, "-c", SAME_FLAGS]) for _ in range(3)), key=_wall)
        print(f"Spark's start and one job: {start.wall_s:.1f} s, {start.cpu_s:.1f} CPU s")
        before: tuple[int, Usage] | None = None
        for units in counts:
            loop = _loop(folder / f"loop-{units}", f"{url}/pages/1", units)
            ours, files = _ours(
                folder / f"dil-{units}", f"{url}/pages/1", units, is_shared=is_shared
            )
            print(
                f"{units:,} work units, {files:,} files: dil {ours.wall_s:.1f} s,"
                f" {ours.cpu_s:.1f} CPU s, driver {_peak_mb(ours):.0f} MB; loop"
                f" {loop.wall_s:.1f} s, {loop.cpu_s:.1f} CPU s;"
                f" {ours.wall_s / loop.wall_s:.1f} times the loop,"
                f" {(ours.wall_s - start.wall_s) / loop.wall_s:.1f} without Spark's start"
            )
            if before is not None:
                more = units - before[0]
                wall_s, cpu_s = ours.wall_s - before[1].wall_s, ours.cpu_s - before[1].cpu_s
                grown = (_peak_mb(ours) - _peak_mb(before[1])) * 1000
                print(
                    f"    each further one: {wall_s / more * 1000:.1f} ms,"
                    f" {cpu_s / more * 1000:.1f} CPU ms, driver {grown / more:.1f} KB"
                )
            before = (units, ours)


def _wall(usage: Usage) -> float:
    return usage.wall_s


def _loop(folder: Path, url: str, units: int) -> Usage:
    folder.mkdir()
    usage = measure([sys.executable, "-c", LOOP, url, str(folder), str(units)])
    if usage.exit_code or int(usage.stdout) != units * ROWS:
        raise SystemExit(f"the loop failed:\n{usage.stdout}\n{usage.stderr}")
    return usage


def _ours(folder: Path, uri: str, units: int, *, is_shared: bool) -> tuple[Usage, int]:
    """Return what a run took, and how many files it made."""
    days = min(units, DAYS)
    names = ",".join(f"u{number}" for number in range(units // days))
    window = {"from": "2020-01-01", "to": "P0D"}
    job = write_job(
        folder,
        "http://127.0.0.1",
        ms__source__uri=uri,
        ms__watermark=json.dumps(
            [
                {"name": "system", "type": "datetime", "range": window},
                {"name": "unit", "type": "unit", "units": names},
            ]
        ),
        ms__parameters=json.dumps(
            [{"name": "unit"}, {"name": "since", "type": "watermark", "value": "low"}]
        ),
        ms__session__key__field="",
        ms__output__schema=json.dumps(output_schema()),
        ms__work__unit__parallelism__max="-1",
        ms__output__file__per__work__unit="false" if is_shared else "true",
    )
    now = f"{date(2020, 1, 1) + timedelta(days)}T00:00:00Z"
    usage = measure([*DIL, "run", str(job), "--now", now, "--json"])
    if usage.exit_code or json.loads(usage.stdout)["rows"] != units * ROWS:
        raise SystemExit(f"dil run failed:\n{usage.stdout}\n{usage.stderr}")
    files = len(visible_files(folder))
    if not is_shared and files != units:
        raise SystemExit(f"{files} files of {units} work units")
    return usage, files


def _peak_mb(usage: Usage) -> float:
    return usage.root_peak_kb / 1000


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--shared"]
    main(list(map(int, words)) or list(COUNTS), is_shared="--shared" in sys.argv)
