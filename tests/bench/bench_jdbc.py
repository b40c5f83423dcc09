"""PostgreSQL to Parquet beside a plain ADBC loop, Spark's own JDBC reader, and dlt with connectorx.

    python tests/bench/bench_jdbc.py [rows] [rounds]

A table of ten columns on a server of its own; 2,000,000 rows by default. The work unit and the
plain loop run in a Python process each, for half of the rows and for all, so that start-up does not
count. Spark and dlt are compared as whole processes, from start to end: dil and Spark with four
ranges of the key, dlt with one. The server's CPU seconds do not count, the quickest round does.

Spark's reader needs Debian's package libpostgresql-jdbc-java; dlt comes from PyPI into
.cache/bench-dlt-sql.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow.parquet as pq

from tests.bench.processes import Usage, measure
from tests.jobs import DIL, ROOT, write_job
from tests.servers.postgresql import PASSWORD, PostgresqlServer

WORKER = Path(__file__).resolve().with_name("bench_json.py")
JAR = Path("/usr/share/java/postgresql.jar")
PLACE = ROOT / ".cache" / "bench-dlt-sql"
DLT = ["dlt[parquet]==1.31.0", "sqlalchemy", "connectorx", "psycopg[binary]"]
TABLE = """
CREATE TABLE orders AS SELECT n AS id, 'customer-' || (n * 7919 % 1000003) AS customer,
  'customer-' || (n * 7919 % 1000003) || '@example.com' AS email, (n % 977)::int AS quantity,
  random() AS price, random() AS weight, (n % 10000000)::numeric(12, 2) / 100 AS amount,
  n % 3 = 0 AS active, timestamptz '2020-01-01' + n * interval '1 second' AS ordered,
  date '2020-01-01' + (n % 1000)::int AS day FROM generate_series(1::bigint, {rows}) AS n
"""
LOOP = """
import json, sys, time, pyarrow.parquet as pq
import adbc_driver_postgresql.dbapi as driver
began, cpu, rows, writer = time.monotonic(), time.process_time(), 0, None
with driver.connect(sys.argv[1]) as connection, connection.cursor() as cursor:
    cursor.execute(sys.argv[2])
    for batch in cursor.fetch_record_batch():
        if writer is None:
            writer = pq.ParquetWriter(sys.argv[3], batch.schema)
        writer.write_batch(batch)
        rows += batch.num_rows
writer.close()
print(json.dumps({"rows": rows, "seconds": time.monotonic() - began,
    "cpu_s": time.process_time() - cpu}))
"""
SPARK = """
import sys
from pyspark.sql import SparkSession
url, password, jar, rows, target = sys.argv[1:]
spark = (SparkSession.builder.master("local[2]").config("spark.jars", jar)
    .config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC").getOrCreate())
frame = spark.read.jdbc(url, "orders", column="id", lowerBound=1, upperBound=int(rows) + 1,
    numPartitions=4, properties={"user": "admin", "password": password,
    "driver": "org.postgresql.Driver", "fetchsize": "10000"})
frame.write.parquet(target)
spark.stop()
"""
PEER = """
import sys, dlt
from dlt.sources.sql_database import sql_table
url, folder = sys.argv[1:]
orders = sql_table(url, table="orders", backend="connectorx", reflection_level="full")
pipeline = dlt.pipeline("orders", pipelines_dir=folder + "/state",
    destination=dlt.destinations.filesystem(folder + "/lake"), dataset_name="sql")
pipeline.run(orders, loader_file_format="parquet")
"""


class Bench:
    """One table, and the sides that read it."""

    def __init__(self, server: PostgresqlServer, folder: Path, rows: int) -> None:
        self.rows = rows
        self._folder = folder
        self._port = server.port
        self._count = 0

    def work_unit(self, rows: int) -> dict:
        """Read the first rows in one work unit; return what it took."""
        job = self._job(f"select * from orders where id <= {rows}")
        return _printed([sys.executable, str(WORKER), "--worker", str(job)])

    def loop(self, rows: int) -> dict:
        """Read the first rows in the plain loop."""
        url = f"postgresql://admin:{_quoted(PASSWORD)}@127.0.0.1:{self._port}/postgres"
        sql = f"select * from orders where id <= {rows}"
        return _printed([sys.executable, "-c", LOOP, url, sql, str(self._new() / "rows.parquet")])

    def dil(self) -> Usage:
        """Read all rows by `dil run`, in four ranges of the key."""
        job = self._job(
            "select * from orders",
            ms__jdbc__partition__column="id",
            ms__jdbc__partitions="4",
            ms__publish__mode="replace",
            writer__file__path__type="namespace_table",
        )
        usage = measure([*DIL, "run", str(job), "--now", "2030-01-01T00:00:00Z", "--json"])
        self._check(usage, job.parent)
        return usage

    def spark(self) -> Usage:
        """Read all rows by Spark's reader, in four partitions."""
        target = self._new() / "rows"
        url = f"jdbc:postgresql://127.0.0.1:{self._port}/postgres"
        arguments = [url, PASSWORD, str(JAR), str(self.rows), str(target)]
        usage = measure([sys.executable, "-c", SPARK, *arguments])
        self._check(usage, target)
        return usage

    def dlt(self) -> Usage:
        """Read all rows by dlt with connectorx."""
        folder = self._new()
        url = f"postgresql://admin:{_quoted(PASSWORD)}@127.0.0.1:{self._port}/postgres"
        usage = measure([str(_dlt_python()), "-c", PEER, url, str(folder)])
        self._check(usage, folder / "lake" / "sql" / "orders")
        return usage

    def _job(self, statement: str, **changes: str) -> Path:
        return write_job(
            self._new(),
            "",
            source__class="jdbc",
            ms__source__uri=f"jdbc:postgresql://127.0.0.1:{self._port}/postgres",
            source__conn__username="admin",
            source__conn__password=PASSWORD,
            ms__jdbc__statement=statement,
            ms__watermark="",
            ms__work__unit__partition="",
            ms__parameters="",
            ms__session__key__field="",
            ms__data__field="",
            ms__output__schema="",
            **changes,
        )

    def _new(self) -> Path:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        return folder

    def _check(self, usage: Usage, folder: Path) -> None:
        files = [path for path in folder.rglob("*.parquet") if "_staging" not in path.parts]
        rows = sum(pq.read_metadata(path).num_rows for path in files)
        if usage.exit_code or rows != self.rows:
            raise SystemExit(f"{rows:,} rows were written\n{usage.stdout}\n{usage.stderr}")


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")


def _printed(command: list[str]) -> dict:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def _dlt_python() -> Path:
    python = PLACE / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PLACE)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *DLT], check=True)
    return python


def _marginal(bench: Bench, rounds: int) -> None:
    """Compare the work unit with the plain loop, start-up left out."""
    cpu = {}
    for name, side in (("dil", bench.work_unit), ("plain ADBC loop", bench.loop)):
        best: dict[int, dict] = {}
        for _ in range(rounds):
            for rows in (bench.rows // 2, bench.rows):
                found = side(rows)
                known = best.get(rows, found)
                best[rows] = min(found, known, key=lambda each: each["cpu_s"])
        half, whole = best[bench.rows // 2], best[bench.rows]
        cpu[name] = whole["cpu_s"] - half["cpu_s"]
        peak = f", peak {whole['peak_rss_mb']:.0f} MB" if "peak_rss_mb" in whole else ""
        print(
            f"{name:16} {bench.rows // 2:,} more rows: {whole['seconds'] - half['seconds']:.2f} s,"
            f" {cpu[name]:.2f} CPU s{peak}"
        )
    print(f"CPU time of the loop's: {cpu['dil'] / cpu['plain ADBC loop']:.2f}")


def _whole(bench: Bench, rounds: int) -> None:
    """Compare whole processes."""
    sides: dict[str, Callable[[], Usage]] = {"dil": bench.dil, "dlt, connectorx": bench.dlt}
    if JAR.exists():
        sides["Spark's reader"] = bench.spark
    else:
        print(f"Spark's reader is left out: apt-get install libpostgresql-jdbc-java makes {JAR}")
    walls = {}
    for name, side in sides.items():
        usage = min((side() for _ in range(rounds)), key=lambda each: each.wall_s)
        walls[name] = usage.wall_s
        print(f"{name:16} {bench.rows:,} rows: {usage.wall_s:.1f} s, {usage.cpu_s:.1f} CPU s")
    for name, wall in walls.items():
        if name != "dil":
            print(f"{wall / walls['dil']:.1f} times as fast as {name}")


def main(rows: int, rounds: int) -> None:
    """Measure and print."""
    with PostgresqlServer() as server, tempfile.TemporaryDirectory() as temporary:
        server.hash_as_usual()
        server.execute(TABLE.format(rows=rows))
        server.execute("ALTER TABLE orders ADD PRIMARY KEY (id)")
        server.execute("ANALYZE orders")
        bench = Bench(server, Path(temporary), rows)
        _marginal(bench, rounds)
        _whole(bench, rounds)


if __name__ == "__main__":
    main(*(int(text) for text in (sys.argv[1:] + ["2000000", "2"][len(sys.argv) - 1 :])))
