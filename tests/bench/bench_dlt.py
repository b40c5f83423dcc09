"""REST to Parquet beside dlt: the same pages, four units, everything from process start to its end.

    python tests/bench/bench_dlt.py [rows]

dlt comes from PyPI into an environment of its own, .cache/bench-dlt, made on the first run. Both
sides read from the same server process, one after the other, in whole processes: Spark's start
counts for dil, dlt's imports for dlt. The server's own CPU seconds are not counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.bench_rest import PAGE, SERVER, output_schema
from tests.bench.processes import Usage, measure, stop
from tests.jobs import DIL, write_job
from tests.servers.rows import START_MS

UNITS = ("a", "b", "c", "d")
DLT = "dlt[filesystem,parquet]==1.31.0"
PLACE = Path(__file__).resolve().parents[2] / ".cache" / "bench-dlt"


def main(rows: int) -> None:
    """Measure and print."""
    python = _dlt_python()
    server = subprocess.Popen(
        [sys.executable, str(SERVER), "--rows", str(rows // len(UNITS)), "--units",
         ",".join(UNITS), "--step-ms", "1000"],
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        url = json.loads(server.stdout.readline())["url"]
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            ours = {
                "dil, schema given": _ours(folder / "given", url, rows, output_schema()),
                "dil, schema inferred": _ours(folder / "inferred", url, rows, None),
            }
            theirs = _theirs(python, folder / "dlt", url, rows)
    finally:
        stop(server)
    for name, usage in {**ours, "dlt": theirs}.items():
        print(
            f"{name:21} {rows:,} rows: {usage.wall_s:.1f} s, {usage.cpu_s:.1f} CPU s, "
            f"{rows / usage.wall_s:,.0f} rows/s"
        )
    for name, usage in ours.items():
        print(
            f"{name}: {theirs.wall_s / usage.wall_s:.1f} times dlt's throughput, "
            f"{theirs.cpu_s / usage.cpu_s:.1f} times less CPU"
        )


def _ours(folder: Path, url: str, rows: int, schema: list[dict[str, object]] | None) -> Usage:
    changes = {} if schema is None else {"ms__output__schema": json.dumps(schema)}
    job = write_job(
        folder,
        url,
        ms__work__unit__partition="none",
        ms__watermark=json.dumps(
            [
                {
                    "name": "system",
                    "type": "datetime",
                    "range": {"from": "2020-01-01", "to": "-"},
                },
                {"name": "unit", "type": "unit", "units": ",".join(UNITS)},
            ]
        ),
        ms__parameters=json.dumps(
            [
                {"name": "unit"},
                {"name": "until", "value": _until(rows)},
                {"name": "cursor", "type": "session"},
                {"name": "limit", "type": "primitive", "value": PAGE},
            ]
        ),
        **changes,
    )
    if schema is None:
        text = job.read_text(encoding="utf-8").splitlines(keepends=True)
        job.write_text(
            "".join(line for line in text if not line.startswith("ms.output.schema")),
            encoding="utf-8",
        )
    usage = measure([*DIL, "run", str(job), "--now", "2030-01-01T00:00:00Z", "--json"])
    if usage.exit_code or json.loads(usage.stdout)["rows"] != rows:
        raise SystemExit(f"dil run failed:\n{usage.stdout}\n{usage.stderr}")
    return usage


def _theirs(python: Path, folder: Path, url: str, rows: int) -> Usage:
    folder.mkdir()
    peer = Path(__file__).with_name("dlt_loop.py")
    usage = measure([str(python), str(peer), url, str(folder), _until(rows), str(PAGE), *UNITS])
    files = list((folder / "lake").rglob("records/*.parquet"))
    if usage.exit_code or sum(pq.read_metadata(file).num_rows for file in files) != rows:
        raise SystemExit(f"dlt failed:\n{usage.stdout}\n{usage.stderr}")
    return usage


def _until(rows: int) -> str:
    return str(START_MS + rows * 1000)


def _dlt_python() -> Path:
    """Return the Python of dlt's environment, which is made when it is not there."""
    python = PLACE / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PLACE)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", DLT], check=True)
    return python


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)
