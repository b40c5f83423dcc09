"""What one further small work unit costs, for each shape that work units have.

    python tests/bench/bench_unit_shapes.py [units] [shape ...] [--profile]

CPU milliseconds of driver and worker together, in one process and one thread without Spark, beside
a plain loop over the same source: marginal, (T(2N) - T(N)) / N. Rows, files and requests are tiny,
so that only work units count. ``--profile`` prints where the time of the larger run goes.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import requests

from dil import config
from dil.execution.coordinated import BindAddress, coordinated
from dil.execution.executor import Execution, Watch
from dil.model.task import RunContext
from dil.model.work_unit import WorkUnit
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.run.process import real_clock
from dil.task.group import run_group
from dil.testing.in_process import InProcessExecutor
from tests.bench.bench_json import json_server
from tests.bench.bench_rest import output_schema
from tests.jobs import write_job
from tests.servers.postgresql import PASSWORD, PostgresqlServer

FIRST = date(2020, 1, 1)
ROWS = 10
UNITS_PER_TASK = 250


class TaskExecutor(InProcessExecutor):
    """Runs the body of a Spark task, which many work units share, in this process."""

    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        """Run all work units, one at a time."""
        reports = []
        with coordinated(run, BindAddress()) as shared:
            left = list(units)
            while left:
                done = run_group(shared.run, left[:UNITS_PER_TASK])
                reports += done
                known = {report.signature for report in done}
                left = [unit for unit in left if unit.signature not in known]
        watch(reports)
        return Execution(tuple(reports))


class Shapes:
    """One job for each shape, and its plain loop; both read ``units`` small work units."""

    def __init__(self, folder: Path, url: str, postgresql: str) -> None:
        self._folder = folder
        self._url = url
        self._postgresql = postgresql

    def jobs(self) -> dict[str, tuple[Callable[[Path, int], Path], Callable[[Path, int], None]]]:
        """Return what writes the job, and what does the same in a plain loop, by shape."""
        http, pages, files = self._http_loop, self._pages_loop, self._files_loop
        by_mode = {"ms__publish__mode": "window_replace"}
        server = {
            "state__store__type": "postgresql",
            "state__store__db__url": self._postgresql,
        }
        return {
            "http": (self._http, http),
            "http, 2 pages": (self._pages, pages),
            "http, activation": (self._activation, http),
            "http, window_replace": (lambda *of: self._http(*of, **by_mode), http),
            "http, Delta": (lambda *of: self._http(*of, ms__table__format="delta"), http),
            "http, filelog": (lambda *of: self._http(*of, state__store__type="filelog"), http),
            "http, PostgreSQL": (
                lambda at, n: self._http(at, n, job__name=f"orders-{at.name}", **server),
                http,
            ),
            "files": (self._files, files),
            "files, 5 % missing": (lambda *of: self._files(*of, missing=20), files),
            "sql": (self._sql, self._sql_loop),
            "sql, PostgreSQL": (self._server_sql, self._server_sql_loop),
        }

    def _http(self, folder: Path, units: int, **changes: str) -> Path:
        parameters = [{"name": "since", "type": "watermark", "value": "low"}]
        given = {
            "ms__source__uri": f"{self._url}/pages/1",
            "ms__watermark": _days(units),
            "ms__parameters": json.dumps(parameters),
            "ms__session__key__field": "",
            "ms__output__schema": json.dumps(output_schema()),
            "ms__work__unit__parallelism__max": "-1",
            **changes,
        }
        return write_job(folder, "http://127.0.0.1", **given)

    def _pages(self, folder: Path, units: int) -> Path:
        return self._http(
            folder,
            units,
            ms__source__uri=f"{self._url}/pages/2",
            ms__parameters=json.dumps([{"name": "cursor", "type": "session"}]),
            ms__session__key__field=json.dumps({"name": "next"}),
        )

    def _activation(self, folder: Path, units: int) -> Path:
        folder.mkdir(parents=True)
        lines = (json.dumps({"id": f"r{number}"}) for number in range(units))
        (folder / "records.json").write_text("\n".join(lines))
        given = {"path": str(folder / "records.json"), "fields": ["id"], "category": "activation"}
        first = {"from": str(FIRST), "to": str(FIRST + timedelta(1))}
        days = {"name": "system", "type": "datetime", "range": first}
        return self._http(
            folder,
            1,
            ms__watermark=json.dumps([days]),
            ms__secondary__input=json.dumps([given]),
            ms__parameters=json.dumps([{"name": "id", "value": "{{id}}"}]),
        )

    def _files(self, folder: Path, units: int, missing: int = 0) -> Path:
        source = folder / "source"
        source.mkdir(parents=True)
        for number in range(units):
            if not missing or number % missing:
                name = f"{FIRST + timedelta(number)}.csv"
                (source / name).write_text("id,name\n" + "1,a\n" * ROWS)
        day = {"name": "day", "type": "watermark", "value": "low", "format": "datetime",
               "pattern": "yyyy-MM-dd"}  # fmt: skip
        return self._http(
            folder,
            units,
            source__class="file",
            ms__source__uri=f"{source}/{{{{day}}}}.csv",
            ms__parameters=json.dumps([day]),
            ms__extractor__class="csv",
            ms__data__field="",
            ms__csv=json.dumps({"columnHeaderIndex": 0}),
            ms__output__schema=json.dumps([_column("id", "long"), _column("name", "string")]),
            job__commit__policy="successful",
        )

    def _sql(self, folder: Path, units: int) -> Path:
        folder.mkdir(parents=True)
        with closing(sqlite3.connect(folder / "rows.db")) as connection, connection:
            connection.execute("create table t (day text, id integer, name text)")
            connection.execute("create index t_day on t (day)")
            rows = (
                (str(FIRST + timedelta(day)), row, "a")
                for day in range(units)
                for row in range(ROWS)
            )
            connection.executemany("insert into t values (?, ?, ?)", rows)
        return self._rows_of_t(folder, units, f"jdbc:sqlite:{folder}/rows.db")

    def _server_sql(self, folder: Path, units: int) -> Path:
        with closing(adbc.connect(self._postgresql)) as connection, connection.cursor() as cursor:
            cursor.execute("drop table if exists t")
            cursor.execute(
                "create table t as select (date '2020-01-01' + day)::text as day, id, 'a' as name"
                f" from generate_series(0, {units - 1}) day, generate_series(1, {ROWS}) id"
            )
            cursor.execute("create index t_day on t (day)")
            connection.commit()
        password = {"source__conn__username": "admin", "source__conn__password": PASSWORD}
        url = f"jdbc:postgresql://{self._postgresql.rpartition('@')[2]}"
        return self._rows_of_t(folder, units, url, **password)

    def _rows_of_t(self, folder: Path, units: int, uri: str, **login: str) -> Path:
        low = {"name": "low", "type": "watermark", "value": "low", "format": "datetime",
               "pattern": "yyyy-MM-dd"}  # fmt: skip
        return self._http(
            folder,
            units,
            source__class="jdbc",
            ms__source__uri=uri,
            ms__jdbc__statement="select id, name from t where day = {{low}}",
            ms__parameters=json.dumps([low]),
            ms__data__field="",
            ms__output__schema=json.dumps([_column("id", "long"), _column("name", "string")]),
            **login,
        )

    def _http_loop(self, folder: Path, units: int, pages: int = 1) -> None:
        with requests.Session() as session:
            for number in range(units):
                rows = []
                for page in range(pages):
                    url = f"{self._url}/pages/{pages}"
                    rows += json.loads(session.get(url, params={"cursor": page}).content)["data"]
                pq.write_table(pa.Table.from_pylist(rows), folder / f"{number}.parquet")

    def _pages_loop(self, folder: Path, units: int) -> None:
        self._http_loop(folder, units, 2)

    def _files_loop(self, folder: Path, units: int) -> None:
        source = folder / "source.csv"
        source.write_text("id,name\n" + "1,a\n" * ROWS)
        for number in range(units):
            pq.write_table(pc.read_csv(source), folder / f"{number}.parquet")

    def _sql_loop(self, folder: Path, units: int) -> None:
        self._sql(folder / "sql", units)
        with closing(sqlite3.connect(folder / "sql" / "rows.db")) as connection:
            for number in range(units):
                day = str(FIRST + timedelta(number))
                rows = connection.execute("select id, name from t where day = ?", (day,)).fetchall()
                table = pa.Table.from_pylist([{"id": one, "name": two} for one, two in rows])
                pq.write_table(table, folder / f"{number}.parquet")

    def _server_sql_loop(self, folder: Path, units: int) -> None:
        self._server_sql(folder / "sql", units)
        with closing(adbc.connect(self._postgresql)) as connection, connection.cursor() as cursor:
            for number in range(units):
                day = FIRST + timedelta(number)
                cursor.execute(f"select id, name from t where day = '{day}'")
                pq.write_table(cursor.fetch_arrow_table(), folder / f"{number}.parquet")


def main(units: int, wanted: Sequence[str], *, is_profiled: bool) -> None:
    """Measure and print."""
    with ExitStack() as open_things:
        folder = Path(open_things.enter_context(tempfile.TemporaryDirectory()))
        server = open_things.enter_context(PostgresqlServer())
        shapes = Shapes(folder, open_things.enter_context(json_server()), _url(server))
        for number, (name, (write, loop)) in enumerate(shapes.jobs().items()):
            if wanted and name not in wanted:
                continue
            place = folder / str(number)
            _run(write, place / "warm", 40)
            profile = cProfile.Profile(time.thread_time) if is_profiled else None
            ours = (_run(write, place / "two", 2 * units, profile)
                    - _run(write, place / "one", units)) / units  # fmt: skip
            plain = (_loop(loop, place / "b", 2 * units) - _loop(loop, place / "a", units)) / units
            print(f"{name:24} {ours * 1e3:6.2f} CPU ms, the loop {plain * 1e3:6.2f}:"
                  f" {ours / plain:5.2f} times", flush=True)  # fmt: skip
            if profile is not None:
                pstats.Stats(profile).sort_stats("tottime").print_stats(45)


def _run(
    write: Callable[[Path, int], Path],
    folder: Path,
    units: int,
    profile: cProfile.Profile | None = None,
) -> float:
    job = config.load(write(folder, units), environ={}).job
    now_ms = (FIRST + timedelta(units) - date(1970, 1, 1)).days * 86_400_000
    options = RunOptions(now_ms=now_ms, clock=real_clock, executor=TaskExecutor())
    begun = time.process_time()
    if profile is not None:
        profile.enable()
    report = run_job(job, options)
    if profile is not None:
        profile.disable()
    spent = time.process_time() - begun
    if report.units.planned != units or report.units.succeeded < 0.9 * units:
        raise SystemExit(f"{report.units}: {report.failures[:2]}")
    return spent


def _loop(loop: Callable[[Path, int], None], folder: Path, units: int) -> float:
    folder.mkdir(parents=True)
    begun = time.process_time()
    loop(folder, units)
    return time.process_time() - begun


def _days(units: int) -> str:
    low, high = str(FIRST), str(FIRST + timedelta(units))
    days = {"name": "system", "type": "datetime", "range": {"from": low, "to": high}}
    return json.dumps([days, {"name": "unit", "type": "unit", "units": "u0"}])


def _column(name: str, word: str) -> dict[str, object]:
    return {"columnName": name, "isNullable": True, "dataType": {"type": word}}


def _url(server: PostgresqlServer) -> str:
    return f"postgresql://admin:{quote(PASSWORD, safe='')}@127.0.0.1:{server.port}/postgres"


if __name__ == "__main__":
    names = [text for text in sys.argv[1:] if text != "--profile"]
    count = int(names.pop(0)) if names and names[0].isdecimal() else 200
    main(count, names, is_profiled="--profile" in sys.argv)
