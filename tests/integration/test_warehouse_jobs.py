"""Jobs that load databases, from the job file to the table."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from dil import config
from dil.cli.main import main
from dil.errors import StateError
from dil.model.report import MergedRows, RunReport, RunStatus
from dil.observe.report import report_text
from dil.publishing.warehouse import sqlite
from dil.publishing.warehouse.sqlite import SqliteDialect
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.storage.local import LocalFilesystem
from dil.testing.in_process import InProcessExecutor
from dil.text.warehouse_url import read_warehouse_url
from tests.integration.dil_processes import dil
from tests.jobs import DAY_MS, ROOT, write_job
from tests.marks import some_long
from tests.servers.day_rows import DayRows
from tests.servers.rows import START_MS
from tests.stories import executor
from tests.warehouses import ENGINES, Warehouse, new_warehouse

EXAMPLES = ROOT / "conf/examples"
NOON = 1_714_780_800_000 + DAY_MS // 2  # 2024-05-04T12:00:00Z


@pytest.fixture(params=ENGINES)
def warehouse(request, tmp_path):
    with new_warehouse(request.param, tmp_path, request) as made:
        yield made


def run(job: Path, day: int, **moved: str) -> RunReport:
    """Run a job at the beginning of a day of its source."""
    now = START_MS + day * DAY_MS
    options = RunOptions(now_ms=now, clock=lambda: now, executor=executor())
    return run_job(config.load(job, environ={}, overrides=moved).job, options)


def row(number: int, day: int, amount: object = 1.5) -> dict[str, object]:
    return {"id": number, "unit": "a", "updated_ms": START_MS + day * DAY_MS, "amount": amount}


def job_of_days(folder: Path, source: DayRows, warehouse: Warehouse, **changes: str) -> Path:
    facts = {
        "ms__warehouse__url": warehouse.url,
        "ms__watermark": '[{"name": "system", "type": "datetime", '
        '"range": {"from": "2020-01-01", "to": "P0D"}}]',
        "ms__parameters": '[{"name": "since", "type": "watermark", "value": "low"}]',
        "ms__session__key__field": "",
        "ms__output__schema": "",
    }
    return write_job(folder, source.url, **{**facts, **changes})


def ids(warehouse: Warehouse) -> list[int]:
    return [row[0] for row in warehouse.rows(f"SELECT id FROM {warehouse.prefix}orders ORDER BY 1")]


def test_each_row_of_each_day_is_loaded_once(warehouse: Warehouse, tmp_path: Path) -> None:
    days = {START_MS + day * DAY_MS: [row(day, day), row(100 + day, day)] for day in range(4)}
    with DayRows(days) as source:
        job = job_of_days(tmp_path / "job", source, warehouse)
        first, second, third = run(job, 2), run(job, 4), run(job, 4)
    assert (first.rows, second.rows, third.status) == (4, 4, RunStatus.NOTHING_DUE)
    assert ids(warehouse) == [0, 1, 2, 3, 100, 101, 102, 103]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets 1 for each connection to SQLite, and -1 when it is closed."""
    found: list[int] = []
    connect, close = SqliteDialect.connect, sqlite._Connection.close

    def connected(dialect):
        found.append(1)
        return connect(dialect)

    def closed(connection):
        found.append(-1)
        close(connection)

    monkeypatch.setattr(SqliteDialect, "connect", connected)
    monkeypatch.setattr(sqlite._Connection, "close", closed)
    return found


def test_a_run_connects_once_for_each_step_and_never_while_work_units_run(
    opened: list[int], tmp_path: Path, request, monkeypatch
) -> None:
    during: list[tuple[int, int]] = []
    execute = InProcessExecutor.execute

    def executed(*given):
        during.append((len(opened), sum(opened)))
        return execute(*given)

    monkeypatch.setattr(InProcessExecutor, "execute", executed)
    days = {START_MS + day * DAY_MS: [row(day, day)] for day in range(2)}
    with (
        new_warehouse("sqlite", tmp_path, request) as warehouse,
        DayRows(days) as source,
    ):
        keys = {"ms__warehouse__operation": "upsert", "extract__primary__key__fields": "id"}
        job = job_of_days(tmp_path / "job", source, warehouse, **keys)
        for day in (1, 2):
            assert run(job, day).rows == 1
            # One for the claim before the tasks; then one to look at the table, one to load it.
            assert (during, opened) == ([(2, 0)], [1, -1] * 3)
            during.clear()
            opened.clear()
        assert run(job, 2).status is RunStatus.NOTHING_DUE
        assert (during, opened) == ([], [1, -1])


def test_no_connection_is_open_while_a_run_lists_folders_or_moves_files(
    opened: list[int], tmp_path: Path, request, monkeypatch
) -> None:
    during: dict[str, int] = {}

    def watch(name: str) -> None:
        real = getattr(LocalFilesystem, name)

        def watched(*given, **facts):
            during[name] = max(during.get(name, 0), sum(opened))
            return real(*given, **facts)

        monkeypatch.setattr(LocalFilesystem, name, watched)

    watch("folders")
    watch("move")
    days = {START_MS: [row(0, 0)], START_MS + DAY_MS: [row(1, 1), {**row(2, 1), "new": 1}]}
    facts = {"ms__warehouse__operation": "replace", "ms__schema__contract": "discard_row"}
    with (
        new_warehouse("sqlite", tmp_path, request) as warehouse,
        DayRows(days) as source,
    ):
        job = job_of_days(tmp_path / "job", source, warehouse, **facts)
        run(job, 1)
        assert run(job, 2).aside.rows == 1
    assert during == {"folders": 0, "move": 0}


@pytest.mark.parametrize("operation", ["insert", "upsert", "replace"])
def test_a_run_is_refused_if_the_database_lacks_its_last_load(
    operation: str, tmp_path: Path, request, capsys
) -> None:
    days = {START_MS + day * DAY_MS: [row(day, day)] for day in range(4)}
    keys = {"extract__primary__key__fields": "id", "ms__warehouse__operation": operation}
    with new_warehouse("sqlite", tmp_path, request) as warehouse, DayRows(days) as source:
        job = job_of_days(tmp_path / "job", source, warehouse, **keys)
        run(job, 2)
        backup = warehouse.path.read_bytes()
        run(job, 4)
        assert main(["state", "verify", str(job)]) == 0
        warehouse.path.write_bytes(backup)
        capsys.readouterr()
        assert main(["state", "verify", str(job), "--json"]) == 1
        (problem,) = json.loads(capsys.readouterr().out)["problems"]
        assert problem.startswith("V20: ")
        for due in () if operation == "replace" else (4, 5):  # a replace reads everything again
            with pytest.raises(StateError):
                run(job, due)
        if operation == "insert":  # rows that are there would come twice
            assert main(["state", "forget", str(job), "--all", "--yes"]) == 2
        again = ["--from", "2020-01-03", "--yes"]
        assert main(["state", "forget", str(job), *again]) == 0
        run(job, 4)
        assert ids(warehouse) == [0, 1, 2, 3]
        assert main(["state", "relist", str(job), "--yes"]) == 0
        assert main(["state", "verify", str(job)]) == 0
        run(job, 4)
        assert ids(warehouse) == [0, 1, 2, 3]


def test_the_state_fits_a_table_that_was_emptied_for_another_mode(tmp_path: Path, request) -> None:
    days = {START_MS + day * DAY_MS: [row(day, day)] for day in range(2)}
    with new_warehouse("sqlite", tmp_path, request) as warehouse, DayRows(days) as source:
        job = job_of_days(tmp_path / "job", source, warehouse)
        run(job, 1)
        with job.open("a") as file:
            file.write("\nms.publish.mode=window_replace\nms.grace.period.days=1\n")
        (failure,) = run(job, 2).failures
        (forget,) = re.findall("DELETE FROM dil_part WHERE dataset = '\\w+'", failure.error)
        warehouse.execute("DELETE FROM orders")
        warehouse.execute(forget)
        for act in re.findall("dil state (.+?) JOB.conf( --all)?", failure.error):
            assert main(["state", act[0], str(job), *act[1].split(), "--yes"]) == 0
        run(job, 2)
        assert ids(warehouse) == [0, 1]
        assert main(["state", "verify", str(job)]) == 0


def test_rows_that_an_operator_lets_be_read_again_are_decided_about(
    tmp_path: Path, request
) -> None:
    days = {START_MS: [row(1, 0)]}
    with (
        new_warehouse("sqlite", tmp_path, request) as warehouse,
        DayRows(days) as source,
    ):
        job = job_of_days(tmp_path / "job", source, warehouse)
        assert run(job, 1).rows == 1
        for words, code, told in (
            ((), 2, "would publish these rows a second time"),
            (("--withdraw-files",), 1, "cannot be withdrawn from there"),
        ):
            done = dil("state", "forget", str(job), "--all", "--yes", *words)
            assert done.returncode == code, done.stderr
            assert told in " ".join(done.stderr.split())
        assert run(job, 1).status is RunStatus.NOTHING_DUE
        assert ids(warehouse) == [1]


@pytest.mark.parametrize("warehouse", some_long(ENGINES, "duckdb"), indirect=True)
def test_a_replace_whose_reading_fails_leaves_the_table_as_it_was(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    with DayRows({START_MS: [row(1, 0)]}) as source:
        job = job_of_days(tmp_path / "job", source, warehouse, ms__warehouse__operation="replace")
        assert run(job, 1).rows == 1
        failed = run(job, 2, **{"ms.source.uri": f"{source.url}/records?since=none"})
        assert failed.status is RunStatus.FAILED
        assert ids(warehouse) == [1]
        source.days = {START_MS: [row(2, 0)], START_MS + DAY_MS: [row(3, 1)]}
        assert run(job, 2).rows == 2
        assert ids(warehouse) == [2, 3]
        source.days = {}
        assert run(job, 2).status is RunStatus.SUCCESS
        assert ids(warehouse) == []


@pytest.mark.parametrize("warehouse", some_long(ENGINES, "duckdb"), indirect=True)
def test_an_upsert_tells_how_many_rows_it_inserted_updated_and_deleted(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    upsert = {
        "ms__warehouse__operation": "upsert",
        "extract__primary__key__fields": "id",
        "extract__delta__fields": "updated_ms",
        "ms__merge__op__field": "op",
    }
    first = [{**row(number, 0), "op": "u"} for number in (1, 2, 3)]
    with DayRows({START_MS: first}) as source:
        job = job_of_days(tmp_path / "job", source, warehouse, **upsert)
        assert run(job, 1).merged == MergedRows(inserted=3)
        source.days[START_MS + DAY_MS] = [
            {**row(2, 1), "op": "u"},
            {**row(3, -1), "op": "u"},
            {**row(1, 1), "op": "d"},
            {**row(7, 1), "op": "d"},
            {**row(4, 1), "op": "u"},
        ]
        second = run(job, 2)
        assert second.merged == MergedRows(inserted=1, updated=1, deleted=1)
        assert ids(warehouse) == [2, 3, 4]
        run(job, 2, **{"ms.warehouse.operation": "replace"})
        assert ids(warehouse) == [2, 3, 4], "all versions were read, and each key has one row"
    shown = report_text(second)
    assert "  merged      1 inserted, 1 updated, 1 deleted\n" in shown
    assert f"orders in {second.database}\n" in shown
    assert second.database.startswith(f"{read_warehouse_url(warehouse.url).engine}://")
    assert "password" not in second.database


@pytest.mark.parametrize("warehouse", some_long(ENGINES, "duckdb"), indirect=True)
def test_an_upsert_counts_the_rows_that_the_source_has_no_more(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    upsert = {
        "ms__warehouse__operation": "upsert",
        "extract__primary__key__fields": "id",
        "ms__merge__delete__missing": "true",
        "ms__merge__delete__limit__percent": "100",
        "ms__work__unit__partition": "none",
        "ms__parameters": '[{"name": "since", "type": "primitive", "value": "0"}]',
    }
    with DayRows({0: [row(1, 0), row(2, 0), row(3, 0)]}) as source:
        job = job_of_days(tmp_path / "job", source, warehouse, **upsert)
        assert run(job, 1).merged == MergedRows(inserted=3)
        source.days[0] = [row(3, 1), row(4, 1)]
        assert run(job, 2).merged == MergedRows(inserted=1, updated=1, deleted=2)
        assert ids(warehouse) == [3, 4]


def test_a_window_that_has_no_rows_any_more_is_emptied(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    days = {START_MS + day * DAY_MS: [row(day, day)] for day in range(3)}
    changes = {"ms__publish__mode": "window_replace", "ms__grace__period__days": "1"}
    with DayRows(days) as source:
        job = job_of_days(tmp_path / "job", source, warehouse, **changes)
        run(job, 2)
        source.days[START_MS + DAY_MS] = []
        run(job, 3)
    assert ids(warehouse) == [0, 2]


def test_columns_that_do_not_fit_fail_the_run_and_not_the_next_one(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    """A table of others has a column of another type; once it is another one, the job goes on."""
    prefix = warehouse.prefix
    if prefix:
        warehouse.execute(f"CREATE SCHEMA {warehouse.schema}")
    warehouse.execute(f"CREATE TABLE {prefix}orders (id DATE)")
    with DayRows({START_MS: [row(1, 0)]}) as source:
        job = job_of_days(tmp_path / "job", source, warehouse)
        failed = run(job, 1)
        assert failed.status is RunStatus.FAILED
        assert "column id of the table orders has the type" in failed.failures[0].error
        warehouse.execute(f"DROP TABLE {prefix}orders")
        done = run(job, 1)
    assert (done.status, done.recovered) == (RunStatus.SUCCESS, ())
    assert ids(warehouse) == [1]


def test_the_example_upserts_each_order_once(tmp_path: Path) -> None:
    make = runpy.run_path(str(EXAMPLES / "database/make_database.py"))["make"]
    make(tmp_path / "orders.duckdb")
    moved = {
        "ms.warehouse.url": f"duckdb:///{tmp_path}/warehouse.duckdb",
        "ms.source.uri": f"jdbc:duckdb:{tmp_path}/orders.duckdb",
        "data.publisher.final.dir": str(tmp_path / "lake"),
        "state.store.dir": str(tmp_path / "state"),
    }
    job = config.load(EXAMPLES / "warehouse/orders.conf", environ={}, overrides=moved).job
    for now in (NOON - DAY_MS, NOON):
        report = run_job(job, RunOptions(now_ms=now, clock=lambda: NOON, executor=executor()))
        assert report.status is RunStatus.SUCCESS
    warehouse = Warehouse("duckdb", "", "demo", tmp_path / "warehouse.duckdb")
    found = warehouse.rows("SELECT COUNT(*), COUNT(DISTINCT id), MIN(id), MAX(id) FROM demo.orders")
    assert found == [(3000, 3000, 0, 2999)]
    assert warehouse.columns("orders")["amount"] == "DECIMAL(12,2)"


def test_checking_and_planning_load_no_driver_and_no_arrow(tmp_path: Path) -> None:
    job = write_job(tmp_path, "http://x", ms__warehouse__url="duckdb:///w.duckdb")
    code = (
        "import sys; from dil.cli.main import main\n"
        "for verb in ('validate', 'plan'):\n"
        "    try: main([verb, sys.argv[1], '--now', '2020-01-02T00:00:00Z'])\n"
        "    except SystemExit as end: assert not end.code, end.code\n"
        "assert not {'duckdb', 'pyarrow', 'sqlalchemy'} & set(sys.modules)\n"
    )
    done = [sys.executable, "-c", code, str(job)]
    subprocess.run(done, check=True, cwd=ROOT, stdout=subprocess.PIPE)


@pytest.mark.parametrize("warehouse", some_long(ENGINES, "duckdb"), indirect=True)
def test_each_label_keeps_the_newest_reading_of_a_source_without_times(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    """Stock levels, a reading a day: a second run of a day takes the place of its first."""
    changes = {
        "ms__publish__mode": "window_replace",
        "ms__timelabel__schedule": "@daily",
        "ms__watermark": "",
        "ms__work__unit__partition": "none",
        "ms__parameters": '[{"name": "since", "type": "primitive", "value": "0"}]',
    }
    with DayRows({0: [row(1, 0)]}) as source:
        job = job_of_days(tmp_path / "job", source, warehouse, **changes)
        run(job, 1)
        source.days[0] = [row(2, 0), row(3, 0)]
        run(job, 2)
        source.days[0] = [row(3, 0), row(4, 0)]
        again = config.load(job, environ={}).job
        later = START_MS + 2 * DAY_MS + DAY_MS // 2
        run_job(again, RunOptions(now_ms=later, clock=lambda: later, executor=executor()))

    held = warehouse.rows(f"SELECT _timelabel, id FROM {warehouse.prefix}orders ORDER BY 1, 2")
    assert held == [("20200101000000", 1), ("20200102000000", 3), ("20200102000000", 4)]
    labels = warehouse.rows(f"SELECT timelabel FROM {warehouse.prefix}dil_part ORDER BY 1")
    assert labels == [("20200101000000",), ("20200102000000",)]
