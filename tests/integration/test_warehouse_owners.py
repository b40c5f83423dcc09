"""Whose a table of a database is, and which rows of it a run may replace."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from dil.errors import ConfigError, WriteError
from dil.model.dataset import Owner
from dil.model.destination import MergeSpec
from dil.model.job import PublishMode
from dil.model.report import RunStatus
from dil.publishing.warehouse.dialect import Connection
from dil.publishing.warehouse.owners import Owners
from tests.integration.test_warehouse_jobs import ids, job_of_days, row, run
from tests.jobs import DAY_MS
from tests.marks import some_long
from tests.servers.day_rows import DayRows
from tests.servers.rows import START_MS
from tests.warehouses import ENGINES, Loads, Warehouse, new_warehouse

APPEND, REPLACE = PublishMode.APPEND, PublishMode.REPLACE
WINDOW_REPLACE, MERGE = PublishMode.WINDOW_REPLACE, PublishMode.MERGE
KEYS = {"extract__primary__key__fields": "id"}
MISSING = MergeSpec(("id",), deletes_missing=True)


@pytest.fixture(params=some_long(ENGINES, "duckdb"))
def warehouse(request, tmp_path):
    with new_warehouse(request.param, tmp_path, request) as made:
        yield made


@pytest.fixture
def sqlite(request, tmp_path):
    with new_warehouse("sqlite", tmp_path, request) as made:
        yield made


def test_a_job_that_loaded_before_reads_while_another_job_loads(sqlite, tmp_path: Path) -> None:
    loads = Loads(sqlite, tmp_path)
    claim(loads, APPEND, "orders")
    with sqlite.reader() as loading:
        loading.execute("BEGIN IMMEDIATE")
        claim(loads, APPEND, "orders")


def days_of(first: int) -> dict[int, list[dict[str, object]]]:
    return {START_MS + day * DAY_MS: [row(first + day, day)] for day in range(4)}


def claim(loads: Loads, mode: PublishMode, job: str, store: str = "/s") -> None:
    changed = replace(loads, mode=mode, merge=loads.merge or MergeSpec(("id",)))
    changed.destination.claim(Owner(job, store, mode))


def test_of_two_claims_at_one_moment_the_second_sees_the_first(
    sqlite: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = Loads(sqlite, tmp_path)
    known = Owners._known

    def overtaken(self: Owners, connection: Connection) -> object:
        found = known(self, connection)
        monkeypatch.setattr(Owners, "_known", known)
        claim(loads, APPEND, "first")
        return found

    monkeypatch.setattr(Owners, "_known", overtaken)
    with pytest.raises(ConfigError):
        claim(loads, REPLACE, "second")


@pytest.mark.parametrize(
    "changes",
    [
        {"ms__publish__mode": "replace"},
        {"ms__publish__mode": "window_replace"},
        {
            "ms__publish__mode": "window_replace",
            "ms__warehouse__table__kind": "timeseries",
            "ms__timelabel__schedule": "10 0 * * *",
        },
    ],
)
def test_a_table_takes_rows_of_one_job_wherever_the_other_stages_its_files(
    warehouse: Warehouse, tmp_path: Path, changes: dict[str, str]
) -> None:
    with DayRows(days_of(0)) as one, DayRows(days_of(100)) as two:
        mine = job_of_days(tmp_path / "a", one, warehouse, job__name="mine", **changes)
        others = job_of_days(tmp_path / "b", two, warehouse, job__name="others", **changes)
        run(mine, 2)
        with pytest.raises(ConfigError, match="belongs to job mine with its state in"):
            run(others, 2)
        assert run(mine, 3).status is RunStatus.SUCCESS
    table = "orders_view" if len(changes) > 1 else "orders"
    held = warehouse.rows(f"SELECT id FROM {warehouse.prefix}{table} ORDER BY 1")
    assert held == [(0,), (1,), (2,)]


def test_two_jobs_may_append_to_one_table_or_merge_into_it(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    loads = Loads(warehouse, tmp_path)
    claim(loads, APPEND, "a")
    claim(loads, MERGE, "b")
    claim(loads, MERGE, "b")
    claim(loads, APPEND, "c")
    count = f"SELECT COUNT(*) FROM {warehouse.prefix}dil_owner"
    assert warehouse.rows(count) == [(3,)]


@pytest.mark.parametrize(
    ("first", "second"), [(APPEND, REPLACE), (WINDOW_REPLACE, APPEND), (REPLACE, MERGE)]
)
def test_another_job_is_refused_where_one_of_them_replaces(
    sqlite: Warehouse, tmp_path: Path, first: PublishMode, second: PublishMode
) -> None:
    loads = Loads(sqlite, tmp_path)
    claim(loads, first, "a")
    with pytest.raises(ConfigError, match="belongs to job a") as caught:
        claim(loads, second, "b")
    sqlite.execute(caught.value.problems[0].fix.rpartition("gone: ")[2])
    claim(loads, second, "b")


def test_a_job_that_deletes_what_it_did_not_read_shares_its_table_with_none(
    sqlite: Warehouse, tmp_path: Path
) -> None:
    loads = Loads(sqlite, tmp_path)
    claim(loads, MERGE, "a")
    loads.merge = MISSING
    with pytest.raises(ConfigError, match="this job: merge that deletes missing rows"):
        claim(loads, MERGE, "b")


def test_the_last_claim_of_a_job_counts(sqlite: Warehouse, tmp_path: Path) -> None:
    loads = Loads(sqlite, tmp_path)
    for mode in (APPEND, REPLACE, APPEND):
        claim(loads, mode, "a")
    claim(loads, APPEND, "b")


def test_a_job_that_lost_its_state_does_not_load_everything_again(
    sqlite: Warehouse, tmp_path: Path
) -> None:
    loads = Loads(sqlite, tmp_path)
    claim(loads, APPEND, "a", "/s1")
    with pytest.raises(ConfigError, match="kept its watermarks in /s1"):
        claim(loads, APPEND, "a", "/s2")


def test_of_jobs_that_come_at_the_same_moment_one_gets_the_table(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    if warehouse.engine == "duckdb":
        pytest.skip("one process at a time holds the file of DuckDB")
    loads, refused = Loads(warehouse, tmp_path), []

    def come(job: str) -> None:
        try:
            claim(loads, REPLACE, job)
        except ConfigError:
            refused.append(job)

    jobs = [threading.Thread(target=come, args=(f"job-{number}",)) for number in range(4)]
    for each in jobs:
        each.start()
    for each in jobs:
        each.join()
    assert len(refused) == 3
    owners = warehouse.rows(f"SELECT job FROM {warehouse.prefix}dil_owner")
    assert [owner for (owner,) in owners] == sorted({f"job-{n}" for n in range(4)} - {*refused})


@pytest.mark.parametrize(
    ("warehouse", "changes"),
    [
        *some_long([(engine, {}) for engine in ENGINES], ("duckdb", {})),
        ("sqlite", {"ms__publish__mode": "replace"}),
        ("sqlite", {"ms__publish__mode": "merge", **KEYS}),
    ],
    indirect=["warehouse"],
)
def test_rows_that_do_not_tell_their_work_unit_are_not_replaced_by_a_second_copy(
    warehouse: Warehouse, tmp_path: Path, changes: dict[str, str]
) -> None:
    grace = {"ms__grace__period__days": "1"}
    replacing = {"ms.publish.mode": "window_replace", "extract.primary.key.fields": ""}
    with DayRows(days_of(0)) as source:
        job = job_of_days(tmp_path / "job", source, warehouse, **grace, **changes)
        run(job, 2)
        report = run(job, 3, **replacing)
        assert report.status is RunStatus.FAILED
        assert "are to be replaced were loaded under" in report.failures[0].error
        assert ids(warehouse) == [0, 1]
        # Without rows that are read again nothing is to be replaced.
        after = run(job, 5, **replacing, **{"ms.grace.period.days": "0"})
    assert after.status is RunStatus.SUCCESS
    assert ids(warehouse) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("engine", "only", "write"),
    [
        ("postgresql", "ALTER ROLE admin SET default_transaction_read_only = on",
         "BEGIN READ WRITE; ALTER ROLE admin RESET default_transaction_read_only; COMMIT"),
        ("mysql", "SET GLOBAL TRANSACTION READ ONLY", "SET GLOBAL TRANSACTION READ WRITE"),
    ],
    ids=["postgresql", "mysql"],
)  # fmt: skip
def test_a_server_that_accepts_no_writes_is_refused_before_anything_is_read(
    engine: str, only: str, write: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with new_warehouse(engine, tmp_path, request) as made:
        loads = Loads(made, tmp_path)
        claim(loads, APPEND, "orders")
        made.execute(only)
        try:
            with pytest.raises(WriteError) as caught:
                claim(loads, APPEND, "orders")
        finally:
            made.execute(write)
        claim(loads, APPEND, "orders")
        assert made.rows(f"SELECT job, number FROM {made.prefix}dil_owner") == [("orders", 1)]
    assert "primary" in caught.value.fix
