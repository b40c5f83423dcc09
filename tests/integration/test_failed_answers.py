"""Answers of the status 200 that report an error, as those of Slack, GraphQL and Marketo do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.model.report import RunReport, RunStatus
from tests.integration.third_party_jobs import Facts, ThirdPartyJob
from tests.servers.http_server import HttpServer, Reply
from tests.servers.rows import Dataset

CURSOR = [{"name": "cursor", "type": "session"}]


@pytest.fixture(scope="module")
def running() -> Iterator[HttpServer]:
    with HttpServer(Dataset.generate(1)) as server:
        yield server


@pytest.fixture
def server(running: HttpServer) -> HttpServer:
    running.state.log.clear()
    return running


def reply(answer: object, **headers: str) -> Reply:
    return Reply(json.dumps(answer).encode(), headers=tuple(headers.items()))


def page(ids: list[int], following: str | None = None, **more: object) -> Reply:
    return reply({"ok": True, "data": [{"id": each} for each in ids], "next": following, **more})


def limited(wait_s: int = 0) -> Reply:
    text = json.dumps({"ok": False, "error": "ratelimited", "user": "zoe@example.com"}).encode()
    return Reply(text, headers=(("Retry-After", str(wait_s)),))


def read(server: HttpServer, folder: Path, failing: object, *replies: Reply, **facts: object):
    """Run a job with this fail condition over scripted pages; return its report and its ids."""
    server.script("/page", *replies)
    given: Facts = {
        "ms.data.field": "data",
        "ms.parameters": CURSOR,
        "ms.session.key.field": {"name": "next", "failCondition": failing},
        **facts,
    }
    given = {name: value for name, value in given.items() if value is not None}
    job = ThirdPartyJob(folder, f"{server.url}/page", given)
    report = job.run()
    return report, [row.get("id") for row in job.rows()]


def error(report: RunReport) -> str:
    assert report.status is RunStatus.FAILED
    return report.failures[0].error


SLACK = {"name": "error", "retry": {"regexp": "ratelimited"}}
RETRIES = {"ms.http.retry.max": 3}


def test_partial_data_beside_errors_fails_with_the_words_of_the_source(server, tmp_path):
    errors = [{"message": "Cost limit exceeded", "path": ["orders", "z0e"]}]
    report, ids = read(
        server, tmp_path, {"name": "errors"}, page([1], "b"), page([2], errors=errors)
    )
    assert "the answer reports a failure" in error(report)
    assert '"errors" is "[{"message":"Cost limit exceeded"' in error(report)
    assert ids == []


def test_an_error_document_without_rows_is_explained_by_its_own_words(server, tmp_path):
    answer = {"success": False, "requestId": "a#1", "message": "Lead not found"}
    condition = {"name": "success", "regexp": "false"}
    report, _ = read(server, tmp_path, condition, reply(answer))
    assert '"success" is false, "message" is "Lead not found"' in error(report)
    assert "a#1" not in error(report)


def test_an_error_document_with_a_value_in_place_of_rows_is_asked_for_again(server, tmp_path):
    busy = reply({"ok": False, "error": "ratelimited", "data": False}, **{"Retry-After": "0"})
    report, ids = read(server, tmp_path, SLACK, busy, page([1]), **RETRIES)
    assert (report.status, ids) == (RunStatus.SUCCESS, [1])


def test_a_later_error_document_fails_instead_of_ending_the_pages(server, tmp_path):
    report, ids = read(
        server, tmp_path, {"name": "error"}, page([1], "b"), reply({"error": "invalid_cursor"})
    )
    assert '"error" is "invalid_cursor"' in error(report)
    assert ids == []


def test_a_listed_failure_is_asked_for_again_until_it_passes(server, tmp_path):
    replies = [limited(), limited(), page([1], "b"), limited(), page([2])]
    report, ids = read(server, tmp_path, SLACK, *replies, **RETRIES)
    assert (report.status, ids) == (RunStatus.SUCCESS, [1, 2])
    cursors = [dict(each.query).get("cursor") for each in server.requests]
    assert cursors == [None, None, None, "b", "b"]


def test_a_failure_that_is_not_listed_is_not_asked_for_again(server, tmp_path):
    report, _ = read(server, tmp_path, SLACK, reply({"ok": False, "error": "no_auth"}), **RETRIES)
    assert '"error" is "no_auth"' in error(report)
    assert server.count("/page") == 1


def test_retries_end_with_the_budget_of_a_429(server, tmp_path):
    report, _ = read(server, tmp_path, SLACK, limited(), **{"ms.http.retry.max": 2})
    assert '"error" is "ratelimited"; the request was sent 3 times' in error(report)
    assert report.failures[0].code == "DIL-SRC-TRANSIENT"
    assert server.count("/page") == 3


def test_a_status_429_and_a_failed_answer_spend_one_budget(server, tmp_path):
    busy = Reply(status=429, headers=(("Retry-After", "0"),))
    report, _ = read(server, tmp_path, SLACK, busy, busy, limited(), busy, **RETRIES)
    assert report.failures[0].code == "DIL-SRC-TRANSIENT"
    assert server.count("/page") == 4


def test_a_longer_wait_than_the_job_allows_is_a_spent_quota(server, tmp_path):
    report, _ = read(server, tmp_path, SLACK, limited(wait_s=9_000), **RETRIES)
    assert report.failures[0].code == "DIL-QUOTA"
    assert '"error" is "ratelimited"; the source asks to wait 9000 s' in error(report)


@pytest.mark.parametrize("value", [None, False, 0, "0", "", [], {}])
def test_a_value_that_says_no_is_no_failure(server, tmp_path, value):
    report, ids = read(server, tmp_path, {"name": "errors"}, page([1], errors=value))
    assert (report.status, ids) == (RunStatus.SUCCESS, [1])


def test_a_job_without_a_session_key_can_have_a_fail_condition(server, tmp_path):
    facts = {
        "ms.session.key.field": {"failCondition": {"name": "error"}},
        "ms.parameters": [{"name": "page", "type": "pageno"}],
        "ms.pagination": {"initialvalues": [0, 1, 1]},
    }
    pages = [page([1]), page([2]), page([])]
    report, ids = read(server, tmp_path / "all", None, *pages, **facts)
    assert (report.status, ids) == (RunStatus.SUCCESS, [1, 2])
    report, _ = read(server, tmp_path / "failed", None, page([1]), limited(), **facts)
    assert '"error" is "ratelimited"' in error(report)


def test_a_header_may_show_the_failure(server, tmp_path):
    failed = reply({"data": []}, **{"X-Error": "maintenance"})
    report, _ = read(server, tmp_path, {"name": "x-error"}, failed)
    assert '"x-error" is "maintenance"' in error(report)


def sent(server: HttpServer, folder: Path, *replies: Reply, **facts: object) -> RunReport:
    """Send two rows to a receiver that answers so; the job allows a second attempt."""
    (folder / "rows.json").write_text('{"id": 1}\n{"id": 2}\n')
    payload = {"path": "rows.json", "fields": ["id"], "category": "payload"}
    given = {
        "ms.http.request.method": "POST",
        "ms.secondary.input": [payload],
        "ms.session.key.field": {"failCondition": SLACK},
        "ms.data.field": None,
        "ms.parameters": None,
        "task.maxretries": 1,
        "task.retry.intervalinsec": 0,
        **facts,
    }
    report, _ = read(server, folder, None, *replies, **given)
    return report


def test_a_row_that_the_receiver_did_not_take_is_sent_again(server, tmp_path):
    taken = reply({"ok": True})
    assert sent(server, tmp_path, limited(), taken, **RETRIES).status is RunStatus.SUCCESS
    assert [json.loads(each.body)["id"] for each in server.requests] == [1, 1, 2]


def test_an_attempt_that_was_only_refused_is_followed_by_another(server, tmp_path):
    report = sent(server, tmp_path, limited(), reply({"ok": True}))
    assert report.status is RunStatus.SUCCESS, report.failures
    assert [json.loads(each.body)["id"] for each in server.requests] == [1, 1, 2]
