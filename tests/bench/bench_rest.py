"""REST throughput: rows per CPU second, beside a plain requests + msgspec + pyarrow loop.

    python tests/bench/bench_rest.py [rows]

Both read the same pages from the same server process and write Parquet. Marginal figures:
T(2N) - T(N), so that start-up does not count. CPU seconds are those of all own processes (driver,
JVM, workers; or the loop), not the server's. With --memory the largest run's peak is printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.processes import Usage, measure, stop
from tests.jobs import DIL, write_job
from tests.servers.rows import START_MS

PAGE = 2000
SERVER = Path(__file__).resolve().parents[1] / "servers" / "http_server.py"
COLUMNS = [
    ("id", "long"), ("unit", "string"), ("updated_ms", "long"), ("state", "string"),
    ("amount", "double"), ("active", "boolean"), ("note", "string"),
]  # fmt: skip


def output_schema() -> list[dict[str, object]]:
    """Return the generated rows' schema, all columns, nested ones too."""
    address = [_column("city", "string"), _column("zip", "string")]
    customer = [
        _column("name", "string"),
        _column("email", "string"),
        {
            "columnName": "address",
            "dataType": {"type": "record", "name": "address", "values": address},
        },
    ]
    return [
        *(_column(name, word) for name, word in COLUMNS),
        {
            "columnName": "customer",
            "dataType": {"type": "record", "name": "customer", "values": customer},
        },
        {"columnName": "tags", "dataType": {"type": "array", "name": "tags", "items": "string"}},
    ]


def _column(name: str, word: str) -> dict[str, object]:
    return {"columnName": name, "isNullable": True, "dataType": {"type": word}}


LOOP = """
import sys, requests, msgspec, pyarrow as pa, pyarrow.parquet as pq
url, until, target = sys.argv[1:]
customer = pa.struct([("name", pa.string()), ("email", pa.string()),
    ("address", pa.struct([("city", pa.string()), ("zip", pa.string())]))])
schema = pa.schema([("id", pa.int64()), ("unit", pa.string()), ("updated_ms", pa.int64()),
    ("state", pa.string()), ("amount", pa.float64()), ("active", pa.bool_()),
    ("note", pa.string()), ("customer", customer), ("tags", pa.list_(pa.string()))])
decode = msgspec.json.Decoder().decode
session, cursor, held, rows = requests.Session(), "", [], 0
with pq.ParquetWriter(target, schema) as writer:
    while cursor is not None:
        page = decode(session.get(url, params={"unit": "a", "until": until, "limit": PAGE,
            **({"cursor": cursor} if cursor else {})}).content)
        cursor = page["next"]
        held.append(pa.RecordBatch.from_pylist(page["data"], schema=schema))
        rows += len(page["data"])
        if sum(batch.num_rows for batch in held) >= 65536 or cursor is None:
            writer.write_table(pa.Table.from_batches(held))
            held = []
print(rows)
""".replace("PAGE", str(PAGE))


def main(rows: int) -> None:
    """Measure and print."""
    server = subprocess.Popen(
        [sys.executable, str(SERVER), "--rows", str(2 * rows), "--units", "a", "--step-ms", "1000"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        url = json.loads(server.stdout.readline())["url"]
        with tempfile.TemporaryDirectory() as temporary:
            ours = [_ours(Path(temporary) / f"o{n}", url, n * rows) for n in (1, 2)]
            plain = [_plain(Path(temporary) / f"p{n}.parquet", url, n * rows) for n in (1, 2)]
    finally:
        stop(server)
    rates = {}
    for name, (once, twice) in {"dil": ours, "plain loop": plain}.items():
        for usage in (once, twice):
            print(f"{name:11} {usage.wall_s:.2f} s, {usage.cpu_s:.2f} CPU s in all")
        wall_s, cpu_s = twice.wall_s - once.wall_s, twice.cpu_s - once.cpu_s
        rates[name] = rows / cpu_s
        print(
            f"{name:11} {rows:,} more rows: {wall_s:.2f} s, {cpu_s:.2f} CPU s, "
            f"{rows / wall_s:,.0f} rows/s, {rates[name]:,.0f} rows per CPU s"
        )
    print(f"ratio in rows per CPU second: {rates['dil'] / rates['plain loop']:.2f}")
    report = json.loads(ours[1].stdout)
    peak = report["peak_rss_bytes"] / 2**20
    print(f"peak resident memory of the Python worker, {report['rows']:,} rows: {peak:.0f} MiB")


def _ours(folder: Path, url: str, rows: int) -> Usage:
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
                {"name": "unit", "type": "unit", "units": "a"},
            ]
        ),
        ms__parameters=json.dumps(
            [
                {"name": "unit", "value": "a"},
                {"name": "until", "value": str(START_MS + rows * 1000)},
                {"name": "cursor", "type": "session"},
                {"name": "limit", "type": "primitive", "value": PAGE},
            ]
        ),
        ms__output__schema=json.dumps(output_schema()),
    )
    usage = measure([*DIL, "run", str(job), "--now", "2030-01-01T00:00:00Z", "--json"])
    if usage.exit_code or json.loads(usage.stdout)["rows"] != rows:
        raise SystemExit(f"dil run failed:\n{usage.stdout}\n{usage.stderr}")
    return usage


def _plain(target: Path, url: str, rows: int) -> Usage:
    until = str(START_MS + rows * 1000)
    usage = measure([sys.executable, "-c", LOOP, f"{url}/records", until, str(target)])
    if usage.exit_code or int(usage.stdout) != rows:
        raise SystemExit(f"the loop failed:\n{usage.stdout}\n{usage.stderr}")
    return usage


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)
