"""Which reopened timelabels a run has read again: they are closed once they are complete."""

from __future__ import annotations

import pytest

from dil.cli.main import main
from dil.run.options import RunOptions
from dil.state import open_store
from tests.backfills import Backfills
from tests.closing_days import ClosingDays, label
from tests.servers.day_rows import DayRows
from tests.servers.rows import DAY_MS, START_MS
from tests.stories import executor


@pytest.fixture
def source():
    with DayRows() as running:
        yield running


def reopen(days, number):
    assert main(["timelabels", "reopen", str(days.path), label(number), "--yes"]) == 0


def forget(days, *words):
    assert main(["state", "forget", str(days.path), *words, "--keep-files", "--yes"]) == 0


def test_a_label_without_rows_is_closed_when_it_was_read(tmp_path, source):
    days = ClosingDays(tmp_path, source)
    days.fill(1, 2, 3)
    days.run(2)
    reopen(days, 0)
    days.run(3)
    assert days.closed(4) == [1, 2]

    forget(days, "--to", "2020-01-01T12:00:00Z")
    days.run(4)
    assert days.closed(4) == [0, 1, 2, 3]
    assert days.problems() == ()


@pytest.mark.parametrize("partition", ["", "monthly"])
def test_a_work_unit_that_goes_on_behind_a_label_does_not_close_it(tmp_path, source, partition):
    """The rows that an operator wants to read again would go beside the dataset."""
    days = ClosingDays(
        tmp_path, source,
        ms__work__unit__partition=partition, ms__work__unit__partial__partition="true",
        ms__timelabel__column="at", ms__publish__mode="append",
    )  # fmt: skip
    source.days[START_MS] = [{"id": 1, "at": START_MS}]
    days.run(2)
    reopen(days, 0)
    reopen(days, 1)
    days.run(3)
    assert days.closed(4) == [2]

    forget(days, "--all")
    days.run(4)
    assert days.closed(4) == [0, 1, 2, 3]
    assert days.problems() == ()


class Days:
    """The job of the days as backfills see it, at the end of a day."""

    def __init__(self, days, day):
        self.days, self.clock = days, START_MS + day * DAY_MS

    def job(self):
        return self.days.job

    def store(self):
        return open_store(self.days.job.state, "orders", clock=lambda: self.clock)

    def options(self, now_ms):
        return RunOptions(now_ms=now_ms, clock=lambda: self.clock, executor=executor())


def test_a_label_is_closed_when_a_backfill_found_no_rows_for_it(tmp_path, source):
    days = ClosingDays(tmp_path, source)
    days.fill(1, 2)
    days.run(3)
    reopen(days, 0)
    backfills = Backfills(Days(days, 3), 3)

    backfills.publish(backfills.take(range(1)))

    assert days.closed(3) == [0, 1, 2]
    assert days.problems() == ()
