"""Several work units in one task: each has its own report, and some are left to other tasks."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import msgspec
import pytest

from dil.errors import (
    AuthenticationError,
    SourceContractError,
    TransientSourceError,
    WriteError,
)
from dil.model.job import Job
from dil.model.task import RunContext, TaskReport
from dil.model.work_unit import WorkUnit
from dil.publishing.staged import StagedResult, read_results
from dil.storage import LocalFilesystem
from dil.task import group, result_log
from dil.task.context import TaskContext
from dil.task.group import run_group
from dil.task.work_unit import run_in_task
from tests.unit.task.scripted import NOW, Page, UnitTask, rows, work_unit

REFUSED = AuthenticationError("no")


def run(
    task: UnitTask, names: str, lanes: int = 1, *, is_repeated: bool = False, **changes: str
) -> list[TaskReport]:
    job = task.job(**{"task__maxretries": "0", **changes})
    context = RunContext(job, "r1", NOW, full_extract=True, staging_dir=str(task.staging))
    return run_group(context, units(names), lanes, task.waits.clocks, is_repeated=is_repeated)


def units(names: str) -> list[WorkUnit]:
    return [msgspec.structs.replace(work_unit(), signature=name) for name in names]


@pytest.mark.parametrize("lanes", [1, 2, 3, 8])
def test_each_work_unit_has_its_own_report_and_files(task: UnitTask, lanes: int) -> None:
    task.script([Page(rows(1, 2))])

    reports = run(task, "abcdefg", lanes)

    assert sorted(report.signature for report in reports) == list("abcdefg")
    assert {(report.failure, report.rows) for report in reports} == {(None, 2)}
    assert len({file.path for report in reports for file in report.files}) == 7


def test_each_work_unit_has_its_own_attempts(task: UnitTask) -> None:
    task.script([TransientSourceError("down")], [Page(rows(1))])

    reports = run(task, "abcd", task__maxretries="1")

    assert [(report.attempts, report.failure) for report in reports] == [(2, None)] * 4


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_source_that_refuses_everything_is_not_asked_for_the_rest(
    task: UnitTask, lanes: int
) -> None:
    task.script([REFUSED])

    reports = run(task, "abcdefghijklmnop", lanes)

    assert 3 <= len(reports) <= 2 + lanes
    assert {report.failure.code for report in reports if report.failure} == {"DIL-SRC-AUTH"}


def test_what_does_not_begin_in_time_is_left_to_another_task(task: UnitTask, monkeypatch) -> None:
    task.script([Page(rows(1))])

    def slow(task, unit):
        task.clocks.sleep(group.SLICE_S / 2)
        return run_in_task(task, unit)

    monkeypatch.setattr(group, "run_in_task", slow)

    assert [report.signature for report in run(task, "abcdefg")] == ["a", "b"]


@pytest.mark.parametrize("lanes", [1, 2])
def test_an_error_that_should_not_be_ends_the_task(task: UnitTask, lanes: int, monkeypatch) -> None:
    def broken(task, unit):
        raise SystemExit("of a plug-in")

    monkeypatch.setattr(group, "run_in_task", broken)

    with pytest.raises(SystemExit):
        run(task, "abc", lanes)


def test_lanes_run_at_the_same_time(task: UnitTask, monkeypatch) -> None:
    meeting = threading.Barrier(3, timeout=20)

    def met(task, unit):
        meeting.wait()
        return run_in_task(task, unit)

    task.script([Page(rows(1))])
    monkeypatch.setattr(group, "run_in_task", met)

    assert len(run(task, "abc", lanes=3)) == 3


@pytest.mark.parametrize("lanes", [1, 3])
def test_results_are_durable_when_the_task_ends(task: UnitTask, lanes: int) -> None:
    task.script([Page(rows(1, 2))])

    reports = run(task, "abcde", lanes)

    assert {each.report.signature: each.report for each in staged(task)} == {
        report.signature: report for report in reports
    }


def test_results_that_are_written_one_by_one_are_all_kept(task: UnitTask, monkeypatch) -> None:
    monkeypatch.setattr(result_log, "MOST_UNITS", 1)
    task.script([Page(rows(1))])

    run(task, "abc")

    assert sorted(each.work_unit.signature for each in staged(task)) == list("abc")


def test_a_result_is_written_when_its_files_are_durable(task: UnitTask, monkeypatch) -> None:
    def broken(self, paths):
        raise WriteError(f"{list(paths)}: I/O error")

    task.script([Page(rows(1))])
    monkeypatch.setattr(LocalFilesystem, "sync_files", broken)

    reports = run(task, "ab")

    assert [(report.files, report.failure.code) for report in reports] == [((), "DIL-WRITE")] * 2
    assert staged(task) == []


def test_a_task_that_is_repeated_reads_only_what_was_not_completed(task: UnitTask) -> None:
    script = task.script([Page(rows(1, 2))])
    first = run(task, "abc")

    again = run(task, "abcde", is_repeated=True)

    assert again[:3] == first
    assert [report.signature for report in again] == list("abcde")
    assert len(script.sessions) == 5


def test_work_units_that_send_are_not_sent_again_by_a_task_that_runs_twice(task: UnitTask) -> None:
    """Spark repeats a task without saying so; each work unit looks for its result by itself."""
    folder = task.folder / "in"
    folder.mkdir()
    (folder / "rows.json").write_text('{"id":7}\n')
    entry = {"path": str(folder), "fields": ["id"], "category": "payload"}
    sending = {"ms__secondary__input": json.dumps([entry])}
    script = task.script([Page(rows(1))])
    first = run(task, "ab", **sending)

    assert run(task, "ab", **sending) == first
    assert [report.failure for report in first] == [None, None]
    assert sum(len(session.asked) for session in script.sessions) == 2


def test_what_cannot_be_made_durable_has_failed(task: UnitTask, monkeypatch) -> None:
    def full(self, path, data):
        raise WriteError(f"{path}: no space left")

    task.script([Page(rows(1))])
    monkeypatch.setattr(LocalFilesystem, "put", full)

    reports = run(task, "ab")

    assert [(report.files, report.failure.code) for report in reports] == [((), "DIL-WRITE")] * 2
    assert staged(task) == []


def test_a_failed_attempt_leaves_nothing_and_takes_nothing_of_others(task: UnitTask) -> None:
    task.script([Page(rows(1, 2), "c1"), REFUSED])
    run(task, "ab")

    assert not any(path.is_file() for path in task.staging.rglob("*"))

    task.script([Page(rows(1))])
    run(task, "abc")
    task.script([Page(rows(1, 2), "c1"), REFUSED])
    run(task, "de")

    assert sorted(each.work_unit.signature for each in staged(task)) == list("abc")


def test_a_result_whose_file_is_gone_does_not_count(task: UnitTask) -> None:
    task.script([Page(rows(1))])
    reports = run(task, "abc")

    Path(reports[1].files[0].path).unlink()

    assert sorted(each.work_unit.signature for each in staged(task)) == ["a", "c"]


def staged(task: UnitTask) -> list[StagedResult]:
    return list(read_results(LocalFilesystem(), str(task.staging)))


class Cramped:
    """A work unit that gets no memory in its first runs, beside others or not."""

    def __init__(self, name: str, times: int) -> None:
        self.name, self.left, self.alone = name, times, []

    def __call__(self, task: TaskContext, unit: WorkUnit) -> TaskReport:
        if unit.signature == self.name:
            self.alone.append(threading.active_count())
            if self.left:
                self.left -= 1
                raise MemoryError
        return run_in_task(task, unit)


def test_a_work_unit_without_memory_beside_others_is_run_once_more_alone(
    task: UnitTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    task.script([Page(rows(1))])
    cramped = Cramped("c", 1)
    monkeypatch.setattr(group, "run_in_task", cramped)

    reports = run(task, "abcd", 3)

    assert sorted((report.signature, report.failure) for report in reports) == [
        (name, None) for name in "abcd"
    ]
    assert not any(each.name.startswith("dil-lane") for each in threading.enumerate())
    assert len(cramped.alone) == 2


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_work_unit_that_needs_too_much_fails_and_leaves_the_others(
    task: UnitTask, monkeypatch: pytest.MonkeyPatch, lanes: int
) -> None:
    task.script([Page(rows(1))])
    cramped = Cramped("c", 9)
    monkeypatch.setattr(group, "run_in_task", cramped)

    failures = {each.signature: each.failure for each in run(task, "abcd", lanes)}

    assert [failures[name] for name in "abd"] == [None] * 3
    failed = failures["c"]
    assert failed is not None
    assert (failed.code, failed.retryable) == (SourceContractError.code, False)
    assert len(cramped.alone) == (1 if lanes == 1 else 2)


def test_rows_are_not_sent_once_more_for_want_of_memory(
    task: UnitTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Job, "has_input", lambda _, category: category == "payload")
    monkeypatch.setattr(group, "run_in_task", cramped := Cramped("c", 9))
    task.script([Page(rows(1))])

    context = RunContext(task.job(), "r1", NOW, full_extract=True, staging_dir=str(task.staging))
    failed = run_group(context, units("cc"), 2, task.waits.clocks)

    assert [report.failure is not None for report in failed] == [True, True]
    assert len(cramped.alone) == 2
