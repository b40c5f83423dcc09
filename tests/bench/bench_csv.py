"""A large packed CSV file beside a plain loop of pyarrow.csv: speed and memory of the worker.

    python tests/bench/bench_csv.py [megabytes] [rounds] [source]

The file holds that many megabytes (10^6 bytes, 1,000 by default) of text with ten columns, packed
with gzip, and comes from a server in a process of its own: http (the default), s3 or sftp. One work
unit, from source to Parquet, runs in a Python process of its own without Spark: what a Spark worker
runs. The plain loop is a process, too: urllib, boto3 or paramiko, gunzip, ``pyarrow.csv.open_csv``,
``ParquetWriter``. CPU seconds are those of all threads of the process, without the imports that
both sides need; of several rounds the quickest counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.csv_bodies import COLUMNS, write_packed
from tests.bench.processes import stop
from tests.jobs import write_job

WORKER = Path(__file__).resolve().with_name("bench_json.py")
FILE = "rows.csv.gz"


@dataclass(frozen=True)
class Source:
    """Where both sides read the file: properties of the job, and Python that opens ``body``."""

    opening: str
    properties: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def http(folder: Path) -> Iterator[Source]:
    """Serve a folder by http.server in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "http.server", "0", "-b", "127.0.0.1", "-d", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        url = process.stdout.readline().partition("(")[2].partition(")")[0] + FILE
        yield Source(
            f"import urllib.request\nbody = urllib.request.urlopen({url!r})",
            {"source.class": "http", "ms.source.uri": url},
        )
    finally:
        stop(process)
        process.stdout.close()


@contextmanager
def s3(folder: Path) -> Iterator[Source]:
    """Put the file into a bucket of rclone's S3 server."""
    from tests.servers.s3 import KEY, REGION, SECRET, RcloneServer

    account = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": REGION}
    with RcloneServer() as server:
        server.bucket("lake").upload_file(str(folder / FILE), "lake", FILE)
        yield Source(
            "import boto3\n"
            f"client = boto3.client('s3', endpoint_url={server.url!r}, **{account!r})\n"
            f"body = client.get_object(Bucket='lake', Key={FILE!r})['Body']",
            {
                "source.class": "s3",
                "ms.source.uri": f"s3://lake/{FILE}",
                "ms.source.s3.parameters": json.dumps({"endpoint": server.url, "region": REGION}),
                "source.conn.username": KEY,
                "source.conn.password": SECRET,
                **PACKED,
            },
        )


@contextmanager
def sftp(folder: Path) -> Iterator[Source]:
    """Let OpenSSH serve the folder."""
    from tests.servers.sftp import SftpServer

    path = str(folder / FILE)
    with SftpServer() as server:
        given = {name.replace("__", "."): text for name, text in server.properties().items()}
        known, key = given["source.conn.known.hosts"], given["source.conn.private.key"]
        yield Source(
            f"import paramiko\nclient = paramiko.SSHClient()\nclient.load_host_keys({known!r})\n"
            f"client.connect('127.0.0.1', {server.port}, {server.user!r}, key_filename={key!r})\n"
            f"body = client.open_sftp().open({path!r}, 'rb')\nbody.prefetch()",
            {**given, "ms.source.uri": path, **PACKED},
        )


PACKED = {"ms.extract.preprocessors": "gunzip", "ms.extractor.target.file.name": "rows.csv"}
SOURCES = {"http": http, "s3": s3, "sftp": sftp}

LOOP = """
import json, os, sys, time, pyarrow as pa, pyarrow.csv as pc, pyarrow.parquet as pq
sys.path.insert(0, ROOT)
from dil.observe.memory import peak_rss_bytes
types = {"id": pa.int64(), "customer": pa.string(), "email": pa.string(), "state": pa.string(),
    "quantity": pa.int32(), "price": pa.float64(), "amount": pa.decimal128(12, 2),
    "active": pa.bool_(), "ordered": pa.timestamp("us"), "note": pa.string()}
began, cpu, rows, writer = time.monotonic(), time.process_time(), 0, None
OPENING
UNPACKING
for batch in pc.open_csv(body, convert_options=pc.ConvertOptions(TYPES)):
    if writer is None:
        writer = pq.ParquetWriter(sys.argv[1], batch.schema)
    writer.write_batch(batch)
    rows += batch.num_rows
writer.close()
print(json.dumps({"rows": rows, "seconds": time.monotonic() - began,
    "cpu_s": time.process_time() - cpu, "peak_rss_mb": peak_rss_bytes() / 1e6}), flush=True)
os._exit(0)  # a client's threads may wait for ever
"""
UNPACKING = {
    "gzip": "import gzip\nbody = gzip.GzipFile(fileobj=body)",
    "Arrow's gunzip": 'body = pa.CompressedInputStream(pa.PythonFile(body, "r"), "gzip")',
}


def plain_loop(folder: Path, source: Source, unpacking: str, *, is_inferred: bool) -> dict:
    """Run the plain loop; return what it took."""
    text = (
        LOOP.replace("OPENING", source.opening)
        .replace("UNPACKING", UNPACKING[unpacking])
        .replace("TYPES", "" if is_inferred else "column_types=types")
        .replace("ROOT", repr(str(Path(__file__).resolve().parents[2])))
    )
    return _printed([sys.executable, "-c", text, str(folder / "plain.parquet")])


def work_unit(folder: Path, source: Source, *, is_inferred: bool) -> dict:
    """Run one work unit of a job on the same file; return what it took."""
    job = write_job(
        folder,
        "http://127.0.0.1",
        ms__extractor__class="csv",
        ms__csv='{"columnHeaderIndex": 0}',
        ms__parameters="",
        ms__session__key__field="",
        ms__data__field="",
        ms__output__schema="" if is_inferred else json.dumps(schema()),
        **source.properties,
    )
    return _printed([sys.executable, str(WORKER), "--worker", str(job)])


def schema() -> list[dict[str, object]]:
    """Return the columns as ms.output.schema."""
    sizes = {"decimal": {"precision": 12, "scale": 2}}
    return [
        {"columnName": name, "dataType": {"type": word, **sizes.get(word, {})}}
        for name, word in COLUMNS
    ]


def _printed(command: list[str]) -> dict:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def main(megabytes: int = 1_000, rounds: int = 3, source_name: str = "http") -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "served").mkdir()
        packed = folder / "served" / FILE
        rows, size = write_packed(packed, megabytes)
        print(f"{rows:,} rows, {size / 1e6:,.0f} MB, {packed.stat().st_size / 1e6:,.0f} MB packed")
        with SOURCES[source_name](folder / "served") as source:
            for is_inferred in (False, True):
                compare(folder, source, rounds, rows, is_inferred=is_inferred)


def compare(folder: Path, source: Source, rounds: int, rows: int, *, is_inferred: bool) -> None:
    """Run both sides in turn and print the quickest round of each."""
    sides = {
        "dil": lambda: work_unit(folder / "job", source, is_inferred=is_inferred),
        **{
            f"plain loop, {unpacking}": lambda unpacking=unpacking: plain_loop(
                folder, source, unpacking, is_inferred=is_inferred
            )
            for unpacking in UNPACKING
        },
    }
    found: dict[str, list[dict]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, measure in sides.items():
            found[name].append(measure())
    print("columns found" if is_inferred else "columns given")
    best = {}
    for name, figures in found.items():
        if {each["rows"] for each in figures} != {rows}:
            raise SystemExit(f"{name} read other rows than were written")
        best[name] = min(each["cpu_s"] for each in figures)
        print(
            f"  {name:28} {best[name]:6.2f} CPU s,"
            f" {min(each['seconds'] for each in figures):6.2f} s,"
            f" peak {max(each['peak_rss_mb'] for each in figures):4.0f} MB,"
            + ("" if name == "dil" else f" dil at {best[name] / best['dil']:.2f} of its speed")
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
