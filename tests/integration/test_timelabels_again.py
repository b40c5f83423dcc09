"""Labels that are read again: equal rows change nothing; databases know which times they hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dil import config
from dil.model.job import Job
from dil.model.json import JsonObject
from dil.model.report import RunReport, RunStatus
from dil.publishing.timeseries.access import open_access
from dil.publishing.timeseries.registry import LabelState
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.state import open_store
from dil.storage import LocalFilesystem
from tests.jobs import write_job
from tests.marks import some_long
from tests.servers.day_rows import DayRows
from tests.servers.rows import DAY_MS, START_MS
from tests.stories import executor
from tests.timeseries import (
    KINDS,
    is_native,
    label_of,
    label_warehouse,
    labels_of,
    require_whole,
)
from tests.warehouses import ENGINES, Warehouse, new_warehouse


class Days:
    """A job that loads each day of its source into a timeseries, and reads the last one again."""

    def __init__(self, folder: Path, source: DayRows, warehouse: Warehouse, **changes: str) -> None:
        self.warehouse = warehouse
        self.source = source
        facts = {
            "ms__warehouse__url": warehouse.url,
            "ms__warehouse__table__kind": "timeseries",
            "ms__timelabel__schedule": "@daily",
            "ms__timeseries__physical": "native" if is_native(warehouse) else "tables",
            "ms__grace__period__days": "1",
            "ms__watermark": '[{"name": "system", "type": "datetime", '
            '"range": {"from": "2020-01-01", "to": "P0D"}}]',
            "ms__parameters": '[{"name": "since", "type": "watermark", "value": "low"}]',
            "ms__session__key__field": "",
            "ms__output__schema": "",
        }
        path = write_job(folder, source.url, **{**facts, **changes})
        self.job: Job = config.load(path, environ={}).job

    def run(self, day: float) -> RunReport:
        """Run the job some days after the first one of its source began."""
        now = START_MS + int(day * DAY_MS)
        options = RunOptions(now_ms=now, clock=lambda: now, executor=executor())
        return run_job(self.job, options)

    def head(self) -> JsonObject | None:
        """Return the newest block of the chain."""
        with open_store(self.job.state, self.job.name, clock=lambda: 0) as store:
            return store.head()

    def known(self) -> list[tuple]:
        """Return all that is known of labels, and of commits."""
        prefix, rows = self.warehouse.prefix, self.warehouse.rows
        entries = rows(f"SELECT * FROM {prefix}timelabel_registry ORDER BY timelabel")
        return [*entries, *rows(f"SELECT * FROM {prefix}dil_commit ORDER BY run_id")]

    def attempts(self) -> list[int]:
        """Return how often each label was loaded."""
        name = f"{self.warehouse.prefix}timelabel_registry"
        found = self.warehouse.rows(f"SELECT attempt FROM {name} ORDER BY timelabel")
        return [row[0] for row in found]

    def ids(self) -> list[tuple]:
        """Return what the view shows."""
        view = f"{self.warehouse.prefix}orders_view"
        return self.warehouse.rows(f"SELECT _timelabel, id FROM {view} ORDER BY 1, 2")


def row(number: int, day: int = 0) -> dict[str, object]:
    return {"id": number, "unit": "a", "updated_ms": START_MS + day * DAY_MS, "amount": 1.5}


@pytest.fixture
def source() -> Iterator[DayRows]:
    with DayRows({START_MS + day * DAY_MS: [row(day), row(10 + day)] for day in range(4)}) as made:
        yield made


@pytest.fixture(params=some_long(KINDS, "duckdb"))
def warehouse(request, tmp_path):
    with label_warehouse(request.param, tmp_path, request) as made:
        yield made


def test_a_label_that_is_read_again_with_equal_rows_is_left_as_it_is(
    warehouse: Warehouse, source: DayRows, tmp_path: Path
) -> None:
    days = Days(tmp_path / "job", source, warehouse)
    days.run(2)
    known, head, shown = days.known(), days.head(), days.ids()

    again = days.run(2.5)

    assert again.status is RunStatus.SUCCESS
    assert f"1 timelabel, the newest {label_of(1)}" in "".join(again.notes)
    assert (days.known(), days.head(), days.ids()) == (known, head, shown)
    require_whole(warehouse)

    days.run(3)
    assert days.attempts() == [1, 1, 1]
    source.days[START_MS + 2 * DAY_MS] = [row(99, 2)]
    changed = days.run(3.5)
    assert days.attempts() == [1, 1, 2]
    assert changed.notes == ()
    assert days.ids() == [*shown, (label_of(2), 99)]
    require_whole(warehouse)


@pytest.mark.parametrize("warehouse", some_long(ENGINES, "duckdb"), indirect=True)
def test_a_label_with_one_changed_work_unit_keeps_the_rows_of_the_others(
    warehouse: Warehouse, source: DayRows, tmp_path: Path
) -> None:
    """Hours are read, and a day has the label."""
    hours = {START_MS + hour * DAY_MS // 24: [row(hour)] for hour in range(24)}
    source.days = hours
    changes = {
        "ms__work__unit__partition": "hourly",
        "ms__watermark": '[{"name": "system", "type": "datetime", '
        '"range": {"from": "2020-01-01", "to": "2020-01-02"}}]',
    }
    days = Days(tmp_path / "job", source, warehouse, **changes)
    days.run(1)
    source.days = {**hours, START_MS + 23 * DAY_MS // 24: [row(50)]}

    days.run(1.5)

    assert days.ids() == [(label_of(0), number) for number in (*range(23), 50)]
    assert days.attempts() == [2]
    require_whole(warehouse)


@pytest.mark.parametrize("warehouse", some_long(ENGINES, "duckdb"), indirect=True)
def test_labels_that_no_run_was_there_for_are_listed_as_skipped(
    warehouse: Warehouse, source: DayRows, tmp_path: Path
) -> None:
    changes = {"ms__timelabel__catchup": "false", "ms__grace__period__days": ""}
    days = Days(tmp_path / "job", source, warehouse, **changes)
    days.run(1)

    days.run(4)

    assert labels_of(warehouse) == {
        label_of(0): ("LOADED", 2),
        label_of(1): ("SKIPPED", 0),
        label_of(2): ("SKIPPED", 0),
        label_of(3): ("LOADED", 2),
    }
    require_whole(warehouse)


def test_an_operator_has_a_label_loaded_again_whatever_it_holds(
    source: DayRows, tmp_path: Path, request
) -> None:
    with new_warehouse("postgresql", tmp_path, request) as warehouse:
        days = Days(tmp_path / "job", source, warehouse)
        days.run(2)
        warehouse.execute(f"DELETE FROM shop._orders_{label_of(1)}")
        access = open_access(days.job.publishing, LocalFilesystem())
        access.set_state(frozenset({label_of(1)}), LabelState.REOPENED)

        assert days.run(2.5).notes == ()

        assert days.ids() == [
            (label_of(day), number) for day in (0, 1) for number in (day, 10 + day)
        ]
        assert days.attempts() == [1, 2]


def timed(kind: str) -> dict[str, str]:
    """Return the properties of rows whose column ``at`` holds times, by which they are labelled."""
    return {
        "ms__timelabel__column": "at",
        "ms__output__schema": json.dumps(
            [
                {"columnName": "id", "isNullable": True, "dataType": {"type": "long"}},
                {"columnName": "unit", "isNullable": True, "dataType": {"type": "string"}},
                {"columnName": "at", "isNullable": True, "dataType": {"type": kind}},
            ]
        ),
    }


@pytest.mark.parametrize("kind", ["timestamp", "date", "long"])
def test_postgresql_looks_only_into_labels_that_can_hold_the_times_asked_for(
    kind: str, tmp_path: Path, request
) -> None:
    def at(day: int, hour: int) -> object:
        if kind == "long":
            return START_MS + day * DAY_MS + hour * DAY_MS // 24
        return f"2020-01-{day + 1:02} {0 if kind == 'date' else hour:02}:00:00"

    rows = [{"id": 2 * day + late, "at": at(day, 23 * late)} for day in range(4) for late in (0, 1)]
    rows.append({"id": 100, "at": None})
    with (
        new_warehouse("postgresql", tmp_path, request) as warehouse,
        DayRows({START_MS: rows}) as source,
    ):
        days = Days(tmp_path / "job", source, warehouse, **timed(kind))
        assert days.run(1).status is RunStatus.SUCCESS
        last = f"'{at(2, 0)}'" if kind != "long" else at(2, 0)
        asked = f"FROM shop.orders_view WHERE at >= {last}"

        plan = "\n".join(line for (line,) in warehouse.rows(f"EXPLAIN SELECT id {asked}"))
        labels = [day for day in range(4) if f"_orders_{label_of(day)}" in plan]

        assert labels == [2, 3]
        assert warehouse.rows(f"SELECT id {asked} ORDER BY 1") == [(4,), (5,), (6,), (7,)]
        assert (label_of(0), 100) in days.ids()
        require_whole(warehouse)


def test_rows_that_lie_in_their_label_by_another_column_stay(
    source: DayRows, tmp_path: Path, request
) -> None:
    """Once labelled by one column, now by another: what was loaded is not refused for it."""
    changes = {"ms__work__unit__partition": "hourly", "ms__grace__period__days": "0",
               "ms__watermark": '[{"name": "system", "type": "datetime", '
               '"range": {"from": "2020-01-01", "to": "P0DT0H"}}]'}  # fmt: skip
    noon = START_MS + DAY_MS // 2
    source.days = {START_MS: [{**row(1, day=9), "made_ms": START_MS}]}
    with new_warehouse("postgresql", tmp_path, request) as warehouse:
        by_making = {**changes, "ms__timelabel__column": "made_ms"}
        Days(tmp_path / "job", source, warehouse, **by_making).run(0.5)
        source.days[noon] = [{**row(2), "made_ms": START_MS}]
        by_update = {**changes, "ms__timelabel__column": "updated_ms"}

        assert Days(tmp_path / "job", source, warehouse, **by_update).run(1).rows == 1

        days = Days(tmp_path / "job", source, warehouse, **by_update)
        assert days.ids() == [(label_of(0), 1), (label_of(0), 2)]
        require_whole(warehouse)
