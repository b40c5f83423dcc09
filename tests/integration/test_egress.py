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


class Desk:
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
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Receiver() as receiver:
        desk = Desk(tmp_path, receiver)
        desk.write(ROWS)
        yield desk


def test_every_row_is_sent_once_and_the_answers_are_the_dataset(desk: Desk) -> None:
    told = desk.run()

    assert told["status"] == "success"
    assert desk.receiver.taken == ROWS
    assert [line["ok"] for line in desk.lines(".")] == [1, 2, 3, 4, 5, 6]


def test_a_refused_row_fails_the_work_unit_unless_the_job_says_otherwise(desk: Desk) -> None:
    desk.receiver.statuses[3] = 422

    told = desk.run()

    assert (told["status"], told["codes"]) == ("failed", ["DIL-SRC"])
    assert desk.receiver.ids == [1, 2]
    assert desk.lines("_failed") == []


def test_refused_rows_are_kept_with_the_answer_and_the_others_go_through(desk: Desk) -> None:
    desk.receiver.statuses |= {2: 422, 5: 404, 6: 422}

    told = desk.run({"ms.egress.failed.rows": "keep"})

    assert told["status"] == "success"
    assert desk.receiver.ids == [1, 3, 4]
    kept = desk.lines("_failed")
    assert [line["id"] for line in kept] == [2, 5, 6]
    assert [line["_failed"]["status"] for line in kept] == [422, 404, 422]
    assert [line["_failed"]["request"] for line in kept] == [2, 5, 6]
    assert "no 5" in kept[1]["_failed"]["answer"]
    assert len({line["_failed"]["idempotency_key"] for line in kept}) == 3
    assert [line["ok"] for line in desk.lines(".")] == [1, 3, 4]


def test_kept_rows_are_sent_again_by_naming_their_folder_as_payload(desk: Desk) -> None:
    desk.receiver.statuses |= {2: 422, 5: 422}
    desk.run({"ms.egress.failed.rows": "keep"})
    desk.receiver.statuses.clear()
    payload = {
        "path": str(desk.folder / "lake/shop/answers/_failed"),
        "fields": ["id", "sum"],
        "category": "payload",
    }

    told = desk.run(
        {
            "job.name": "send-again",
            "extract.table.name": "answers_again",
            "ms.secondary.input": json.dumps([payload]),
        }
    )

    assert told["status"] == "success"
    assert desk.receiver.taken[-2:] == [ROWS[1], ROWS[4]]
    assert sorted(desk.receiver.ids, key=str) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("status", [401, 429, 503, 500, 307])
def test_what_is_not_about_the_row_is_never_kept(desk: Desk, status: int) -> None:
    desk.receiver.statuses[3] = status

    told = desk.run({"ms.egress.failed.rows": "keep"})

    assert told["status"] == "failed"
    assert desk.receiver.ids == [1, 2]
    assert desk.lines("_failed") == []


def test_kept_rows_of_a_work_unit_that_fails_later_are_not_published(desk: Desk) -> None:
    desk.receiver.statuses |= {2: 422, 4: 500}

    assert desk.run({"ms.egress.failed.rows": "keep"})["status"] == "failed"

    assert desk.lines("_failed") == []


def test_a_run_that_replaces_takes_away_the_rows_that_were_refused_before(desk: Desk) -> None:
    keeps = {"ms.egress.failed.rows": "keep", "ms.publish.mode": "replace"}
    desk.receiver.statuses[2] = 422
    desk.run(keeps)
    assert [line["id"] for line in desk.lines("_failed")] == [2]

    desk.receiver.statuses.clear()
    desk.run(keeps)

    assert desk.lines("_failed") == []


def test_rows_go_out_in_batches_and_a_refused_batch_is_kept_row_by_row(desk: Desk) -> None:
    desk.receiver.statuses[None] = 422  # a batch has no id
    batches = {
        "ms.egress.batch.rows": "4",
        "ms.egress.batch.field": "records",
        "ms.egress.failed.rows": "keep",
    }

    assert desk.run(batches)["status"] == "success"

    assert [len(got.body["records"]) for got in desk.receiver.got] == [4, 2]
    assert [line["id"] for line in desk.lines("_failed")] == [1, 2, 3, 4, 5, 6]


def test_an_answer_without_content_is_a_success_without_rows(desk: Desk) -> None:
    desk.receiver.statuses |= {2: 204, 3: 202}

    told = desk.run({"ms.http.statuses": '{"success":[200,202,204]}'})

    assert told["status"] == "success"
    assert desk.receiver.taken == ROWS
    assert [line["ok"] for line in desk.lines(".")] == [1, 3, 4, 5, 6]


def test_a_row_whose_status_is_a_warning_is_told_with_its_status(desk: Desk) -> None:
    desk.receiver.statuses |= {2: 409, 4: 409}

    told = desk.run({"ms.http.statuses": '{"warning":[409]}'})

    assert told["status"] == "success"
    assert desk.receiver.ids == [1, 3, 5, 6]
    assert any("warning" in note for note in told["notes"])


@pytest.mark.parametrize("at", [1, 4, 6])
def test_after_a_kill_nothing_is_sent_again_before_somebody_has_looked(desk: Desk, at: int) -> None:
    desk.run_killed_at(at)
    before = list(desk.receiver.ids)
    assert before == list(range(1, at + 1))

    for _ in range(2):
        told = desk.run()
        assert (told["status"], told["codes"]) == ("failed", ["DIL-SRC-UNKNOWN"])
        assert "may have been sent" in told["errors"][0]
        assert "r1" in told["errors"][0]
    assert desk.receiver.ids == before

    assert desk.run(AGAIN)["status"] == "success"
    assert desk.receiver.ids == [*before, 1, 2, 3, 4, 5, 6]
    assert desk.run()["status"] == "success"


def test_after_a_kill_a_receiver_that_knows_keys_has_every_row_once(desk: Desk) -> None:
    desk.receiver.honours_keys = True
    for at in (2, 5):
        desk.run_killed_at(at, WITH_KEY)

    assert desk.run(WITH_KEY)["status"] == "success"

    assert desk.receiver.taken == ROWS
    keys = {got.body["id"]: set[str | None]() for got in desk.receiver.got}
    for got in desk.receiver.got:
        keys[got.body["id"]].add(got.key)
    assert all(len(each) == 1 and None not in each for each in keys.values())
    assert len(set[str | None]().union(*keys.values())) == len(ROWS)


@pytest.mark.parametrize(
    "changes",
    [{"ms.http.request.method": "PUT"}, {"ms.http.retry.unsafe": "true"}],
    ids=["method", "declared"],
)
def test_rows_that_may_be_repeated_are_sent_again_without_a_word(
    desk: Desk, changes: dict[str, str]
) -> None:
    desk.run_killed_at(3, changes)

    assert desk.run(changes)["status"] == "success"
    assert desk.receiver.ids == [1, 2, 3, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("changes", [WITH_KEY, {"ms.http.retry.unsafe": "true"}])
def test_an_attempt_after_a_clean_refusal_starts_over_where_rows_may_be_repeated(
    desk: Desk, changes: dict[str, str]
) -> None:
    def heal(body: Mapping[str, Any]) -> None:
        if body["id"] == 3:
            desk.receiver.statuses.clear()

    desk.receiver.statuses[3] = 422
    desk.receiver.on_row = heal

    assert desk.run({"task.maxretries": "1", **changes})["status"] == "success"
    assert desk.receiver.ids == [1, 2, 1, 2, 3, 4, 5, 6]


def test_with_resume_rows_that_came_through_are_not_sent_again(desk: Desk) -> None:
    def heal(body: Mapping[str, Any]) -> None:
        if body["id"] == 3:
            desk.receiver.statuses.clear()

    desk.receiver.statuses[3] = 422
    desk.receiver.on_row = heal

    told = desk.run({"task.maxretries": "1", "ms.egress.resume": "true"})

    assert told["status"] == "success"
    assert desk.receiver.taken == ROWS
    assert [line["ok"] for line in desk.lines(".")] == [1, 2, 3, 4, 5, 6]


def test_with_resume_and_a_key_the_next_run_goes_on_with_the_row_that_a_kill_left_open(
    desk: Desk,
) -> None:
    resumes = {**WITH_KEY, "ms.egress.resume": "true"}
    desk.run_killed_at(3, resumes)

    assert desk.run(resumes)["status"] == "success"

    assert desk.receiver.ids == [1, 2, 3, 3, 4, 5, 6]
    assert len({got.key for got in desk.receiver.got}) == len(ROWS)
    assert [line["ok"] for line in desk.lines(".")] == [1, 2, 3, 4, 5, 6]


def test_with_resume_sending_again_repeats_only_the_row_that_nobody_knows_of(desk: Desk) -> None:
    resumes = {"ms.egress.resume": "true"}
    desk.run_killed_at(3, resumes)
    assert desk.run(resumes)["codes"] == ["DIL-SRC-UNKNOWN"]

    assert desk.run({**resumes, **AGAIN})["status"] == "success"

    assert desk.receiver.ids == [1, 2, 3, 3, 4, 5, 6]


def test_rows_refused_before_a_kill_are_kept_by_the_run_that_goes_on(desk: Desk) -> None:
    keeps = {**WITH_KEY, "ms.egress.resume": "true", "ms.egress.failed.rows": "keep"}
    desk.receiver.statuses |= {2: 422, 5: 404}
    desk.run_killed_at(3, keeps)
    desk.run_killed_at(4, keeps)

    assert desk.run(keeps)["status"] == "success"

    assert [got.body["id"] for got in desk.receiver.got] == [1, 2, 3, 3, 4, 4, 5, 6]
    kept = desk.lines("_failed")
    assert [(line["id"], line["_failed"]["status"]) for line in kept] == [(2, 422), (5, 404)]
    assert "no 2" in kept[0]["_failed"]["answer"]
    assert kept[0]["_failed"]["idempotency_key"] == desk.receiver.got[1].key
    assert [line["ok"] for line in desk.lines(".")] == [1, 3, 4, 6]


def test_a_row_without_an_answer_is_never_repeated(desk: Desk) -> None:
    def hang_up(body: Mapping[str, Any]) -> None:
        if body["id"] == 3:
            raise ConnectionAbortedError

    desk.receiver.on_row = hang_up

    told = desk.run({"task.maxretries": "3", "ms.http.retry.max": "3"})
    assert told["codes"] == ["DIL-SRC-UNKNOWN"]
    assert desk.receiver.ids == [1, 2, 3]

    assert desk.run()["codes"] == ["DIL-SRC-UNKNOWN"]
    assert desk.receiver.ids == [1, 2, 3]


def test_the_audit_tells_every_request_and_which_one_a_kill_left_open(desk: Desk) -> None:
    desk.run_killed_at(3, {"ms.audit.enabled": "true"})

    lines = desk.lines("_audit")
    sent = [line["payload"]["id"] for line in lines if line["event"] == "request"]
    answered = [line["sequence"] for line in lines if line["event"] == "answer"]
    assert (sent, answered) == ([1, 2, 3], [1, 2])
    assert {line["run_id"] for line in lines} == {"r1"}
    assert lines[0]["uri"] == f"{desk.receiver.url}/rows"
    assert lines[1]["status"] == 200


def test_the_audit_of_a_failed_run_stays_and_names_no_secret(desk: Desk) -> None:
    desk.receiver.statuses[2] = 422
    secret = {
        "ms.audit.enabled": "true",
        "ms.authentication": '{"method":"bearer","encryption":"none","token":"t0p-s3cr3t-token"}',
        "ms.parameters": '[{"name":"auth","type":"primitive","value":"t0p-s3cr3t-token"}]',
    }
    assert desk.run(secret)["status"] == "failed"

    lines = desk.lines("_audit")
    assert [line.get("status") for line in lines] == [None, 200, None, 422]
    assert "t0p-s3cr3t-token" not in json.dumps(lines)
    assert desk.receiver.got[0].body["auth"] == "t0p-s3cr3t-token"


def test_without_a_place_for_the_audit_nothing_is_sent(desk: Desk) -> None:
    (desk.folder / "full").write_text("no folder")
    audit = {"ms.audit.enabled": "true", "ms.audit.dir": str(desk.folder / "full")}

    with pytest.raises(WriteError, match=r"ms\.audit\.dir is .*full, where .* is no folder"):
        desk.run(audit)
    assert desk.receiver.got == []

    assert desk.run({**audit, "ms.audit.required": "false"})["status"] == "success"
    assert desk.receiver.taken == ROWS
