"""The report of rows that the receiver did not just take, and of rows that came twice."""

from __future__ import annotations

import pytest

from dil.model.task import AnswerCount, TaskReport
from dil.observe.run_report import EQUAL_ROWS, answer_notes, task_notes


def report(*answers: AnswerCount) -> TaskReport:
    return TaskReport("s", 0, 1, 1, answers=answers)


def test_a_run_whose_rows_were_all_taken_has_nothing_to_tell() -> None:
    assert answer_notes([report(), report()], "/lake/_failed") == ()


def test_refused_rows_are_told_loudly_by_status_with_the_folder() -> None:
    refused = [
        report(AnswerCount(422, 1000, is_kept=True), AnswerCount(404, 1, is_kept=True)),
        report(AnswerCount(422, 2, is_kept=True)),
    ]
    (note,) = answer_notes(refused, "/lake/_failed")
    assert note.startswith("REFUSED ROWS")
    assert "1,003 rows" in note
    assert "(status 404: 1, status 422: 1,002)" in note
    assert note.endswith("/lake/_failed")


def test_rows_answered_with_a_warning_are_told_apart() -> None:
    (note,) = answer_notes([report(AnswerCount(204, 1, is_kept=False))], "/lake/_failed")
    assert "1 request with rows" in note
    assert "status 204: 1" in note
    assert "/lake" not in note


def test_windows_that_began_with_the_same_rows_are_noted() -> None:
    windows = [(0, 1, 7), (1, 2, 7), (2, 3, 8)]
    reports = [TaskReport("s", low, high, 1, first_rows=rows) for low, high, rows in windows]
    assert task_notes([*reports, report(), report()]) == (f"{EQUAL_ROWS} (2 work units)",)


@pytest.mark.parametrize("lows", [(0, 0), (0, 1)])
def test_units_may_have_the_same_rows_whatever_their_windows(lows: tuple[int, int]) -> None:
    signatures = [f'[watermark.system.0, watermark.unit.{{"id":"{unit}"}}]' for unit in "ab"]
    pairs = zip(signatures, lows, strict=True)
    assert task_notes([TaskReport(each, low, 9, 1, first_rows=7) for each, low in pairs]) == ()
