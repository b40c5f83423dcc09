"""A rate, a budget and a token that all work units of a run share, told from outside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.model.report import RunStatus
from tests.servers.http_server import Fault, HttpServer, Reply
from tests.servers.rows import Dataset
from tests.servers.token_server import CLIENT, CLIENT_SECRET, FIRST_REFRESH, TokenServer
from tests.stories import STEP_MS, Story, day, ids_of

DAYS = 3  # two units each: six work units, one request each


@pytest.fixture
def source() -> Iterator[HttpServer]:
    rows = Dataset.generate(20, units=("a", "b"), step_ms=STEP_MS)
    with HttpServer(rows) as running:
        yield running


def oauth2(server: TokenServer, **members: object) -> str:
    return json.dumps(
        {
            "method": "oauth2",
            "grant": "client_credentials",
            "tokenUri": server.url,
            "clientId": CLIENT,
            "clientSecret": CLIENT_SECRET,
            **members,
        }
    )


def test_a_budget_ends_the_run_and_the_next_ones_go_on_until_all_is_there(
    tmp_path: Path, source: HttpServer
) -> None:
    story = Story(tmp_path, source, ms__http__requests__max="2", job__commit__policy="successful")
    reports = [story.run(day(DAYS)) for _ in range(3)]

    assert [report.status for report in reports] == [
        RunStatus.PARTIAL,
        RunStatus.PARTIAL,
        RunStatus.SUCCESS,
    ]
    assert {failure.code for failure in reports[0].failures} == {"DIL-QUOTA"}
    assert [failure.signature is None for failure in reports[0].failures] == [False, True]
    assert "ms.http.requests.max" in reports[0].failures[0].error
    assert reports[0].units.not_started == 3
    assert source.count("/records") == 6
    assert story.rows() == ids_of("a", "b", days=range(DAYS))


def test_a_grace_period_that_uses_up_the_budget_does_not_hold_new_work_units_back(
    tmp_path: Path, source: HttpServer
) -> None:
    story = Story(
        tmp_path,
        source,
        ms__http__requests__max="4",
        ms__grace__period__days="2",
        ms__publish__mode="window_replace",
        job__commit__policy="successful",
    )
    assert story.run(day(2)).status is RunStatus.SUCCESS
    assert story.run(day(3)).status is RunStatus.PARTIAL
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_under_the_policy_full_nothing_is_published_before_all_is_read_and_nothing_read_twice(
    tmp_path: Path, source: HttpServer
) -> None:
    story = Story(tmp_path, source, ms__http__requests__max="4")
    first = story.run(day(DAYS))
    assert first.status is RunStatus.FAILED
    assert first.failures[-1].code == "DIL-QUOTA"
    assert story.rows() == {}

    assert story.run(day(DAYS)).status is RunStatus.SUCCESS
    assert source.count("/records") == 6


def test_a_quota_of_the_source_stops_the_run_at_the_first_work_unit_that_meets_it(
    tmp_path: Path, source: HttpServer
) -> None:
    source.faults.append(Fault("status", at=(3,), status=429, headers=(("Retry-After", "86400"),)))
    story = Story(
        tmp_path, source, ms__http__rate__limit="100000/s", job__commit__policy="successful"
    )
    report = story.run(day(DAYS))

    assert report.status is RunStatus.PARTIAL
    assert source.count("/records") == 3
    assert "DIL-QUOTA" in [failure.code for failure in report.failures]


def test_all_work_units_use_one_token(tmp_path: Path, source: HttpServer) -> None:
    with TokenServer(issued=lambda token: setattr(source.state, "token", token)) as server:
        report = Story(tmp_path, source, ms__authentication=oauth2(server)).run(day(DAYS))

    assert report.status is RunStatus.SUCCESS
    assert len(server.forms) == 1
    assert {entry.headers["Authorization"] for entry in source.requests} == {"Bearer access-1"}


def test_a_token_that_is_refused_in_the_middle_is_replaced_and_no_row_is_lost(
    tmp_path: Path, source: HttpServer
) -> None:
    with TokenServer(issued=lambda token: setattr(source.state, "token", token)) as server:
        source.faults.append(Fault("status", at=(3,), status=401))
        story = Story(tmp_path, source, ms__authentication=oauth2(server))
        report = story.run(day(DAYS))

    assert report.status is RunStatus.SUCCESS
    assert len(server.forms) == 2
    assert [entry.headers["Authorization"] for entry in source.requests] == [
        *["Bearer access-1"] * 3,
        *["Bearer access-2"] * 4,
    ]
    assert story.rows() == ids_of("a", "b", days=range(DAYS))


def test_a_source_that_refuses_every_token_fails_after_one_replay(
    tmp_path: Path, source: HttpServer
) -> None:
    source.faults.append(Fault("status", status=401))
    with TokenServer(issued=lambda token: setattr(source.state, "token", token)) as server:
        report = Story(tmp_path, source, ms__authentication=oauth2(server)).run(day(1))

    assert report.status is RunStatus.FAILED
    assert {failure.code for failure in report.failures} == {"DIL-SRC-AUTH"}
    assert source.count("/records") == 4  # two work units, each once and once again


def test_a_refused_client_is_asked_about_once_and_its_secret_is_nowhere(
    tmp_path: Path, source: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    with TokenServer() as server:
        members = oauth2(server, clientSecret="wr0ng-secret")
        report = Story(tmp_path, source, ms__authentication=members).run(day(DAYS))

    assert report.status is RunStatus.FAILED
    assert "invalid_client" in report.failures[0].error
    assert len(server.forms) == 1
    assert source.count("/records") == 0
    assert "wr0ng" not in f"{report}"


def test_a_rotating_refresh_token_serves_run_after_run(tmp_path: Path, source: HttpServer) -> None:
    with TokenServer(
        rotates=True, issued=lambda token: setattr(source.state, "token", token)
    ) as server:
        members = oauth2(
            server,
            grant="refresh_token",
            refreshToken=FIRST_REFRESH,
            refreshTokenFile="refresh-token",
        )
        story = Story(tmp_path, source, ms__authentication=members)
        reports = [story.run(day(number)) for number in (1, 2, 3)]

    assert [report.status for report in reports] == [RunStatus.SUCCESS] * 3
    assert [form["refresh_token"] for form in server.forms] == [
        "refresh-0",
        "refresh-1",
        "refresh-2",
    ]
    assert (tmp_path / "refresh-token").read_text() == "refresh-3\n"


def test_a_key_in_the_query_is_sent_and_never_told(tmp_path: Path, source: HttpServer) -> None:
    source.script("/records", Reply(b'{"error":"no"}', 404))
    key = json.dumps({"method": "apikey", "name": "api", "in": "query", "token": "k-canary-1"})
    report = Story(tmp_path, source, ms__authentication=key).run(day(1))

    assert dict(source.requests[0].query)["api"] == "k-canary-1"
    assert report.failures
    assert "k-canary-1" not in f"{report}"
