"""Rows are not late because we read them late: dropping late rows loses none of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.execution.executor import Execution, Watch
from dil.model.report import RunStatus
from dil.model.task import RunContext
from dil.model.work_unit import WorkUnit
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from tests.closing_days import ClosingDays
from tests.event_feed import Crash
from tests.servers.day_rows import DayRows
from tests.servers.rows import DAY_MS, START_MS
from tests.stories import executor

HOUR_MS = 3_600_000


@pytest.fixture
def source() -> Iterator[DayRows]:
    with DayRows() as running:
        yield running


def row(day: int, hour: int = 5, *, id_: int) -> dict[str, object]:
    return {"id": id_, "at": START_MS + day * DAY_MS + hour * HOUR_MS}


def since(day: str) -> str:
    watermark = '[{"name": "system", "type": "datetime", "range": {"from": "%s", "to": "P0D"}}]'
    return watermark % day


def days_that_drop(folder: Path, source: DayRows, **changes: str) -> ClosingDays:
    """Return a daily job that drops late rows and has no grace period."""
    found: dict[str, str] = {
        "ms__timelabel__schedule": "",
        "ms__timelabel__close": "",
        "ms__late__after__close": "",
        "ms__event__column": "at",
        "ms__event__watermark": "bounded",
        "ms__event__delay": "PT1H",
        "ms__late__action": "drop",
        "ms__grace__period__days": "0",
        **changes,
    }
    return ClosingDays(folder, source, **found)


def put(source: DayRows, *days: int) -> None:
    for day in days:
        source.days[START_MS + day * DAY_MS] = [row(day, id_=day * 100)]


def test_a_day_that_failed_is_read_whole_after_a_later_one(source, tmp_path: Path) -> None:
    days = days_that_drop(tmp_path, source, job__commit__policy="successful", task__maxretries="0")
    put(source, 1)
    source.days[START_MS] = [{"id": 0, "at": "no time"}]
    assert days.run(2).status is RunStatus.PARTIAL
    put(source, 0)
    assert days.run(3).status is RunStatus.SUCCESS
    assert {0, 100} <= set(days.ids())


def test_days_that_an_earlier_from_adds_are_read_whole(source, tmp_path: Path) -> None:
    put(source, *range(5))
    days_that_drop(tmp_path, source, ms__watermark=since("2020-01-03")).run(4)
    days = days_that_drop(tmp_path, source, ms__watermark=since("2020-01-01"))
    days.run(5)
    assert days.ids() == [0, 100, 200, 300, 400]


def test_days_that_were_forgotten_are_read_again_as_they_were(source, tmp_path: Path) -> None:
    put(source, *range(3))
    days = days_that_drop(tmp_path, source, ms__publish__mode="window_replace")
    days.run(3)
    assert main(["state", "forget", str(days.path), "--all", "--keep-files", "--yes"]) == 0
    days.run(3)
    assert days.ids() == [0, 100, 200]


def test_a_dataset_that_is_replaced_as_a_whole_has_all_rows(source, tmp_path: Path) -> None:
    rows = [row(day, 12, id_=day * 100) for day in range(5)]
    for day in range(8):
        source.days[START_MS + day * DAY_MS] = rows[day : day + 3]
    days = days_that_drop(
        tmp_path,
        source,
        ms__publish__mode="replace",
        ms__grace__period__days="",
        ms__watermark=since("P3D"),
        ms__work__unit__partition="none",
    )
    for day in (3, 4, 5):
        days.run(day)
        assert days.ids() == [each["id"] for each in rows[day - 3 : day]]


class AllButFirst:
    """Runs all work units but the first, and dies."""

    def execute(self, context: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        executor().execute(context, units[1:], watch)
        raise Crash


def test_what_a_crashed_probe_read_is_read_again_where_the_next_run_would_not(
    source, tmp_path: Path
) -> None:
    days = days_that_drop(
        tmp_path,
        source,
        ms__event__watermark="none",
        ms__event__delay="",
        ms__late__action="",
        ms__grace__period__days="1",
        ms__grace__mode="auto",
        ms__grace__max="P2D",
        ms__grace__probe__every="3",
        ms__publish__mode="window_replace",
    )
    put(source, *range(8))
    days.run(1)
    days.run(2)
    now = START_MS + 3 * DAY_MS
    options = RunOptions(now_ms=now, clock=lambda: now, executor=AllButFirst())
    with pytest.raises(Crash):
        run_job(days.job, options)
    source.days[START_MS + 2 * DAY_MS].append(row(2, 6, id_=299))
    for day in (4, 5):
        days.run(day)
    assert 299 in days.ids()
