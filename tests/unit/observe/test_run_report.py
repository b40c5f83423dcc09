"""What a run's report counts and warns of, from the reports of its tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import UNSET, UnsetType

from dil.model.dataset import Commit, Move, PublishedFile, RunWork, UnitRows, WorkUnitOutcome
from dil.model.job import PublishMode
from dil.model.report import ReplacedRows, RunStatus, UnitCounts
from dil.model.task import AnswerCount, Counters, Failure, TaskReport
from dil.observe import run_report

FAILURE = Failure("DIL-SRC", "gone")


def report(number: int, seconds: float = 0.0, **members: object) -> TaskReport:
    unit = TaskReport(f"[watermark.dt.{number}, watermark.u.{{}}]", number, number + 1, 1)
    return replace(unit, counters=Counters(seconds=seconds), **members)  # type: ignore[arg-type]


def test_a_work_unit_ends_in_one_way_or_never_began() -> None:
    reports = [report(0), report(1, failure=FAILURE), report(2, adopted=True)]
    assert run_report.unit_counts(5, reports) == UnitCounts(5, 1, 1, 1, 2)


def test_failed_work_units_are_listed_before_slow_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_report, "_UNIT_RUNS", 2)
    reports = [report(0, 9.0), report(1, 1.0, failure=FAILURE), report(2, 5.0)]
    found = run_report.unit_runs(reports)
    assert [(each.outcome, each.seconds) for each in found] == [("failed", 1.0), ("succeeded", 9.0)]


@pytest.mark.parametrize(
    ("rows", "late", "usual", "status", "warns"),
    [
        (0, 0, 7, RunStatus.SUCCESS, True),
        (1, 0, 7, RunStatus.SUCCESS, False),
        (0, 1, 7, RunStatus.SUCCESS, False),
        (0, 0, None, RunStatus.SUCCESS, False),
        (0, 0, 7, RunStatus.FAILED, False),
    ],
)
def test_a_run_without_any_row_is_told_where_rows_were_usual(
    rows: int, late: int, usual: int | None, status: RunStatus, warns: bool
) -> None:
    assert bool(run_report.zero_rows(status, rows, usual, late=late)) is warns


def test_replaced_rows_are_those_of_the_work_units_that_were_read_again() -> None:
    """A file that is written anew may hold rows of other work units, which stay."""
    units = (UnitRows("a", 0, 3), UnitRows("b", 3, 4))
    old = PublishedFile("file:///old", "", 7, 1, "", "r1", units=units)
    units = (UnitRows("a", 0, 5), UnitRows("b", 5, 4))
    new = PublishedFile("file:///new", "", 9, 1, "", "r2", units=units)
    outcome = WorkUnitOutcome("a", "u.{}", 0, 1, 1, 1)
    moves = (Move("s", new),)
    commit = Commit("r", "c", "s", moves, (old,), "", 0, 0, RunWork((outcome,)))
    found = run_report.replaced_rows(commit, PublishMode.WINDOW_REPLACE)
    assert found == ReplacedRows(before=3, after=5)
    assert run_report.replaced_rows(commit, PublishMode.REPLACE) == ReplacedRows(7, 9)
    assert run_report.replaced_rows(commit, PublishMode.APPEND) is None


def test_equal_first_rows_of_different_windows_alone_are_a_doubt() -> None:
    twice = [report(0, first_rows=7), report(0, first_rows=7), report(1, first_rows=8)]
    assert run_report.task_notes(twice) == ()
    (note,) = run_report.task_notes([*twice, report(2, first_rows=8)])
    assert note == f"{run_report.EQUAL_ROWS} (2 work units)"


def pages(*facts: tuple[int, int | UnsetType]) -> list[TaskReport]:
    """Return a report for each pair of rows read and the page size that they fell short of."""
    return [
        replace(report(at, short_of=asked), counters=Counters(rows_read=rows))
        for at, (rows, asked) in enumerate(facts)
    ]


def test_work_units_of_at_most_one_page_as_long_as_a_usual_cap_are_a_doubt() -> None:
    facts = pages((100, 5000), (7, 5000), (100, 5000), (0, UNSET), (100, UNSET))
    (note,) = run_report.task_notes(facts)
    assert note.startswith("ROWS MAY BE MISSING: no page had more than 100 rows")
    assert "asks for 5000" in note
    assert note.endswith("(2 work units)")


@pytest.mark.parametrize(
    "facts",
    [
        [],
        [(100, UNSET)],
        [(99, 5000), (7, 5000)],
        [(100, 5000), (101, 5000)],
        [(100, 5000), (5000, UNSET)],
        [(200, 150)],
    ],
)
def test_other_work_units_below_the_size_of_a_page_are_healthy(
    facts: list[tuple[int, int | UnsetType]],
) -> None:
    assert run_report.task_notes(pages(*facts)) == ()


def test_refused_rows_are_counted_by_row() -> None:
    answers = (AnswerCount(422, 3, is_kept=True), AnswerCount(202, 2, is_kept=False))
    refused, warned = run_report.answer_notes([report(0, answers=answers)], "f")
    assert refused.startswith("REFUSED ROWS: the receiver took 3 rows fewer")
    assert warned.startswith("2 requests with rows")
