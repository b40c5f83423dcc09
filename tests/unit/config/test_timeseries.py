"""Timeseries tables in a job file: what goes together, and what names can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from dil.config import load
from dil.errors import ConfigError
from dil.model.destination import TableKind
from dil.model.interval import DAY_MS
from dil.model.job import Job, PublishMode
from tests.jobs import write_job

SERIES = {
    "ms__warehouse__url": "postgresql://host/db",
    "ms__warehouse__table__kind": "timeseries",
    "ms__timelabel__schedule": "10 0 * * *",
}


def loaded(folder: Path, **changes: str) -> Job:
    given = {**SERIES, **changes}
    path = write_job(folder, "http://host", **{key: text for key, text in given.items() if text})
    return load(path, environ={}).job


def problem(folder: Path, **changes: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, **changes)
    (found,) = caught.value.problems
    return f"{found.key} {found.what}"


def test_a_timeseries_replaces_what_it_reads_again(tmp_path: Path) -> None:
    job = loaded(tmp_path, ms__timeseries__retention="P90D")

    warehouse = job.publishing.warehouse
    assert job.publishing.mode is PublishMode.WINDOW_REPLACE
    assert job.planning.read_from_partition_start
    assert warehouse.kind is TableKind.TIMESERIES
    assert warehouse.labels == job.planning.timelabel
    assert (warehouse.retention_ms, warehouse.max_partitions) == (90 * DAY_MS, 1000)
    assert not warehouse.keeps_readings


def test_labels_are_tables_unless_partitions_are_asked_for(tmp_path: Path) -> None:
    assert not loaded(tmp_path).publishing.warehouse.is_native
    assert loaded(tmp_path, ms__timeseries__physical="native").publishing.warehouse.is_native


@pytest.mark.parametrize("url", ["mysql://host/db", "duckdb:///w.db", "sqlite:///w.db"])
def test_only_postgresql_has_partitions_and_who_asks_elsewhere_is_told_the_line(
    tmp_path: Path, url: str
) -> None:
    path = write_job(
        tmp_path, "http://host", **{**SERIES, "ms__warehouse__url": url},
        ms__timeseries__physical="native",
    )  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        load(path, environ={})

    (found,) = caught.value.problems
    lines = path.read_text().splitlines()
    assert lines[found.origin.line - 1].startswith("ms.timeseries.physical=")
    assert (found.key, found.fix) == (
        "ms.timeseries.physical",
        "Set ms.timeseries.physical=tables.",
    )


def test_partitions_of_a_regular_table_have_no_effect(tmp_path: Path) -> None:
    path = write_job(
        tmp_path, "http://host", ms__warehouse__url="postgresql://host/db",
        ms__timeseries__physical="native",
    )  # fmt: skip
    (notice,) = load(path, environ={}).notices
    assert notice.key == "ms.timeseries.physical"
    assert "has no effect" in notice.what


def test_a_kind_of_table_has_no_effect_without_a_database(tmp_path: Path) -> None:
    path = write_job(tmp_path, "http://host", ms__warehouse__table__kind="timeseries")
    assert [each.key for each in load(path, environ={}).notices] == ["ms.warehouse.table.kind"]


def test_a_second_run_in_a_period_adds_its_rows_again_and_that_is_said(tmp_path: Path) -> None:
    timeless = {
        "ms__warehouse__url": "sqlite:///w.db",
        "ms__timelabel__schedule": "@daily",
        "ms__watermark": "",
        "ms__work__unit__partition": "none",
        "ms__parameters": "",
    }
    notices = load(write_job(tmp_path, "http://host", **timeless), environ={}).notices
    assert ["a second run in one period" in each.what for each in notices] == [True]
    asked = write_job(tmp_path, "http://host", **timeless, ms__publish__mode="append")
    assert load(asked, environ={}).notices == ()


def test_sqlite_reads_fewer_tables_in_a_view(tmp_path: Path) -> None:
    url = "sqlite:///w.db"
    assert loaded(tmp_path, ms__warehouse__url=url).publishing.warehouse.max_partitions == 400

    found = problem(tmp_path, ms__warehouse__url=url, ms__timeseries__max__partitions="501")
    assert found.startswith("ms.timeseries.max.partitions is 501")


def test_work_units_without_a_time_have_a_reading_of_each_run(tmp_path: Path) -> None:
    units = '[{"name": "unit", "type": "unit", "units": "a,b"}]'
    job = loaded(tmp_path, ms__watermark=units, ms__work__unit__partition="none", ms__parameters="")

    assert job.publishing.warehouse.keeps_readings


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ms__timelabel__schedule": ""}, 'ms.warehouse.table.kind is "timeseries", and the job'),
        ({"ms__warehouse__operation": "upsert"}, 'ms.warehouse.operation is "upsert"'),
        ({"ms__publish__mode": "append"}, 'ms.publish.mode is "append"'),
        ({"extract__table__name": "timelabel_registry"}, "extract.table.name is"),
        (
            {"ms__timeseries__physical": "native", "ms__warehouse__url": "mysql://host/db"},
            'ms.timeseries.physical is "native", and',
        ),
    ],
)
def test_what_contradicts_a_timeseries_is_refused(tmp_path: Path, changes, expected) -> None:
    changes = {**changes, "extract__primary__key__fields": "id"}
    assert problem(tmp_path, **changes).startswith(expected)


@pytest.mark.parametrize(
    ("url", "longest"), [("postgresql://host/db", "x" * 47), ("mysql://host/db", "x" * 48)]
)
def test_a_name_that_leaves_no_room_for_a_label_is_refused(tmp_path, url, longest) -> None:
    assert loaded(tmp_path, ms__warehouse__url=url, extract__table__name=longest)

    found = problem(tmp_path, ms__warehouse__url=url, extract__table__name=f"{longest}x")
    assert found.startswith("extract.table.name")
    assert "16 more" in found
