"""Drivers that sleep beyond their lease, and tasks whose results never reach their driver."""

from __future__ import annotations

import pytest

from dil.errors import LeaseLostError, StateError, WriteError
from dil.execution.executor import Execution
from dil.model.report import RunStatus
from dil.model.task import Failure, TaskReport
from tests.stories import Story, day, executor, ids_of

LEASE_MS = 120_000


class Sleeps:
    """Sleeps while another run does all the work; its own tasks run after that, or fail."""

    def __init__(self, story: Story, *, fails: bool) -> None:
        self._story = story
        self._fails = fails

    def execute(self, run, units, watch):
        self._story.clock += LEASE_MS
        assert self._story.run(run.run_now).status is RunStatus.SUCCESS
        if not self._fails:
            return executor().execute(run, units, watch)
        gone = Failure(WriteError.code, "the staging folder: No such file or directory")
        return Execution(tuple(TaskReport(u.signature, u.low, u.high, 1, failure=gone)
                               for u in units))  # fmt: skip


class Dies:
    """Runs all work units, and is gone before it says so."""

    def execute(self, run, units, watch):
        executor().execute(run, units, watch)
        raise StateError("the JVM is gone", "Look at its log.")


@pytest.mark.parametrize("fails", [True, False])
def test_a_driver_that_slept_beyond_its_lease_says_so_and_nothing_else(
    story: Story, *, fails: bool
) -> None:
    report = story.run(day(2), executor=Sleeps(story, fails=fails))

    assert report.status is RunStatus.FAILED
    assert [failure.code for failure in report.failures] == [LeaseLostError.code]
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_what_a_driver_staged_after_its_lease_was_lost_is_swept_by_the_next_run(
    story: Story,
) -> None:
    story.run(day(2), executor=Sleeps(story, fails=False))
    assert story.staged() != []

    story.run(day(2))
    assert story.staged() == []


def test_work_units_that_are_complete_count_though_nobody_received_their_results(
    story: Story,
) -> None:
    report = story.run(day(2), executor=Dies())

    assert report.status is RunStatus.FAILED
    assert (report.units.planned, report.units.succeeded, report.units.not_started) == (4, 4, 0)
    assert story.run(day(2)).units.adopted == 4


@pytest.mark.parametrize("error", [KeyboardInterrupt, StateError("the registry is away", "Wait.")])
def test_a_run_that_ends_right_after_it_took_the_lease_gives_it_back(
    story: Story, monkeypatch: pytest.MonkeyPatch, error: BaseException | type[BaseException]
) -> None:
    def ends(*_: object) -> None:
        raise error

    monkeypatch.setattr("dil.run.active_run.with_schedules", ends)
    with pytest.raises(error if isinstance(error, type) else type(error)):
        story.run(day(2))
    with story.store() as store:
        assert store.lease_holder() is None
