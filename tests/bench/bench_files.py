"""A large Parquet and a large ORC file beside a plain pyarrow loop: speed and memory of the worker.

    python tests/bench/bench_files.py [rows] [rounds]

The files have ten columns, and one row group or few stripes, which is hard on memory; 3,000,000
rows by default. One work unit, from the local file to Parquet, runs in a Python process of its own
without Spark: what a Spark worker runs. The plain loop is a process, too: record batches of the
file into ``ParquetWriter``. CPU seconds are those of all threads; the quickest round counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import orc

from tests.jobs import ROOT, write_job

WORKER = Path(__file__).resolve().with_name("bench_json.py")
LOOP = """
import json, sys, time, pyarrow as pa, pyarrow.parquet as pq
from pyarrow import orc
sys.path.insert(0, ROOT)
from dil.observe.memory import peak_rss_bytes
began, cpu, rows, writer = time.monotonic(), time.process_time(), 0, None
if sys.argv[1].endswith("parquet"):
    batches = pq.ParquetFile(sys.argv[1]).iter_batches(65_536)
else:
    file = orc.ORCFile(sys.argv[1])
    stripes = (file.read_stripe(number) for number in range(file.nstripes))
    batches = (each.slice(at, 65_536) for each in stripes for at in range(0, len(each), 65_536))
for batch in batches:
    if writer is None:
        writer = pq.ParquetWriter(sys.argv[2], batch.schema)
    writer.write_batch(batch)
    rows += batch.num_rows
writer.close()
print(json.dumps({"rows": rows, "seconds": time.monotonic() - began,
    "cpu_s": time.process_time() - cpu, "peak_rss_mb": peak_rss_bytes() / 1e6}))
"""


def table(rows: int) -> pa.Table:
    """Return made-up rows; their values do not repeat much."""
    number = pa.array(range(rows), pa.int64())
    chance = pc.random(rows, initializer=1)
    hundredths = pc.multiply(chance, 1e6).cast(pa.int64(), safe=False)
    text = pc.binary_join_element_wise("customer", hundredths.cast(pa.string()), "-")
    columns = {
        "id": number,
        "customer": text,
        "email": pc.binary_join_element_wise(text, "example.com", "@"),
        "quantity": hundredths.cast(pa.int32()),
        "price": pc.random(rows, initializer=2),
        "weight": pc.random(rows, initializer=3),
        "amount": hundredths.cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2)),
        "active": pc.greater(chance, 0.5),
        "ordered": pc.multiply(hundredths, 1_000_000).cast(pa.timestamp("us")),
        "day": pc.divide(hundredths, 100).cast(pa.int32()).cast(pa.date32()),
    }
    return pa.table(columns)


def work_unit(folder: Path, file: Path) -> dict:
    """Run one work unit on a file; return what it took."""
    job = write_job(
        folder,
        "",
        source__class="file",
        ms__source__uri=str(file),
        ms__extractor__class=file.suffix[1:],
        ms__parameters="",
        ms__session__key__field="",
        ms__data__field="",
        ms__output__schema="",
    )
    return _printed([sys.executable, str(WORKER), "--worker", str(job)])


def plain_loop(folder: Path, file: Path) -> dict:
    """Run the plain loop; return what it took."""
    text = LOOP.replace("ROOT", repr(str(ROOT)))
    return _printed([sys.executable, "-c", text, str(file), str(folder / "plain.parquet")])


def _printed(command: list[str]) -> dict:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def main(rows: int, rounds: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        made = table(rows)
        pq.write_table(made, folder / "rows.parquet", row_group_size=rows)
        orc.write_table(made, folder / "rows.orc", compression="snappy", stripe_size=256 << 20)
        for file in (folder / "rows.parquet", folder / "rows.orc"):
            size = file.stat().st_size / 1e6
            sides = {"dil": work_unit, "plain loop": plain_loop}
            found = {
                name: min(
                    (run(folder, file) for _ in range(rounds)), key=lambda each: each["cpu_s"]
                )
                for name, run in sides.items()
            }
            for name, side in found.items():
                print(
                    f"{file.name}, {size:,.0f} MB, {name}: {side['rows']:,} rows,"
                    f" {side['seconds']:.1f} s, {side['cpu_s']:.1f} CPU s,"
                    f" peak {side['peak_rss_mb']:.0f} MB"
                )
            ratio = found["plain loop"]["cpu_s"] / found["dil"]["cpu_s"]
            print(f"speed against the loop: {ratio:.2f}")


if __name__ == "__main__":
    main(*(int(text) for text in (sys.argv[1:] + ["3000000", "3"][len(sys.argv) - 1 :])))
