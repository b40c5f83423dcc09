"""Spark jobs are cancelled when a signal comes or the run has no hope, and not before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import pytest

from dil.errors import ExecutionError, LeaseLostError, QuotaError, RunInterruptedError
from dil.execution.job_monitor import SparkJobMonitor
from dil.model.task import Failure, TaskReport

GOOD = TaskReport("s", 0, 1, 1)


class Jobs:
    """Stands for a SparkContext: notes which groups of jobs were made and cancelled.

    ``may_begin`` is asked at each cancelling whether another job may still begin.
    """

    def __init__(self) -> None:
        self.made: list[str] = []
        self.cancelled: list[str] = []
        self.may_begin: Callable[[], bool] = lambda: False
        self._jsc = SimpleNamespace(sc=lambda: self)

    def setJobGroup(self, group: str, *_: object, **__: object) -> None:  # noqa: N802 - Spark's
        self.made.append(group)

    def cancelJobGroupAndFutureJobs(self, group: str) -> None:  # noqa: N802 - Spark's
        assert not self.may_begin()
        self.cancelled.append(group)


def monitor(jobs: Jobs, watch: Any, reports: Sequence[TaskReport] = ()) -> SparkJobMonitor:
    shared: Any = SimpleNamespace(
        run=SimpleNamespace(run_id="r1", job=SimpleNamespace(name="orders")),
        ends_by_itself=lambda failure: failure.code == QuotaError.code,
        spent=lambda: Failure(QuotaError.code, "spent"),
    )
    return SparkJobMonitor(jobs, shared, watch, lambda: reports)


def test_jobs_that_come_to_their_end_are_left_alone() -> None:
    jobs = Jobs()
    seen = monitor(jobs, lambda _: None, [GOOD])
    seen.join_group()
    with seen.looking():
        pass
    assert seen.conclude(1) is None
    assert (jobs.made, jobs.cancelled) == (["dil r1"], [])


@pytest.mark.parametrize(
    "reason", [RunInterruptedError("stopped"), KeyboardInterrupt(), RuntimeError("no thread left")]
)
def test_a_signal_or_an_error_cancels_the_jobs_and_goes_on(reason: BaseException) -> None:
    jobs = Jobs()
    seen = monitor(jobs, lambda _: None)
    jobs.may_begin = lambda: not seen.is_over.is_set()
    with pytest.raises(type(reason)), seen.looking():
        raise reason
    assert jobs.cancelled == ["dil r1"]
    assert seen.is_over.is_set()


def test_a_signal_goes_on_though_nothing_can_be_cancelled_any_more() -> None:
    class Gone(Jobs):
        def cancelJobGroupAndFutureJobs(self, group: str) -> None:  # noqa: N802 - Spark's
            raise ConnectionRefusedError(group)

    with pytest.raises(KeyboardInterrupt), monitor(Gone(), lambda _: None).looking():
        raise KeyboardInterrupt


def test_a_signal_that_became_an_error_on_its_way_is_a_signal() -> None:
    def interrupted() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise ConnectionError("no answer")  # as where pyspark cleans up

    with pytest.raises(KeyboardInterrupt), monitor(Jobs(), lambda _: None).looking():
        interrupted()


def test_jobs_without_hope_are_cancelled_while_they_run() -> None:
    jobs = Jobs()
    lost = Failure(LeaseLostError.code, "lost")
    seen = monitor(jobs, lambda _: lost)
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

    seen = monitor(jobs, watch)
    with seen.looking():
        while len(looked) < 2:
            seen.is_over.wait(0.01)
    assert jobs.cancelled == []
    assert seen.stopped is not None


def test_the_first_reason_to_stop_stays_and_a_worse_one_cancels_the_jobs() -> None:
    jobs = Jobs()
    quota = Failure(QuotaError.code, "spent")
    found = iter([quota, None])
    seen = monitor(jobs, lambda _: next(found, Failure(LeaseLostError.code, "lost")))
    with seen.looking():
        assert seen.is_over.wait(30)
    assert seen.stopped == quota
    assert jobs.cancelled == ["dil r1"]


def test_a_watch_that_breaks_stops_the_run_and_is_told() -> None:
    def watch(_: Sequence[TaskReport]) -> None:
        raise OSError("no terminal")

    jobs = Jobs()
    seen = monitor(jobs, watch, [GOOD])
    with seen.looking():
        assert seen.is_over.wait(30)
    stopped = seen.conclude(2)
    assert stopped is not None
    assert stopped.code == ExecutionError.code
    assert "OSError: no terminal" in stopped.error
    assert jobs.cancelled == ["dil r1"]


def test_what_should_not_happen_is_a_reason_unless_there_is_one() -> None:
    seen = monitor(Jobs(), lambda _: None, [GOOD])
    seen.give_up(TypeError("no such thing"))
    seen.give_up(ValueError("another"))
    stopped = seen.conclude(2)
    assert stopped is not None
    assert stopped.code == ExecutionError.code
    assert "TypeError: no such thing" in stopped.error
    assert not seen.is_over.is_set()


def test_work_units_without_a_report_were_not_begun_for_a_reason() -> None:
    stopped = monitor(Jobs(), lambda _: None, [GOOD]).conclude(2)
    assert stopped == Failure(QuotaError.code, "spent")


def test_the_watch_has_the_context_of_the_run_so_that_its_log_lines_name_the_job() -> None:
    job: ContextVar[str] = ContextVar("job")
    job.set("orders")
    found: list[str] = []
    seen = monitor(Jobs(), lambda _: found.append(job.get("no job")))
    with seen.looking():
        while not found:
            pass
    assert set(found) == {"orders"}
