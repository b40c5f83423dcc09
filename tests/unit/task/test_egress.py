"""A task that sends rows: executed once more by Spark, and recorded whatever the connector is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dil.errors import RefusedAnswer, SourceContractError, SourceError, UnknownOutcomeError
from dil.model.task import AnswerCount
from tests.unit.task.scripted import Page, Script, UnitTask, rows


def sending(task: UnitTask, *ids: int, **changes: str) -> Any:
    folder = task.folder / "in"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.json").write_text("".join(f'{{"id":{one}}}\n' for one in ids))
    entry = {"path": str(folder), "fields": ["id"], "category": "payload"}
    return task.job(ms__secondary__input=json.dumps([entry]), **changes)


def refusal(status: int) -> SourceError:
    error = SourceError(f"HTTP status {status}")
    error.refused = RefusedAnswer(status, "no", "why")
    return error


def asked(script: Script) -> int:
    return sum(len(session.asked) for session in script.sessions)  # type: ignore[union-attr]


def audit(task: UnitTask) -> list[dict[str, Any]]:
    folder = task.folder / "lake" / "shop" / "orders" / "_audit"
    return [json.loads(line) for path in folder.iterdir() for line in path.read_text().splitlines()]


def test_an_execution_after_one_that_completed_returns_its_result_and_sends_nothing(
    task: UnitTask,
) -> None:
    script = task.script([Page(rows(1)), Page(rows(2))])
    job = sending(task, 7, 8)
    first = task.run(job)

    second = task.run(job)

    assert second == first
    assert asked(script) == 2


def test_an_execution_after_one_that_was_lost_sends_nothing(task: UnitTask) -> None:
    script = task.script([Page(rows(1)), KeyboardInterrupt()])
    job = sending(task, 7, 8)
    with pytest.raises(KeyboardInterrupt):
        task.run(job)

    report = task.run(job)

    assert report.failure is not None
    assert (report.failure.code, report.failure.retryable) == (UnknownOutcomeError.code, False)
    assert asked(script) == 2


def test_a_job_that_reads_is_executed_again_without_a_question(task: UnitTask) -> None:
    task.script([Page(rows(1), cursor="c"), KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        task.run(task.job())
    task.script([Page(rows(1))])

    assert task.run(task.job()).failure is None


def test_a_connector_of_ones_own_may_tell_that_an_outcome_is_unknown(task: UnitTask) -> None:
    script = task.script([Page(rows(1)), UnknownOutcomeError("no answer")])
    job = sending(task, 7, 8, task__maxretries="3")

    assert task.run(job).failure is not None
    assert asked(script) == 2


def test_a_connector_of_ones_own_may_tell_that_one_row_is_refused(task: UnitTask) -> None:
    task.script([Page(rows(1)), refusal(422), refusal(404), refusal(422), Page(rows(2))])

    report = task.run(sending(task, 1, 2, 3, 4, 5, ms__egress__failed__rows="keep"))

    assert report.failure is None
    assert report.answers == (AnswerCount(404, 1, is_kept=True), AnswerCount(422, 2, is_kept=True))
    (file,) = report.refused
    lines = Path(file.path).read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [2, 3, 4]
    assert report.rows == 2


def test_a_last_row_that_is_refused_ends_the_work_unit_well(task: UnitTask) -> None:
    task.script([Page(rows(1)), refusal(422)])
    report = task.run(sending(task, 1, 2, ms__egress__failed__rows="keep"))
    assert (report.failure, report.rows, report.refused[0].rows) == (None, 1, 1)


def test_too_many_refused_rows_fail_the_work_unit_and_leave_nothing(task: UnitTask) -> None:
    task.script([refusal(422), refusal(422), refusal(422)])
    keeps = {"ms__egress__failed__rows": "keep", "ms__egress__failed__max__rows": "1"}

    report = task.run(sending(task, 1, 2, 3, **keeps))

    assert report.failure is not None
    assert "ms.egress.failed.max.rows" in report.failure.fix
    assert [name for name in task.left() if "failed-" in name] == []


def test_rows_answered_with_a_warning_are_counted(task: UnitTask) -> None:
    task.script([Page(rows(1)), Page(warning="HTTP status 409"), Page(rows(2))])
    report = task.run(sending(task, 1, 2, 3))
    assert report.answers == (AnswerCount(0, 1, is_kept=False),)


def test_warnings_of_a_job_that_reads_are_no_answers_to_rows(task: UnitTask) -> None:
    task.script([Page(warning="HTTP status 409")])
    assert task.run().answers == ()


@pytest.mark.parametrize("connector", ["ScriptedConnector", "ScriptedRowConnector"])
def test_requests_of_any_connector_are_recorded_with_what_became_of_them(
    task: UnitTask, connector: str
) -> None:
    task.script([SourceError("gone")], [Page(rows(1))] if "Row" not in connector else [])
    job = task.job(connector=connector, ms__audit__enabled="true", task__maxretries="1")

    assert task.run(job).failure is None

    lines = audit(task)
    assert sorted((line["attempt"], line["event"], line["sequence"]) for line in lines) == [
        (1, "answer", 1),
        (1, "request", 1),
        (2, "answer", 1),
        (2, "request", 1),
    ]
    (failed,) = [line for line in lines if line.get("error")]
    assert failed["error"] == "gone"
    assert {line.get("method") for line in lines if line["event"] == "request"} == {connector}


@pytest.mark.parametrize(("sends", "attempts"), [(True, 1), (False, 2)])
def test_an_answer_that_is_not_as_declared_is_no_reason_to_send_a_row_again(
    task: UnitTask, sends: bool, attempts: int
) -> None:
    script = task.script([SourceContractError("no JSON")])
    settings = {"task__maxretries": "2"}
    report = task.run(sending(task, 1, **settings) if sends else task.job(**settings))
    assert report.failure is not None
    assert len(script.sessions) == attempts
