"""What is known of rows that were sent when an attempt fails: none is sent twice in the dark."""

from __future__ import annotations

import pytest

from dil.errors import (
    AuthenticationError,
    QuotaError,
    SourceContractError,
    SourceError,
    TransientSourceError,
    UnknownOutcomeError,
    WriteError,
)
from dil.model.task import TaskReport
from tests.unit.task.scripted import Page, Script, UnitTask, rows
from tests.unit.task.test_egress import asked, refusal, sending

DOUBTS = [SourceContractError("no JSON"), UnknownOutcomeError("?"), ConnectionResetError("gone")]
CLEAN = [refusal(422), TransientSourceError("refused"), SourceError("no"), WriteError("disk")]


def after(
    task: UnitTask, *answers: Page | BaseException, **changes: str
) -> tuple[TaskReport, Script]:
    """Run a task that sends three rows, with two retries; the same answers for each attempt."""
    script = task.script(list(answers))
    return task.run(sending(task, 1, 2, 3, task__maxretries="2", **changes)), script


def is_sent_again(task: UnitTask) -> bool:
    """Tell whether another execution sends the rows."""
    task.script([Page(rows(1)), Page(rows(2)), Page(rows(3))])
    return task.run(sending(task, 1, 2, 3)).failure is None


@pytest.mark.parametrize("error", DOUBTS, ids=lambda error: type(error).__name__)
def test_a_first_row_in_doubt_ends_the_attempts_and_stops_later_executions(
    task: UnitTask, error: Exception
) -> None:
    report, script = after(task, error)

    assert report.failure is not None
    assert not report.failure.retryable
    assert asked(script) == 1
    assert not is_sent_again(task)


@pytest.mark.parametrize("error", CLEAN[:3], ids=lambda error: type(error).__name__)
def test_a_first_row_that_is_refused_is_tried_again(task: UnitTask, error: Exception) -> None:
    report, script = after(task, error)

    assert report.failure is not None
    assert asked(script) == 3
    assert is_sent_again(task)


@pytest.mark.parametrize(
    "error",
    [*CLEAN, AuthenticationError("401"), QuotaError("spent")],
    ids=lambda e: type(e).__name__,
)
def test_after_a_row_was_taken_no_failure_sends_it_again(task: UnitTask, error: Exception) -> None:
    report, script = after(task, Page(rows(1)), error)

    assert report.failure is not None
    assert report.failure.code == getattr(error, "code", None)
    assert "took the rows of 1 request before that" in report.failure.error
    assert "ms.egress.send.again=true" in report.failure.fix
    assert asked(script) == 2
    assert not is_sent_again(task)


def test_rows_that_were_refused_and_kept_do_not_count_as_taken(task: UnitTask) -> None:
    keeps = {"ms__egress__failed__rows": "keep"}
    report, script = after(task, refusal(422), QuotaError("spent"), **keeps)

    assert report.failure is not None
    assert "took the rows" not in report.failure.error
    assert asked(script) == 2
    assert is_sent_again(task)


def test_with_progress_kept_a_refusal_after_taken_rows_is_tried_again(task: UnitTask) -> None:
    report, script = after(task, Page(rows(1)), refusal(422), ms__egress__resume="true")

    # Each attempt has one more row taken, and the last one is through before it is refused.
    assert (report.failure, report.attempts, report.rows) == (None, 3, 3)
    assert asked(script) == 5


def test_what_cannot_be_recorded_is_not_sent_and_not_in_doubt(task: UnitTask) -> None:
    (task.folder / "full").write_text("no folder")
    audit = {"ms__audit__enabled": "true", "ms__audit__dir": str(task.folder / "full")}

    report, script = after(task, Page(rows(1)), **audit)

    assert report.failure is not None
    assert (report.failure.code, asked(script)) == (WriteError.code, 0)
    assert is_sent_again(task)


def test_rows_of_a_row_protocol_are_watched_too(task: UnitTask) -> None:
    report, _ = after(task, SourceError("no"), connector="ScriptedRowConnector")
    assert report.failure is not None
    assert report.failure.retryable

    half = [Page(rows(1)), SourceError("broke off")]
    report, _ = after(task, *half, connector="ScriptedRowConnector")
    assert report.failure is not None
    assert not report.failure.retryable


def test_a_row_whose_answer_says_that_nothing_was_done_is_sent_again(task: UnitTask) -> None:
    busy = '{"failCondition": {"name": "X-Busy", "retry": {"regexp": "yes"}}}'
    answer = Page(headers={"X-Busy": "yes"})
    report, script = after(task, answer, ms__session__key__field=busy)

    assert report.failure is not None
    assert report.failure.code == TransientSourceError.code
    assert asked(script) == 3
    assert is_sent_again(task)
