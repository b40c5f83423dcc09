"""What the next run makes of a run that failed, crashed, was stopped, or lost its lease."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from dil.errors import RunInterruptedError, StateError, WriteError
from dil.execution.executor import Execution, Executor, Watch
from dil.model.report import RunStatus, UnitCounts
from dil.model.task import RunContext
from dil.model.work_unit import WorkUnit
from dil.observe.progress import SilentProgress
from dil.publishing.layout import sending_dir
from dil.publishing.start_marker import MarkState, StartMark
from dil.run.job_run import run_job
from dil.state import open_store
from dil.storage import Filesystem
from tests.jobs import dataset, visible_files
from tests.servers.rows import generated_row
from tests.servers.waiting import wait_until
from tests.stories import (
    REAL_NOW,
    Story,
    day,
    executor,
    failing,
    ids_of,
    snapshot,
    work_unit,
)

SUCCESSFUL = {"job__commit__policy": "successful"}
HOUR_MS = 3_600_000


class Crash(BaseException):
    """The driver is gone: no code of ours sees this."""


class EndingExecutor:
    """Runs some work units, then ends the run with an exception."""

    def __init__(self, after: int, error: BaseException) -> None:
        self._after = after
        self._error = error

    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        executor().execute(run, units[: self._after], watch)
        raise self._error


def crash(story: Story, now: int, *, after: int, **changes: str) -> None:
    with pytest.raises(Crash):
        story.run(now, story.job(**changes), executor=EndingExecutor(after, Crash()))


# Adoption, under all or nothing


def test_after_a_failed_run_only_what_failed_is_fetched_again(story: Story) -> None:
    story.source.faults.append(failing(1, "b", at=(1,)))
    story.run(day(2))
    staged = {path.stat().st_ino for path in story.staged() if path.suffix == ".parquet"}
    assert story.source.count("/records") == 4

    report = story.run(day(2))

    assert story.source.count("/records") == 5
    assert report.units == UnitCounts(planned=4, succeeded=1, adopted=3)
    assert (report.status, report.rows, len(report.files)) == (RunStatus.SUCCESS, 16, 4)
    assert story.rows() == ids_of("a", "b", days=range(2))
    # The very files that the failed run staged, moved and not copied.
    assert staged <= {path.stat().st_ino for path in visible_files(story.folder)}
    assert all("part-run-2-" in path.name for path in visible_files(story.folder))
    assert story.staged() == []


def test_what_two_failed_runs_completed_is_adopted_by_the_third(story: Story) -> None:
    story.source.faults.extend([failing(0, "b", at=(1, 2)), failing(1, "b", at=(1,))])
    story.run(day(2))
    second = story.run(day(2))
    assert second.units == UnitCounts(planned=4, succeeded=1, failed=1, adopted=2)

    third = story.run(day(2))

    assert third.units == UnitCounts(planned=4, succeeded=1, adopted=3)
    assert story.source.count("/records") == 4 + 2 + 1
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_after_a_crash_completed_work_units_are_not_fetched_again(story: Story) -> None:
    crash(story, day(2), after=3)
    assert story.runs()["run-1"].status == "running"
    assert visible_files(story.folder) == []

    report = story.run(day(2))

    assert story.source.count("/records") == 4
    assert report.units == UnitCounts(planned=4, succeeded=1, adopted=3)
    assert report.recovered == ()
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_a_run_that_adopts_everything_starts_no_executor(story: Story) -> None:
    crash(story, day(2), after=4)

    report = story.run(day(2), executor=EndingExecutor(0, AssertionError("not wanted")))

    assert report.units == UnitCounts(planned=4, adopted=4)
    assert (report.status, report.rows) == (RunStatus.SUCCESS, 16)


def test_the_next_day_adopts_what_is_still_due_and_reads_the_new_day(story: Story) -> None:
    crash(story, day(2), after=4)

    report = story.run(day(3))

    assert report.units == UnitCounts(planned=6, succeeded=2, adopted=4)
    assert story.rows() == ids_of("a", "b", days=range(3))


@pytest.mark.parametrize(
    "change",
    [
        {"ms__data__field": "data", "writer__codec__type": "SNAPPY"},
        {"ms__call__interval__millis": "0", "extract__table__type": "SNAPSHOT_APPEND"},
        {"ms__http__request__headers": '{"Accept":"application/json"}'},
    ],
)
def test_nothing_is_adopted_when_the_configuration_changed(story: Story, change) -> None:
    crash(story, day(2), after=4)
    assert story.job(**change).digest != story.job().digest

    report = story.run(day(2), story.job(**change))

    assert report.units == UnitCounts(planned=4, succeeded=4)
    assert story.source.count("/records") == 8
    assert story.rows() == ids_of("a", "b", days=range(2))
    assert story.staged() == []


def test_what_only_controls_the_run_does_not_keep_from_adopting(story: Story) -> None:
    crash(story, day(2), after=4)

    job = story.job(taskexecutor__threadpool__size="3", task__maxretries="7")

    assert story.run(day(2), job).units.adopted == 4


def test_nothing_is_adopted_whose_window_is_another(story: Story) -> None:
    whole = {"ms__work__unit__partition": "none"}
    crash(story, day(2), after=2, **whole)

    report = story.run(day(3), story.job(**whole))

    assert report.units == UnitCounts(planned=2, succeeded=2)
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_attempts_without_a_readable_result_are_not_adopted(story: Story) -> None:
    crash(story, day(1), after=2)
    first, second = (path for path in story.staged() if path.name == "result.json")
    first.unlink()
    second.write_text(second.read_text()[:-20])

    report = story.run(day(1))

    assert report.units == UnitCounts(planned=2, succeeded=2)
    assert story.rows() == ids_of("a", "b", days=range(1))
    assert story.staged() == []


def test_a_success_sweeps_the_staging_of_all_earlier_runs(story: Story) -> None:
    crash(story, day(1), after=1)
    crash(story, day(1), after=1)
    assert {run.run_id for run in story.runs().values()} == {"run-1", "run-2"}

    story.run(day(1))

    assert story.runs() == {}
    assert story.staged() == []


@pytest.mark.parametrize("policy", ["full", "successful"])
def test_a_replace_is_read_as_a_whole_because_a_snapshot_is_of_one_time(
    story: Story, policy: str
) -> None:
    replacing = {"ms__publish__mode": "replace", "job__commit__policy": policy}
    story.run(day(2), story.job(**replacing))
    crash(story, day(3), after=5, **replacing)

    report = story.run(day(3), story.job(**replacing))

    assert report.units == UnitCounts(planned=6, succeeded=6)
    assert report.recovered == ()
    assert story.rows() == ids_of("a", "b", days=range(3))
    assert story.staged() == []


def test_a_window_that_is_read_again_is_not_adopted(story: Story) -> None:
    again = {"ms__publish__mode": "window_replace", "ms__grace__period__days": "1"}
    story.run(day(2), story.job(**again))
    crash(story, day(3), after=4, **again)
    story.source.dataset.extend([generated_row("a", 999, day(1) + 5)])

    report = story.run(day(3), story.job(**again))

    # Day 1 was read before and late rows came since; day 2 is new.
    assert report.units == UnitCounts(planned=4, succeeded=2, adopted=2)
    assert story.rows() == ids_of("a", "b", days=range(3)) + Counter({("a", 999): 1})


# Recovery, where successes are kept


def test_under_successful_a_crashed_run_is_published_first_under_its_own_id(story: Story) -> None:
    crash(story, day(2), after=3, **SUCCESSFUL)

    report = story.run(day(2), story.job(**SUCCESSFUL))

    assert report.recovered == ("run-1",)
    assert report.units == UnitCounts(planned=1, succeeded=1)
    assert story.source.count("/records") == 4
    by_run = Counter("run-1" in path.name for path in visible_files(story.folder))
    assert by_run == {True: 3, False: 1}
    assert story.rows() == ids_of("a", "b", days=range(2))
    assert {state.status for state in story.states().values()} == {"COMMITTED"}


def test_under_successful_a_crashed_run_of_another_configuration_is_read_again(
    story: Story,
) -> None:
    crash(story, day(1), after=1, **SUCCESSFUL)

    report = story.run(day(1), story.job(**SUCCESSFUL, writer__codec__type="SNAPPY"))

    assert report.recovered == ()
    assert report.units == UnitCounts(planned=2, succeeded=2)
    assert story.rows() == ids_of("a", "b", days=range(1))
    assert story.staged() == []


def test_a_recovery_is_reported_even_when_nothing_else_is_due(story: Story) -> None:
    crash(story, day(1), after=2, **SUCCESSFUL)

    report = story.run(day(1), story.job(**SUCCESSFUL))

    assert (report.status, report.recovered) == (RunStatus.NOTHING_DUE, ("run-1",))
    assert story.rows() == ids_of("a", "b", days=range(1))
    assert story.staged() == []


def test_a_reading_again_that_a_crash_cut_off_is_owed(story: Story) -> None:
    again = {**SUCCESSFUL, "ms__publish__mode": "window_replace", "ms__grace__period__days": "1"}
    job = story.job(**again)
    story.run(day(2), job)
    story.source.dataset.extend([generated_row(unit, 999, day(1) + 5) for unit in ("a", "b")])
    # Day 1 is read again for unit a and then the driver is gone; unit b and day 2 are owed.
    crash(story, day(3), after=1, **again)

    report = story.run(day(4), job)

    assert report.recovered == ("run-2",)
    assert report.status is RunStatus.SUCCESS
    late = Counter({("a", 999): 1, ("b", 999): 1})
    assert story.rows() == ids_of("a", "b", days=range(4)) + late


# Stopped by a signal


@pytest.mark.parametrize(
    ("signal", "code"),
    [(RunInterruptedError("stopped", "", 143), 143), (KeyboardInterrupt(), 130)],
)
def test_a_stopped_run_reports_it_and_its_work_is_adopted(story: Story, signal, code) -> None:
    report = story.run(day(2), executor=EndingExecutor(3, signal))

    assert (report.status, report.exit_code) == (RunStatus.FAILED, code)
    assert [(one.signature, one.code) for one in report.failures] == [(None, "DIL-INTERRUPTED")]
    units = report.units
    assert units.planned == units.succeeded + units.failed + units.adopted + units.not_started
    assert report.notes[0].startswith("3 of 4 ")
    assert story.runs()["run-1"].status == "interrupted"

    again = story.run(day(2))
    assert again.units == UnitCounts(planned=4, succeeded=1, adopted=3)
    assert story.rows() == ids_of("a", "b", days=range(2))


# The lease


class TakingOver(SilentProgress):
    """Lets another driver take the lease while the run is under way."""

    def __init__(self, story: Story, at: int) -> None:
        self._story = story
        self._at: int | None = at

    def update(self, *, done: int, **counts: int) -> None:
        if done != self._at:
            return
        self._at = None
        later, job = REAL_NOW + HOUR_MS, self._story.job()
        # A clock of its own: by the story's, the run could renew its lease a moment before.
        with open_store(job.state, job.name, clock=lambda: later) as store:
            store.acquire_lease("thief", lease_s=60)
        self._story.clock = later


@pytest.mark.parametrize("policy", ["full", "successful"])
def test_a_run_that_lost_its_lease_publishes_nothing(story: Story, policy: str) -> None:
    story.run(day(1))
    before = snapshot(dataset(story.folder))
    head = story.head()

    job = story.job(job__commit__policy=policy)
    report = story.run(day(3), job, progress=TakingOver(story, 2))

    assert (report.status, report.exit_code) == (RunStatus.FAILED, 1)
    assert (report.rows, report.files) == (0, ())
    (failure,) = report.failures
    assert (failure.signature, failure.code) == (None, "DIL-LEASE-LOST")
    assert "thief" in failure.error
    assert snapshot(dataset(story.folder)) == before
    assert story.head() == head


def test_a_lost_lease_stops_what_has_not_started(story: Story) -> None:
    class Patient(EndingExecutor):
        """Goes on only when the heartbeat has noticed."""

        def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
            started = executor().execute(run, units[:1], watch)
            stopped = wait_until(lambda: watch(started.reports), 10)
            return Execution(started.reports, stopped)

    options = replace(
        story.options(day(2)), executor=Patient(1, Crash()), progress=TakingOver(story, 1)
    )
    report = run_job(story.job(ms__lease__seconds="1"), options)

    assert report.units == UnitCounts(planned=4, succeeded=1, not_started=3)
    assert {failure.code for failure in report.failures} == {"DIL-LEASE-LOST"}
    assert story.source.count("/records") == 1
    assert visible_files(story.folder) == []


def test_what_a_run_staged_before_it_lost_its_lease_is_adopted_later(story: Story) -> None:
    story.run(day(2), progress=TakingOver(story, 4))
    story.clock += HOUR_MS

    assert story.run(day(2)).units == UnitCounts(planned=4, adopted=4)
    assert story.rows() == ids_of("a", "b", days=range(2))


# After the commit


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StateError("the store is gone")])
@pytest.mark.parametrize("policy", ["full", "successful"])
def test_a_run_that_breaks_off_after_its_commit_is_not_published_again(
    story: Story, monkeypatch: pytest.MonkeyPatch, error: BaseException, policy: str
) -> None:
    job = story.job(
        job__commit__policy=policy, ms__publish__mode="window_replace", ms__grace__period__days="2"
    )

    def breaking(files: Filesystem, staging_dir: str) -> bool:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr("dil.run.commit.delete_staging", breaking)
        first = story.run(day(2), job)
    stopped = isinstance(error, KeyboardInterrupt)
    assert first.status is (RunStatus.FAILED if stopped else RunStatus.SUCCESS)
    assert [run.status for run in story.runs().values()] == ["success"]
    assert story.rows() == ids_of("a", "b", days=range(2))
    assert story.staged() != []

    again = story.run(day(3), job)

    assert (again.status, again.recovered) == (RunStatus.SUCCESS, ())
    assert again.units == UnitCounts(planned=6, succeeded=6)
    assert story.rows() == ids_of("a", "b", days=range(3))
    assert story.staged() == []


def test_the_next_run_forgets_that_a_killed_run_sent_what_it_committed(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it remembered, each later run would refuse the work unit that has these rows."""
    with monkeypatch.context() as patched:
        patched.setattr("dil.run.commit.delete_staging", lambda *_: False)
        story.run(day(1))
    folder = Path(sending_dir(story.job().publishing, "orders"))
    folder.mkdir()
    mark = StartMark(1, "run-1", 1, 0, str(folder / "gone"), MarkState.SENT)
    (folder / "unit.json").write_bytes(msgspec.json.encode(mark))

    story.run(day(2))

    assert not (folder / "unit.json").exists()


# The disk


class SmallDisk:
    """No file of a task may grow beyond some bytes; the kernel says so."""

    def __init__(self, limit: int, within: Executor) -> None:
        self._limit = limit
        self._within = within

    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._limit, before[1]))
        try:
            return self._within.execute(run, units, watch)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_fails_the_work_unit_and_leaves_nothing_half_done(story: Story) -> None:
    story.run(day(1))
    before = snapshot(dataset(story.folder))

    report = story.run(day(2), executor=SmallDisk(1000, executor()))

    assert (report.status, report.exit_code) == (RunStatus.FAILED, 1)
    assert {one.code for one in report.failures} == {"DIL-WRITE"}
    assert snapshot(dataset(story.folder)) == before
    assert [path.name for path in story.staged()] == ["plan.json"]
    assert work_unit(1, "a") not in story.states()

    assert story.run(day(2)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_a_staging_folder_that_cannot_be_made_is_a_write_error(story: Story) -> None:
    lake = story.folder / "lake"
    lake.mkdir()
    (lake / "_staging").write_text("in the way")

    with pytest.raises(WriteError) as caught:
        story.run(day(1))

    assert "_staging" in caught.value.message
    (lake / "_staging").unlink()
    assert story.run(day(1)).status is RunStatus.SUCCESS
