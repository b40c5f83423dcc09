"""A task that sends rows: read from its payload input, one in each request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dil.errors import TransientSourceError
from tests.unit.task.scripted import Page, Script, UnitTask, rows


def sending(task: UnitTask, lines: list[dict[str, object]], path: str = "rows", **changes: str):
    folder = task.folder / "in" / "a"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.json").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    entry = {"path": str(task.folder / "in" / path), "fields": ["id"], "category": "payload"}
    return task.job(ms__secondary__input=json.dumps([entry]), **changes)


def sent(script: Script, attempt: int = 0) -> list[object]:
    return [values.payload for values in script.sessions[attempt].asked]  # type: ignore[union-attr]


def test_the_rows_of_the_payload_are_sent_in_order(task: UnitTask) -> None:
    script = task.script([Page(rows(1)), Page(), Page(rows(2))])

    report = task.run(sending(task, [{"id": 7, "x": 0}, {"id": 8}, {"id": 7}], "{{unit}}"))

    assert report.failure is None
    assert sent(script) == [{"id": 7}, {"id": 8}, {"id": 7}]
    assert report.rows == 2


def test_a_payload_without_rows_sends_nothing_and_succeeds(task: UnitTask) -> None:
    script = task.script([])

    report = task.run(sending(task, [], "a"))

    assert (report.failure, report.counters.requests) == (None, 0)
    assert sent(script) == []


def test_a_payload_that_is_not_there_fails_the_work_unit(task: UnitTask) -> None:
    task.script([])

    report = task.run(sending(task, [], "nowhere"))

    assert report.failure is not None
    assert report.failure.code == "DIL-SRC"


@pytest.mark.parametrize(("commit", "again"), [("unit", [7, 8]), ("page", [8])])
def test_rows_that_may_be_repeated_are_sent_from_the_first_unless_progress_is_kept(
    task: UnitTask, commit: str, again: list[int]
) -> None:
    answers = [Page(rows(1)), Page(rows(2))]
    gone = TransientSourceError("gone")
    script = task.script([answers[0], gone], answers[2 - len(again) :])
    job = sending(
        task,
        [{"id": 7}, {"id": 8}],
        "a",
        connector="RepeatingConnector",
        task__maxretries="1",
        ms__state__cursor__commit=commit,
        ms__state__cursor__commit__seconds="0",
    )

    report = task.run(job)

    assert report.failure is None
    assert sent(script, 1) == [{"id": number} for number in again]
    assert Path(report.files[0].path).exists()
    assert report.rows == 2


def test_a_row_has_the_same_key_in_every_attempt(task: UnitTask) -> None:
    script = task.script([TransientSourceError("gone")], [Page(), Page()])

    task.run(sending(task, [{"id": 7}, {"id": 8}], "a", task__maxretries="1"))

    first, second = script.sessions
    assert first.asked[0].idempotency_key == second.asked[0].idempotency_key  # type: ignore[union-attr]
    assert first.asked[0].idempotency_key != second.asked[1].idempotency_key  # type: ignore[union-attr]
