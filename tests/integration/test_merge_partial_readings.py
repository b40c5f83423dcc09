"""A merge deletes rows that are missing at the source, but none that a run did not look for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from dil import config
from dil.cli.main import main
from dil.model.report import RunStatus
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.run.plan_builder import plan_job
from tests.integration.merge_jobs import SNAPSHOT, Shop, declared
from tests.servers.day_rows import DayRows
from tests.stories import REAL_NOW, day, executor

WHOLE = {name.replace(".", "__"): value for name, value in SNAPSHOT.items()}
UNTIL = [{"name": "since", "type": "watermark", "value": "high"}]
BY_DAY = {**WHOLE, "ms__work__unit__partition": "daily", "ms__parameters": json.dumps(UNTIL)}
FIRST_DAY = SNAPSHOT["ms.watermark"].replace("P0D", "2020-01-02")
BY_SHOP = [{"name": "since", "type": "list", "value": "{{shop}}"}]


def rows(*numbers: int, at: int = 1) -> list[dict[str, int]]:
    return [{"id": number, "at": at} for number in numbers]


def of_shops(names: str) -> str:
    """Return a watermark of units; the source has the rows of a shop under its number."""
    shops = {"name": "shop", "type": "unit", "units": names}
    return json.dumps([*json.loads(SNAPSHOT["ms.watermark"]), shops])


SHOPS = {**WHOLE, "ms__watermark": of_shops("1,2"), "ms__parameters": json.dumps(BY_SHOP)}


@pytest.fixture
def source() -> Iterator[DayRows]:
    """Yield a source whose second day, and second shop, has so few rows that they may all go."""
    days = {day(1): rows(*range(20)), day(2): rows(20)}
    shops = {1: rows(*range(20)), 2: rows(20)}
    with DayRows(days | shops) as running:
        yield running


@pytest.fixture
def shop(tmp_path: Path, source: DayRows) -> Shop:
    return Shop(tmp_path / "job", source)


def ids(shop: Shop) -> list[int]:
    return [row["id"] for row in shop.rows()]


def test_a_run_that_leaves_work_units_to_the_next_run_deletes_none_of_their_rows(
    shop: Shop,
) -> None:
    shop.run(2, **BY_DAY)
    shutil.rmtree(shop.folder / "state")

    report = shop.run(2, **BY_DAY, ms__work__unit__parallelism__max="1")

    assert (report.status, report.left) == (RunStatus.SUCCESS, 1)
    assert ids(shop) == [*range(21)]


def test_a_run_after_a_forget_deletes_no_rows_of_work_units_that_stay_committed(
    shop: Shop,
) -> None:
    shop.run(2, **BY_DAY)
    forget = ["state", "forget", str(shop.conf(**BY_DAY)), "--to", "2020-01-02", "--yes"]
    assert main(forget) == 0
    shop.source.days[day(1)] = rows(*range(19))

    report = shop.run(2, **BY_DAY)

    assert (report.status, report.units.succeeded) == (RunStatus.SUCCESS, 1)
    assert ids(shop) == [*range(21)]


def test_a_backfill_deletes_no_rows_of_work_units_that_it_does_not_read(shop: Shop) -> None:
    shop.run(2, **BY_DAY)

    report = shop.run(2, **{**BY_DAY, "ms__watermark": FIRST_DAY}, ms__backfill="true")

    assert (report.status, report.units.succeeded) == (RunStatus.SUCCESS, 1)
    assert ids(shop) == [*range(21)]


def test_a_backfill_of_all_that_was_read_deletes_missing_rows(shop: Shop) -> None:
    shop.run(2, **BY_DAY)
    shop.source.days[day(2)] = []

    shop.run(2, **BY_DAY, ms__backfill="true")

    assert ids(shop) == [*range(20)]


@pytest.mark.parametrize("keeps_state", ["true", "false"])
def test_a_run_that_is_asked_for_fewer_units_deletes_no_rows_of_the_others(
    shop: Shop, keeps_state: str
) -> None:
    given = {**SHOPS, "state__store__enabled": keeps_state}
    shop.run(1, **given)

    report = shop.run(2, {"ms.watermark": of_shops("1")}, **given)

    assert (report.status, report.units.succeeded) == (RunStatus.SUCCESS, 1)
    assert ids(shop) == [*range(21)]


def test_a_run_that_is_asked_for_all_units_deletes_missing_rows(shop: Shop) -> None:
    """Schedulers give each run its watermark by -D."""
    shop.run(1, **SHOPS)
    shop.source.days[2] = []

    shop.run(2, {"ms.watermark": of_shops("1,2")}, **SHOPS)

    assert ids(shop) == [*range(20)]


@pytest.mark.parametrize("forgotten", [["--all"], ["--unit", '{"shop": "2"}']])
def test_a_run_that_is_asked_for_fewer_units_deletes_no_rows_of_forgotten_ones(
    shop: Shop, forgotten: list[str]
) -> None:
    shop.run(1, **SHOPS)
    assert main(["state", "forget", str(shop.conf(**SHOPS)), *forgotten, "--yes"]) == 0

    for days in (2, 3):
        shop.run(days, {"ms.watermark": of_shops("1")}, **SHOPS)
        assert ids(shop) == [*range(21)]
    shop.source.days[2] = []
    shop.run(4, {"ms.watermark": of_shops("1,2")}, **SHOPS)
    assert ids(shop) == [*range(20)]


def test_a_run_of_an_approved_plan_deletes_no_missing_rows(shop: Shop) -> None:
    shop.run(1, **SHOPS)
    shop.source.days[2] = []
    job = config.load(shop.conf(**SHOPS), environ={}).job
    plan = plan_job(job, now_ms=day(2))
    options = RunOptions(now_ms=day(2), clock=lambda: REAL_NOW, executor=executor(), plan=plan)

    assert run_job(job, options).status is RunStatus.SUCCESS

    assert ids(shop) == [*range(21)]


def test_a_run_in_which_a_work_unit_failed_deletes_none_of_its_rows(shop: Shop) -> None:
    shop.run(1, **SHOPS)
    shop.source.days[2] = [{"id": "no number", "at": 1}]

    report = shop.run(
        2,
        **SHOPS,
        job__commit__policy="successful",
        ms__output__schema=declared(id="long", at="long"),
    )

    assert (report.status, report.units.failed) == (RunStatus.PARTIAL, 1)
    assert ids(shop) == [*range(21)]


def test_a_run_that_publishes_late_rows_beside_the_dataset_deletes_no_missing_rows(
    shop: Shop,
) -> None:
    """A row that another shop has by now is late there: its key is unknown to the merge."""
    late = {
        "ms__event__column": "at",
        "ms__event__watermark": "bounded",
        "ms__event__delay": "PT1M",
        "ms__late__action": "side_table",
    }
    shop.source.days |= {1: rows(*range(20), at=day(1)), 2: rows(20, at=day(1))}
    shop.run(1, **SHOPS, **late)
    shop.source.days[3] = rows(20, at=day(0))

    report = shop.run(2, **{**SHOPS, "ms__watermark": of_shops("1,3")}, **late)

    assert (report.status, report.rows_beside) == (RunStatus.SUCCESS, 1)
    assert ids(shop) == [*range(21)]
