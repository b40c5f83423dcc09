"""Rows that must not be repeated: after one was taken none is sent twice unasked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dil import config
from dil.errors import WriteError
from dil.operator import run_history
from dil.publishing.publisher import Publisher
from dil.run.lease import leased
from dil.state import open_store
from dil.writing.staging import StagedWriter
from tests.integration.test_egress import AGAIN, Sender, sender
from tests.killed import KilledError, killed

__all__ = ["sender"]

RETRIED = {"task.maxretries": "2"}
RESUMES = {"ms.egress.resume": "true"}


def two_units(sender: Sender, **changes: str) -> dict[str, str]:
    """Return a job that sends rows 1 and 2 for unit a, and row 11 for unit b."""
    (sender.folder / "rows_a.json").write_text('{"id": 1}\n{"id": 2}\n')
    (sender.folder / "rows_b.json").write_text('{"id": 11}\n')
    days = {"from": "2020-01-01", "to": "2020-01-02"}
    watermarks = [
        {"name": "system", "type": "datetime", "range": days},
        {"name": "unit", "type": "unit", "units": "a,b"},
    ]
    path = str(sender.folder / "rows_{{unit}}.json")
    payload = [{"path": path, "fields": ["id"], "category": "payload"}]
    return {
        "ms.watermark": json.dumps(watermarks),
        "ms.parameters": json.dumps([{"name": "unit"}]),
        "ms.secondary.input": json.dumps(payload),
        "state.store.enabled": "true",
        "extract.table.type": "APPEND_ONLY",
        **{name.replace("__", "."): text for name, text in changes.items()},
    }


def arrived(sender: Sender, row: int) -> int:
    """Return how often a row came in, taken or not."""
    return [got.body["id"] for got in sender.receiver.got].count(row)


@pytest.mark.parametrize(
    ("changes", "taken"),
    [
        ({"ms.output.schema": '[{"columnName":"ok","dataType":{"type":"boolean"}}]'}, None),
        ({"ms.work.unit.min.records": "100"}, [1, 2, 3, 4, 5, 6]),
        ({"ms.http.requests.max": "4"}, [1, 2, 3, 4]),
    ],
    ids=["an answer that does not convert", "too few rows", "a budget of our own"],
)
def test_whatever_fails_after_rows_were_taken_they_are_not_sent_again_unasked(
    sender: Sender, changes: dict[str, str], taken: list[int] | None
) -> None:
    first = sender.run({**changes, **RETRIED})
    known = list(sender.receiver.ids)
    assert first["status"] == "failed"
    assert known
    assert taken is None or known == taken
    assert "not sent again" in first["errors"][0]

    second = sender.run({**changes, **RETRIED})

    assert second["codes"] == ["DIL-SRC-UNKNOWN"]
    assert sender.receiver.ids == known


def test_a_full_disk_is_no_reason_to_send_rows_once_more(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, writes = StagedWriter.write, []

    def full(writer: StagedWriter, batch: Any) -> None:
        writes.append(batch)
        if len(writes) == 3:
            raise WriteError("no space left on device")
        real(writer, batch)

    monkeypatch.setattr(StagedWriter, "write", full)

    told = sender.run(RETRIED)

    assert told["codes"] == ["DIL-WRITE"]
    assert sender.receiver.ids == [1, 2, 3]
    assert sender.run(RETRIED)["codes"] == ["DIL-SRC-UNKNOWN"]


def test_a_refusal_after_rows_were_taken_says_how_many_and_is_not_retried(sender: Sender) -> None:
    sender.receiver.statuses[3] = 422

    told = sender.run(RETRIED)

    assert told["codes"] == ["DIL-SRC"]
    assert "took the rows of 2 requests before that" in told["errors"][0]
    assert (sender.receiver.ids, arrived(sender, 3)) == ([1, 2], 1)
    sender.receiver.statuses.clear()
    assert sender.run()["codes"] == ["DIL-SRC-UNKNOWN"]
    assert sender.run(AGAIN)["status"] == "success"


def test_a_refusal_of_the_first_row_is_retried_by_attempts_and_runs(sender: Sender) -> None:
    sender.receiver.statuses[1] = 422
    assert sender.run(RETRIED)["codes"] == ["DIL-SRC"]
    assert arrived(sender, 1) == 3
    sender.receiver.statuses.clear()

    assert sender.run()["status"] == "success"
    assert sender.receiver.ids == [1, 2, 3, 4, 5, 6]


def test_progress_that_another_configuration_does_not_know_is_no_leave_to_send(
    sender: Sender,
) -> None:
    sender.receiver.statuses[3] = 422
    sender.run(RESUMES)
    sender.receiver.statuses.clear()

    told = sender.run({**RESUMES, "ms.work.unit.min.records": "1"})

    assert told["codes"] == ["DIL-SRC-UNKNOWN"]
    assert sender.receiver.ids == [1, 2]
    assert sender.run(RESUMES)["status"] == "success"
    assert sender.receiver.ids == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("status", [302, 303, 408, 500, 502, 504, 520])
def test_an_answer_after_which_the_row_may_be_taken_leaves_it_in_doubt_and_is_shown(
    sender: Sender, status: int
) -> None:
    sender.receiver.statuses[1] = status

    told = sender.run({**RETRIED, "ms.http.retry.max": "2"})

    assert told["codes"] == ["DIL-SRC-UNKNOWN"]
    assert "no 1" in told["errors"][0]
    sender.receiver.statuses.clear()
    sender.run()
    assert arrived(sender, 1) == 1


@pytest.mark.parametrize("status", [301, 307, 308, 425, 429, 503])
def test_a_row_that_the_answer_says_was_not_taken_is_sent_again(
    sender: Sender, status: int
) -> None:
    sender.receiver.statuses[1] = status
    sender.run(RETRIED)
    assert arrived(sender, 1) == 3


@pytest.mark.parametrize("status", [425, 429, 503])
def test_a_row_that_was_not_taken_is_sent_again_after_rows_that_were(
    sender: Sender, status: int
) -> None:
    sender.receiver.statuses[3] = status
    sender.receiver.on_row = lambda body: sender.receiver.statuses.pop(body["id"], None)

    told = sender.run({"ms.http.retry.max": "1"})

    assert told["status"] == "success"
    assert sender.receiver.ids == [1, 2, 3, 4, 5, 6]


def test_a_server_error_that_the_job_lists_is_a_refusal_of_the_row(sender: Sender) -> None:
    sender.receiver.statuses[3] = 500

    told = sender.run({"ms.http.statuses": '{"error":[500]}', "ms.egress.failed.rows": "keep"})

    assert told["status"] == "success"
    assert [line["id"] for line in sender.lines("_failed")] == [3]


@pytest.mark.parametrize("group", ["error", "warning"])
def test_a_redirect_that_the_job_lists_leaves_no_doubt(sender: Sender, group: str) -> None:
    sender.receiver.statuses[1] = 303
    listed = {"ms.http.statuses": json.dumps({group: [303]})}

    told = sender.run(listed)

    assert told["codes"] == ([] if group == "warning" else ["DIL-SRC"])
    sender.receiver.statuses.clear()
    assert sender.run(listed)["status"] == "success"


def test_answers_that_were_swept_unpublished_leave_the_work_unit_in_doubt(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = two_units(sender, job__commit__policy="successful")
    sender.receiver.statuses[11] = 422
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "make_visible", killed)
        with pytest.raises(KilledError):
            sender.run(job)
    sender.receiver.statuses.clear()
    other = {**job, "ms.work.unit.min.records": "1"}  # takes nothing over, and sweeps

    for _ in range(2):
        assert sender.run(other)["codes"] == ["DIL-SRC-UNKNOWN"]

    assert sender.receiver.ids == [1, 2, 11]


def test_cleaning_the_staging_of_runs_leaves_the_start_markers(sender: Sender) -> None:
    job_changes = two_units(sender)
    sender.receiver.statuses[11] = 422
    assert sender.run(job_changes)["status"] == "failed"
    sender.receiver.statuses.clear()
    job = config.load(sender.job(job_changes), environ={}).job

    def clock() -> int:
        return 1_900_000_000_000

    with (
        open_store(job.state, job.name, clock=clock) as store,
        leased(job, store, "clean", clock) as lease,
    ):
        found = run_history.leftovers(job, store)
        assert [each.run_id for each in found] == ["r1"]
        run_history.clean(job, store, lease, found)

    assert sender.run(job_changes)["codes"] == ["DIL-SRC-UNKNOWN"]
    assert sender.receiver.ids == [1, 2, 11]


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_what_was_sent_is_taken_over_under_every_publish_mode(sender: Sender, mode: str) -> None:
    job = two_units(sender, ms__publish__mode=mode)
    sender.receiver.statuses[11] = 422
    assert sender.run(job)["status"] == "failed"
    sender.receiver.statuses.clear()

    assert sender.run(job)["status"] == "success"

    assert sender.receiver.ids == [1, 2, 11]
    assert sorted(line["ok"] for line in sender.lines(".")) == [1, 2, 11]
