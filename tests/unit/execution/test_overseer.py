"""Spark jobs are cancelled when a signal comes or the run has no hope, and not before."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from dil.errors import LeaseLostError, QuotaError, RunInterruptedError
from dil.execution.overseer import Overseer
from dil.model.task import Failure, TaskReport

GOOD = TaskReport("s", 0, 1, 1)


class Jobs:
    """Stands for a SparkContext: notes which groups of jobs were made and cancelled."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.cancelled: list[str] = []

    def setJobGroup(self, group: str, *_: object, **__: object) -> None:  # noqa: N802 - Spark's
        self.made.append(group)

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802 - Spark's
        self.cancelled.append(group)


def overseer(jobs: Jobs, watch: Any, reports: Sequence[TaskReport] = ()) -> Overseer:
    shared: Any = SimpleNamespace(
        run=SimpleNamespace(run_id="r1", job=SimpleNamespace(name="orders")),
        ends_by_itself=lambda failure: failure.code == QuotaError.code,
        spent=lambda: Failure(QuotaError.code, "spent"),
    )
    return Overseer(jobs, shared, watch, lambda: reports)


def test_jobs_that_come_to_their_end_are_left_alone() -> None:
    jobs = Jobs()
    seen = overseer(jobs, lambda _: None, [GOOD])
    seen.take_in()
    with seen.looking():
        pass
    assert seen.conclude(1) is None
    assert (jobs.made, jobs.cancelled) == (["dil r1"], [])


@pytest.mark.parametrize("signal", [RunInterruptedError("stopped"), KeyboardInterrupt()])
def test_a_signal_cancels_the_jobs_and_goes_on(signal: BaseException) -> None:
    jobs = Jobs()
    seen = overseer(jobs, lambda _: None)
    with pytest.raises(type(signal)), seen.looking():
        raise signal
    assert jobs.cancelled == ["dil r1"]
    assert seen.is_over.is_set()


def test_jobs_without_hope_are_cancelled_while_they_run() -> None:
    jobs = Jobs()
    lost = Failure(LeaseLostError.code, "lost")
    seen = overseer(jobs, lambda _: lost)
    with seen.looking():
        assert seen.is_over.wait(30)
    assert seen.conclude(5) == lost
    assert jobs.cancelled == ["dil r1"]


def test_a_run_that_ends_by_itself_finishes_what_is_under_way() -> None:
    jobs = Jobs()
    looked = []

    def watch(reports: Sequence[TaskReport]) -> Failure:
        looked.append(reports)
        return Failure(QuotaError.code, "spent")

    seen = overseer(jobs, watch)
    with seen.looking():
        while len(looked) < 2:
            seen.is_over.wait(0.01)
    assert jobs.cancelled == []
    assert seen.stopped is not None


def test_work_units_without_a_report_were_not_begun_for_a_reason() -> None:
    stopped = overseer(Jobs(), lambda _: None, [GOOD]).conclude(2)
    assert stopped == Failure(QuotaError.code, "spent")
