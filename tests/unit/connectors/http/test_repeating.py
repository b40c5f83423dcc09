"""Which payload rows may be sent again when nobody knows whether they were taken."""

from __future__ import annotations

import pytest

from connectors.http.outgoing import build_outgoing
from connectors.http.settings import HttpSettings, RetryBudget, repeats_rows
from dil.spi.connector import RequestValues, Response
from tests.servers.http_server import HttpServer, Reply
from tests.servers.http_sessions import Session

ROW = RequestValues({}, {}, payload={"id": 1}, idempotency_key="k")
URI = "https://r.test/rows"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (HttpSettings(URI, method="POST"), False),
        (HttpSettings(URI, method="PATCH"), False),
        (HttpSettings(URI, method="PUT"), True),
        (HttpSettings(URI, method="DELETE"), True),
        (HttpSettings(URI, method="POST", idempotency_header="Idempotency-Key"), True),
        (HttpSettings(URI, method="PATCH", repeats_unsafe=True), True),
    ],
    ids=lambda value: value.method if isinstance(value, HttpSettings) else "",
)
def test_a_job_and_each_of_its_requests_agree_on_repeating(
    settings: HttpSettings, expected: bool
) -> None:
    assert repeats_rows(settings) is expected
    assert build_outgoing(settings, ROW).is_repeatable is expected


def test_a_request_without_a_key_of_its_own_is_not_repeated() -> None:
    settings = HttpSettings(URI, method="PATCH", idempotency_header="Idempotency-Key")
    assert not build_outgoing(settings, RequestValues({}, {})).is_repeatable


def test_answers_that_report_failures_share_the_retries_of_their_request() -> None:
    with HttpServer() as server:
        server.script("/x", *[Reply(b"{}")] * 5)
        with Session(f"{server.url}/x", retry=RetryBudget(attempts=2)) as session:
            session.get()
            for _ in range(2):
                assert session.waits_to_repeat(Response(None), "busy", 0)
                session.get()
            assert not session.waits_to_repeat(Response(None), "busy", 0)
            session.get()  # another request has all its retries
            assert session.waits_to_repeat(Response(None), "busy", 0)
