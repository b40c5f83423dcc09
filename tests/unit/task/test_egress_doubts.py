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
from tests.unit.task.scripted import Desk, Page, Script, rows
from tests.unit.task.test_egress import asked, refusal, sending

DOUBTS = [SourceContractError("no JSON"), UnknownOutcomeError("?"), ConnectionResetError("gone")]
CLEAN = [refusal(422), TransientSourceError("refused"), SourceError("no"), WriteError("disk")]


def after(desk: Desk, *answers: Page | BaseException, **changes: str) -> tuple[TaskReport, Script]:
    """Run a task that sends three rows, with two retries; the same answers for each attempt."""
    script = desk.script(list(answers))
    return desk.run(sending(desk, 1, 2, 3, task__maxretries="2", **changes)), script


def is_sent_again(desk: Desk) -> bool:
    """Tell whether another execution sends the rows."""
    desk.script([Page(rows(1)), Page(rows(2)), Page(rows(3))])
    return desk.run(sending(desk, 1, 2, 3)).failure is None


@pytest.mark.parametrize("error", DOUBTS, ids=lambda error: type(error).__name__)
def test_a_first_row_in_doubt_ends_the_attempts_and_stops_later_executions(
    desk: Desk, error: Exception
) -> None:
    report, script = after(desk, error)

    assert report.failure is not None
    assert not report.failure.retryable
    assert asked(script) == 1
    assert not is_sent_again(desk)


@pytest.mark.parametrize("error", CLEAN[:3], ids=lambda error: type(error).__name__)
def test_a_first_row_that_is_refused_is_tried_again(desk: Desk, error: Exception) -> None:
    report, script = after(desk, error)

    assert report.failure is not None
    assert asked(script) == 3
    assert is_sent_again(desk)


@pytest.mark.parametrize(
    "error",
    [*CLEAN, AuthenticationError("401"), QuotaError("spent")],
    ids=lambda e: type(e).__name__,
)
def test_after_a_row_was_taken_no_failure_sends_it_again(desk: Desk, error: Exception) -> None:
    report, script = after(desk, Page(rows(1)), error)

    assert report.failure is not None
    assert report.failure.code == getattr(error, "code", None)
    assert "took the rows of 1 request before that" in report.failure.error
    assert "ms.egress.send.again=true" in report.failure.fix
    assert asked(script) == 2
    assert not is_sent_again(desk)


def test_rows_that_were_refused_and_kept_do_not_count_as_taken(desk: Desk) -> None:
    keeps = {"ms__egress__failed__rows": "keep"}
    report, script = after(desk, refusal(422), QuotaError("spent"), **keeps)

    assert report.failure is not None
    assert "took the rows" not in report.failure.error
    assert asked(script) == 2
    assert is_sent_again(desk)


def test_with_progress_kept_a_refusal_after_taken_rows_is_tried_again(desk: Desk) -> None:
    report, script = after(desk, Page(rows(1)), refusal(422), ms__egress__resume="true")

    # Each attempt has one more row taken, and the last one is through before it is refused.
    assert (report.failure, report.attempts, report.rows) == (None, 3, 3)
    assert asked(script) == 5


def test_what_cannot_be_recorded_is_not_sent_and_not_in_doubt(desk: Desk) -> None:
    (desk.folder / "full").write_text("no folder")
    audit = {"ms__audit__enabled": "true", "ms__audit__dir": str(desk.folder / "full")}

    report, script = after(desk, Page(rows(1)), **audit)

    assert report.failure is not None
    assert (report.failure.code, asked(script)) == (WriteError.code, 0)
    assert is_sent_again(desk)


def test_rows_of_a_row_protocol_are_watched_too(desk: Desk) -> None:
    report, _ = after(desk, SourceError("no"), connector="ScriptedRowConnector")
    assert report.failure is not None
    assert report.failure.retryable

    half = [Page(rows(1)), SourceError("broke off")]
    report, _ = after(desk, *half, connector="ScriptedRowConnector")
    assert report.failure is not None
    assert not report.failure.retryable
