"""Rows sent to a real receiver: refused, kept, sent again, killed in the middle, recorded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dil.errors import WriteError
from tests.servers.receiver import KEY, Receiver
from tests.torture import egress_process

ROWS = [{"id": number, "sum": f"{number}.50"} for number in range(1, 7)]
WITH_KEY = {"ms.http.idempotency.header": KEY}
AGAIN = {"ms.egress.send.again": "true"}


class Sender:
    """A job that sends the rows of a file, each run in a process of its own."""

    def __init__(self, folder: Path, receiver: Receiver) -> None:
        self.folder = folder
        self.receiver = receiver
        self._runs = 0

    def write(self, rows: list[Mapping[str, Any]]) -> None:
        (self.folder / "rows.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def job(self, changes: Mapping[str, str]) -> Path:
        payload = {
            "path": str(self.folder / "rows.json"),
            "fields": ["id", "sum"],
            "category": "payload",
        }
        facts = {
            "job.name": "send",
            "source.class": "http",
            "ms.extractor.class": "json",
            "ms.source.uri": f"{self.receiver.url}/rows",
            "ms.http.request.method": "POST",
            "ms.secondary.input": json.dumps([payload]),
            "ms.data.field": "data",
            "ms.timezone": "UTC",
            "extract.namespace": "shop",
            "extract.table.name": "answers",
            "extract.table.type": "SNAPSHOT_ONLY",
            "ms.watermark": json.dumps(
                [
                    {
                        "name": "system",
                        "type": "datetime",
                        "range": {"from": "2020-01-01", "to": "2020-01-02"},
                    }
                ]
            ),
            "state.store.enabled": "false",
            "state.store.dir": str(self.folder / "state"),
            "writer.output.format": "JSON",
            "writer.file.path.type": "namespace_table",
            "data.publisher.final.dir": str(self.folder / "lake"),
            "ms.http.retry.max": "0",
            "task.maxretries": "0",
            **changes,
        }
        path = self.folder / "send.conf"
        path.write_text("".join(f"{name}={value}\n" for name, value in facts.items()))
        return path

    def run(self, changes: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Run to the end in this process; return what the run tells."""
        self._runs += 1
        return egress_process.run(str(self.job(changes or {})), f"r{self._runs}")

    def run_killed_at(self, row: int, changes: Mapping[str, str] | None = None) -> None:
        """Run in a process that is killed once the receiver has taken a row, before it answers."""
        self._runs += 1
        job = str(self.job(changes or {}))
        killed = threading.Event()

        def kill(body: Mapping[str, Any]) -> None:
            if body["id"] == row:
                os.kill(process.pid, signal.SIGKILL)
                killed.wait(timeout=30)

        self.receiver.on_row = kill
        with subprocess.Popen(
            [sys.executable, str(egress_process.__file__), job, f"r{self._runs}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            assert process.wait(timeout=60) == -signal.SIGKILL
        self.receiver.on_row = lambda body: None
        killed.set()

    def lines(self, part: str) -> list[dict[str, Any]]:
        """Return the JSON lines of all files of a hidden folder of the dataset."""
        root = self.folder / "lake" / "shop" / "answers" / part
        return [
            json.loads(line)
            for path in sorted(root.glob("*.json"))
            if not path.name.startswith("_")
            for line in path.read_text().splitlines()
        ]


@pytest.fixture
def sender(tmp_path: Path) -> Iterator[Sender]:
    with Receiver() as receiver:
        sender = Sender(tmp_path, receiver)
        sender.write(ROWS)
        yield sender


def test_every_row_is_sent_once_and_the_answers_are_the_dataset(sender: Sender) -> None:
    told = sender.run()

    assert told["status"] == "success"
    assert sender.receiver.taken == ROWS
    assert [line["ok"] for line in sender.lines(".")] == [1, 2, 3, 4, 5, 6]


def test_a_refused_row_fails_the_work_unit_unless_the_job_says_otherwise(sender: Sender) -> None:
    sender.receiver.statuses[3] = 422

    told = sender.run()

    assert (told["status"], told["codes"]) == ("failed", ["DIL-SRC"])
    assert sender.receiver.ids == [1, 2]
    assert sender.lines("_failed") == []


def test_refused_rows_are_kept_with_the_answer_and_the_others_go_through(sender: Sender) -> None:
    sender.receiver.statuses |= {2: 422, 5: 404, 6: 422}

    told = sender.run({"ms.egress.failed.rows": "keep"})

    assert told["status"] == "success"
    assert sender.receiver.ids == [1, 3, 4]
    kept = sender.lines("_failed")
    assert [line["id"] for line in kept] == [2, 5, 6]
    assert [line["_failed"]["status"] for line in kept] == [422, 404, 422]
    assert [line["_failed"]["request"] for line in kept] == [2, 5, 6]
    assert "no 5" in kept[1]["_failed"]["answer"]
    assert len({line["_failed"]["idempotency_key"] for line in kept}) == 3
    assert [line["ok"] for line in sender.lines(".")] == [1, 3, 4]


def test_kept_rows_are_sent_again_by_naming_their_folder_as_payload(sender: Sender) -> None:
    sender.receiver.statuses |= {2: 422, 5: 422}
    sender.run({"ms.egress.failed.rows": "keep"})
    sender.receiver.statuses.clear()
    payload = {
        "path": str(sender.folder / "lake/shop/answers/_failed"),
        "fields": ["id", "sum"],
        "category": "payload",
    }

    told = sender.run(
        {
            "job.name": "send-again",
            "extract.table.name": "answers_again",
            "ms.secondary.input": json.dumps([payload]),
        }
    )

    assert told["status"] == "success"
    assert sender.receiver.taken[-2:] == [ROWS[1], ROWS[4]]
    assert sorted(sender.receiver.ids, key=str) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("status", [401, 429, 503, 500, 307])
def test_what_is_not_about_the_row_is_never_kept(sender: Sender, status: int) -> None:
    sender.receiver.statuses[3] = status

    told = sender.run({"ms.egress.failed.rows": "keep"})

    assert told["status"] == "failed"
    assert sender.receiver.ids == [1, 2]
    assert sender.lines("_failed") == []


def test_kept_rows_of_a_work_unit_that_fails_later_are_not_published(sender: Sender) -> None:
    sender.receiver.statuses |= {2: 422, 4: 500}

    assert sender.run({"ms.egress.failed.rows": "keep"})["status"] == "failed"

    assert sender.lines("_failed") == []


def test_a_run_that_replaces_takes_away_the_rows_that_were_refused_before(sender: Sender) -> None:
    keeps = {"ms.egress.failed.rows": "keep", "ms.publish.mode": "replace"}
    sender.receiver.statuses[2] = 422
    sender.run(keeps)
    assert [line["id"] for line in sender.lines("_failed")] == [2]

    sender.receiver.statuses.clear()
    sender.run(keeps)

    assert sender.lines("_failed") == []


def test_rows_go_out_in_batches_and_a_refused_batch_is_kept_row_by_row(sender: Sender) -> None:
    sender.receiver.statuses[None] = 422  # a batch has no id
    batches = {
        "ms.egress.batch.rows": "4",
        "ms.egress.batch.field": "records",
        "ms.egress.failed.rows": "keep",
    }

    assert sender.run(batches)["status"] == "success"

    assert [len(got.body["records"]) for got in sender.receiver.got] == [4, 2]
    assert [line["id"] for line in sender.lines("_failed")] == [1, 2, 3, 4, 5, 6]


def test_an_answer_without_content_is_a_success_without_rows(sender: Sender) -> None:
    sender.receiver.statuses |= {2: 204, 3: 202}

    told = sender.run({"ms.http.statuses": '{"success":[200,202,204]}'})

    assert told["status"] == "success"
    assert sender.receiver.taken == ROWS
    assert [line["ok"] for line in sender.lines(".")] == [1, 3, 4, 5, 6]


def test_a_row_whose_status_is_a_warning_is_told_with_its_status(sender: Sender) -> None:
    sender.receiver.statuses |= {2: 409, 4: 409}

    told = sender.run({"ms.http.statuses": '{"warning":[409]}'})

    assert told["status"] == "success"
    assert sender.receiver.ids == [1, 3, 5, 6]
    assert any("warning" in note for note in told["notes"])


@pytest.mark.parametrize("at", [1, 4, 6])
def test_after_a_kill_nothing_is_sent_again_before_somebody_has_looked(
    sender: Sender, at: int
) -> None:
    sender.run_killed_at(at)
    before = list(sender.receiver.ids)
    assert before == list(range(1, at + 1))

    for _ in range(2):
        told = sender.run()
        assert (told["status"], told["codes"]) == ("failed", ["DIL-SRC-UNKNOWN"])
        assert "may have been sent" in told["errors"][0]
        assert "r1" in told["errors"][0]
    assert sender.receiver.ids == before

    assert sender.run(AGAIN)["status"] == "success"
    assert sender.receiver.ids == [*before, 1, 2, 3, 4, 5, 6]
    assert sender.run()["status"] == "success"


def test_after_a_kill_a_receiver_that_knows_keys_has_every_row_once(sender: Sender) -> None:
    sender.receiver.honours_keys = True
    for at in (2, 5):
        sender.run_killed_at(at, WITH_KEY)

    assert sender.run(WITH_KEY)["status"] == "success"

    assert sender.receiver.taken == ROWS
    keys = {got.body["id"]: set[str | None]() for got in sender.receiver.got}
    for got in sender.receiver.got:
        keys[got.body["id"]].add(got.key)
    assert all(len(each) == 1 and None not in each for each in keys.values())
    assert len(set[str | None]().union(*keys.values())) == len(ROWS)


@pytest.mark.parametrize(
    "changes",
    [{"ms.http.request.method": "PUT"}, {"ms.http.retry.unsafe": "true"}],
    ids=["method", "declared"],
)
def test_rows_that_may_be_repeated_are_sent_again_without_a_word(
    sender: Sender, changes: dict[str, str]
) -> None:
    sender.run_killed_at(3, changes)

    assert sender.run(changes)["status"] == "success"
    assert sender.receiver.ids == [1, 2, 3, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("changes", [WITH_KEY, {"ms.http.retry.unsafe": "true"}])
def test_an_attempt_after_a_clean_refusal_starts_over_where_rows_may_be_repeated(
    sender: Sender, changes: dict[str, str]
) -> None:
    def heal(body: Mapping[str, Any]) -> None:
        if body["id"] == 3:
            sender.receiver.statuses.clear()

    sender.receiver.statuses[3] = 422
    sender.receiver.on_row = heal

    assert sender.run({"task.maxretries": "1", **changes})["status"] == "success"
    assert sender.receiver.ids == [1, 2, 1, 2, 3, 4, 5, 6]


def test_with_resume_rows_that_came_through_are_not_sent_again(sender: Sender) -> None:
    def heal(body: Mapping[str, Any]) -> None:
        if body["id"] == 3:
            sender.receiver.statuses.clear()

    sender.receiver.statuses[3] = 422
    sender.receiver.on_row = heal

    told = sender.run({"task.maxretries": "1", "ms.egress.resume": "true"})

    assert told["status"] == "success"
    assert sender.receiver.taken == ROWS
    assert [line["ok"] for line in sender.lines(".")] == [1, 2, 3, 4, 5, 6]


def test_with_resume_and_a_key_the_next_run_goes_on_with_the_row_that_a_kill_left_open(
    sender: Sender,
) -> None:
    resumes = {**WITH_KEY, "ms.egress.resume": "true"}
    sender.run_killed_at(3, resumes)

    assert sender.run(resumes)["status"] == "success"

    assert sender.receiver.ids == [1, 2, 3, 3, 4, 5, 6]
    assert len({got.key for got in sender.receiver.got}) == len(ROWS)
    assert [line["ok"] for line in sender.lines(".")] == [1, 2, 3, 4, 5, 6]


def test_with_resume_sending_again_repeats_only_the_row_that_nobody_knows_of(
    sender: Sender,
) -> None:
    resumes = {"ms.egress.resume": "true"}
    sender.run_killed_at(3, resumes)
    assert sender.run(resumes)["codes"] == ["DIL-SRC-UNKNOWN"]

    assert sender.run({**resumes, **AGAIN})["status"] == "success"

    assert sender.receiver.ids == [1, 2, 3, 3, 4, 5, 6]


def test_rows_refused_before_a_kill_are_kept_by_the_run_that_goes_on(sender: Sender) -> None:
    keeps = {**WITH_KEY, "ms.egress.resume": "true", "ms.egress.failed.rows": "keep"}
    sender.receiver.statuses |= {2: 422, 5: 404}
    sender.run_killed_at(3, keeps)
    sender.run_killed_at(4, keeps)

    assert sender.run(keeps)["status"] == "success"

    assert [got.body["id"] for got in sender.receiver.got] == [1, 2, 3, 3, 4, 4, 5, 6]
    kept = sender.lines("_failed")
    assert [(line["id"], line["_failed"]["status"]) for line in kept] == [(2, 422), (5, 404)]
    assert "no 2" in kept[0]["_failed"]["answer"]
    assert kept[0]["_failed"]["idempotency_key"] == sender.receiver.got[1].key
    assert [line["ok"] for line in sender.lines(".")] == [1, 3, 4, 6]


def test_a_row_without_an_answer_is_never_repeated(sender: Sender) -> None:
    def hang_up(body: Mapping[str, Any]) -> None:
        if body["id"] == 3:
            raise ConnectionAbortedError

    sender.receiver.on_row = hang_up

    told = sender.run({"task.maxretries": "3", "ms.http.retry.max": "3"})
    assert told["codes"] == ["DIL-SRC-UNKNOWN"]
    assert sender.receiver.ids == [1, 2, 3]

    assert sender.run()["codes"] == ["DIL-SRC-UNKNOWN"]
    assert sender.receiver.ids == [1, 2, 3]


def test_the_audit_tells_every_request_and_which_one_a_kill_left_open(sender: Sender) -> None:
    sender.run_killed_at(3, {"ms.audit.enabled": "true"})

    lines = sender.lines("_audit")
    sent = [line["payload"]["id"] for line in lines if line["event"] == "request"]
    answered = [line["sequence"] for line in lines if line["event"] == "answer"]
    assert (sent, answered) == ([1, 2, 3], [1, 2])
    assert {line["run_id"] for line in lines} == {"r1"}
    assert lines[0]["uri"] == f"{sender.receiver.url}/rows"
    assert lines[1]["status"] == 200


def test_the_audit_of_a_failed_run_stays_and_names_no_secret(sender: Sender) -> None:
    sender.receiver.statuses[2] = 422
    secret = {
        "ms.audit.enabled": "true",
        "ms.authentication": '{"method":"bearer","encryption":"none","token":"t0p-s3cr3t-token"}',
        "ms.parameters": '[{"name":"auth","type":"primitive","value":"t0p-s3cr3t-token"}]',
    }
    assert sender.run(secret)["status"] == "failed"

    lines = sender.lines("_audit")
    assert [line.get("status") for line in lines] == [None, 200, None, 422]
    assert "t0p-s3cr3t-token" not in json.dumps(lines)
    assert sender.receiver.got[0].body["auth"] == "t0p-s3cr3t-token"


def test_without_a_place_for_the_audit_nothing_is_sent(sender: Sender) -> None:
    (sender.folder / "full").write_text("no folder")
    audit = {"ms.audit.enabled": "true", "ms.audit.dir": str(sender.folder / "full")}

    with pytest.raises(WriteError, match=r"ms\.audit\.dir is .*full, where .* is no folder"):
        sender.run(audit)
    assert sender.receiver.got == []

    assert sender.run({**audit, "ms.audit.required": "false"})["status"] == "success"
    assert sender.receiver.taken == ROWS
