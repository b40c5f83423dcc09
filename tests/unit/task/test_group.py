"""Several work units in one task: each has its own report, and some are left to other tasks."""

from __future__ import annotations

import threading

import msgspec
import pytest

from dil.errors import AuthenticationError, TransientSourceError
from dil.model.task import RunContext, TaskReport
from dil.model.work_unit import WorkUnit
from dil.task import group
from dil.task.group import run_group
from dil.task.work_unit import run_in_task
from tests.unit.task.scripted import NOW, Desk, Page, rows, work_unit

REFUSED = AuthenticationError("no")


def run(desk: Desk, names: str, lanes: int = 1, **changes: str) -> list[TaskReport]:
    job = desk.job(**{"task__maxretries": "0", **changes})
    context = RunContext(job, "r1", NOW, full_extract=True, staging_dir=str(desk.staging))
    return run_group(context, units(names), lanes, desk.waits.clocks)


def units(names: str) -> list[WorkUnit]:
    return [msgspec.structs.replace(work_unit(), signature=name) for name in names]


@pytest.mark.parametrize("lanes", [1, 2, 3, 8])
def test_each_work_unit_has_its_own_report_and_files(desk: Desk, lanes: int) -> None:
    desk.script([Page(rows(1, 2))])

    reports = run(desk, "abcdefg", lanes)

    assert sorted(report.signature for report in reports) == list("abcdefg")
    assert {(report.failure, report.rows) for report in reports} == {(None, 2)}
    assert len({file.path for report in reports for file in report.files}) == 7


def test_each_work_unit_has_its_own_attempts(desk: Desk) -> None:
    desk.script([TransientSourceError("down")], [Page(rows(1))])

    reports = run(desk, "abcd", task__maxretries="1")

    assert [(report.attempts, report.failure) for report in reports] == [(2, None)] * 4


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_source_that_refuses_everything_is_not_asked_for_the_rest(desk: Desk, lanes: int) -> None:
    desk.script([REFUSED])

    reports = run(desk, "abcdefghijklmnop", lanes)

    assert 3 <= len(reports) <= 2 + lanes
    assert {report.failure.code for report in reports if report.failure} == {"DIL-SRC-AUTH"}


def test_what_does_not_begin_in_time_is_left_to_another_task(desk: Desk, monkeypatch) -> None:
    desk.script([Page(rows(1))])

    def slow(task, unit):
        task.clocks.sleep(group.SLICE_S / 2)
        return run_in_task(task, unit)

    monkeypatch.setattr(group, "run_in_task", slow)

    assert [report.signature for report in run(desk, "abcdefg")] == ["a", "b"]


@pytest.mark.parametrize("lanes", [1, 2])
def test_an_error_that_should_not_be_ends_the_task(desk: Desk, lanes: int, monkeypatch) -> None:
    def broken(task, unit):
        raise SystemExit("of a plug-in")

    monkeypatch.setattr(group, "run_in_task", broken)

    with pytest.raises(SystemExit):
        run(desk, "abc", lanes)


def test_lanes_run_at_the_same_time(desk: Desk, monkeypatch) -> None:
    meeting = threading.Barrier(3, timeout=20)

    def met(task, unit):
        meeting.wait()
        return run_in_task(task, unit)

    desk.script([Page(rows(1))])
    monkeypatch.setattr(group, "run_in_task", met)

    assert len(run(desk, "abc", lanes=3)) == 3
