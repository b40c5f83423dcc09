"""The fault matrix of HTTP, beyond one page: addresses, credentials, storms, clocks, types.

The rows of ``docs/faults.md`` that are no case of the matrix are tests here.
"""

from __future__ import annotations

import json
from collections import Counter

import pyarrow.parquet as pq
import pytest

from dil.model.report import RunStatus
from tests.integration.http_fault_jobs import JOB, LIMIT, ROWS, held, published, watermark
from tests.jobs import visible_files
from tests.servers import faulty_acts as acts
from tests.servers.faulty_server import FaultySource, Strike
from tests.servers.rows import DAY_MS, Dataset
from tests.servers.token_server import CLIENT, CLIENT_SECRET, TokenServer
from tests.stories import Story, day, notes_of

YEAR_MS = 365 * DAY_MS


@pytest.fixture
def source():
    dataset = Dataset.generate(ROWS, units=("a", "b"), step_ms=DAY_MS // ROWS)
    with FaultySource(dataset) as running:
        yield running


def story_of(folder, source, **changes: str) -> Story:
    given = {name.replace("__", "."): value for name, value in changes.items()}
    return Story(folder, source, **{**JOB, **watermark("a", "b"), **given})


def is_whole(folder, source) -> bool:
    return published(folder) == held(source)


def assert_refused(report, code: str, words: str, *, status=RunStatus.FAILED) -> None:
    assert report.status is status
    assert {failure.code for failure in report.failures} == {code}
    assert words in report.failures[0].error


# Addresses


def test_a_source_that_is_not_up_yet_is_read_by_the_next_run(source, tmp_path) -> None:
    story = story_of(tmp_path, source)
    source.hang_up()
    assert_refused(story.run(day(1)), "DIL-SRC-TRANSIENT", "connection refused")
    assert published(tmp_path) == {}

    source.listen()
    assert story.run(day(1)).status is RunStatus.SUCCESS
    assert is_whole(tmp_path, source)


@pytest.mark.parametrize(
    ("address", "code", "words"),
    [
        ("http://no-such-host.invalid/records", "DIL-SRC-TRANSIENT", "host name not found"),
        ("https://{host}/records", "DIL-SRC", "speaks no TLS"),
        ("http://{host}/record", "DIL-SRC", "404"),
    ],
)
def test_a_wrong_address_is_named_and_the_right_one_brings_the_rows(
    address, code, words, source, tmp_path
) -> None:
    story = story_of(tmp_path, source)
    wrong = address.format(host=source.url.removeprefix("http://"))
    report = story.run(day(1), story.job(ms__source__uri=wrong))
    assert_refused(report, code, words)
    assert wrong in report.failures[0].error
    assert published(tmp_path) == {}

    assert story.run(day(1)).status is RunStatus.SUCCESS
    assert is_whole(tmp_path, source)


def test_a_redirect_to_another_host_is_followed_without_the_credentials(source, tmp_path) -> None:
    story = story_of(
        tmp_path,
        source,
        ms__authentication=json.dumps({"method": "bearer", "encryption": "none", "token": "t0ken"}),
    )
    with FaultySource(source.dataset) as other:
        moves = acts.redirects(302, lambda asked: f"{other.url}{asked.target}")
        source.strikes.append(Strike(moves, page=3, unit="b"))
        assert story.run(day(1)).status is RunStatus.SUCCESS
        assert len(other.requests) == 1
        assert "authorization" not in other.requests[0].headers
    assert {each.headers["authorization"] for each in source.requests} == {"Bearer t0ken"}
    assert is_whole(tmp_path, source)


# Credentials


@pytest.fixture
def tokens(source):
    """An authorization server whose newest token alone is let in by the source."""
    with TokenServer(issued=lambda token: setattr(source, "tokens", {token})) as server:
        yield server


def oauth2(tokens: TokenServer) -> str:
    client = {"clientId": CLIENT, "clientSecret": CLIENT_SECRET}
    facts = {"method": "oauth2", "grant": "client_credentials", "tokenUri": tokens.url}
    return json.dumps({**facts, **client})


def expires(source):
    """An act: from this request on the source lets nobody in who has an old token."""

    def act(wire, asked, answer):
        source.tokens = set()
        acts.refuses(401)(wire, asked, answer)

    return act


def test_a_token_that_expires_inside_a_run_is_fetched_anew(source, tokens, tmp_path) -> None:
    story = story_of(tmp_path, source, ms__authentication=oauth2(tokens))
    source.strikes.append(Strike(expires(source), page=3, times=1))
    source.strikes.append(Strike(expires(source), page=2, unit="b", times=1))
    report = story.run(day(1))
    assert (report.status, report.failures) == (RunStatus.SUCCESS, ())
    assert is_whole(tmp_path, source)
    assert len(tokens.forms) == 3


def test_a_source_that_refuses_every_token_fails_and_says_so(source, tokens, tmp_path) -> None:
    story = story_of(tmp_path, source, ms__authentication=oauth2(tokens))
    source.strikes.append(Strike(acts.refuses(401), page=3, unit="b"))
    assert_refused(story.run(day(1)), "DIL-SRC-AUTH", "401", status=RunStatus.PARTIAL)
    assert set(published(tmp_path)) == {"a"}
    assert len(tokens.forms) == 2

    source.strikes.clear()
    assert story.run(day(1)).status is RunStatus.SUCCESS
    assert is_whole(tmp_path, source)


def test_a_token_server_that_is_busy_is_asked_again(source, tokens, tmp_path) -> None:
    story = story_of(tmp_path, source, ms__authentication=oauth2(tokens))
    tokens.replies.append((503, {"Retry-After": "0"}, b"later"))
    assert story.run(day(1)).status is RunStatus.SUCCESS
    assert is_whole(tmp_path, source)


def test_a_token_server_that_refuses_is_quoted_without_the_secret(source, tokens, tmp_path) -> None:
    story = story_of(tmp_path, source, ms__authentication=oauth2(tokens))
    refusal = {"error": "invalid_client", "error_description": f"not with {CLIENT_SECRET}"}
    tokens.replies.append((400, {}, json.dumps(refusal).encode()))
    report = story.run(day(1))
    assert_refused(report, "DIL-SRC-AUTH", "invalid_client")
    assert CLIENT_SECRET not in str(report)
    assert published(tmp_path) == {}

    assert story.run(day(1)).status is RunStatus.SUCCESS
    assert is_whole(tmp_path, source)


def test_a_stale_authentication_input_is_read_again(source, tmp_path) -> None:
    login = tmp_path / "login.json"
    login.write_text('{"token":"old"}')
    entry = {
        "path": str(login), "fields": ["token"], "category": "authentication",
        "retry": {"delayInSec": 0, "retryCount": 1},
    }  # fmt: skip
    story = story_of(
        tmp_path,
        source,
        ms__secondary__input=json.dumps([entry]),
        ms__authentication=json.dumps(
            {"method": "bearer", "encryption": "none", "token": "{{token}}"}
        ),
    )
    source.tokens = {"old"}

    def renews(wire, asked, answer):
        login.write_text('{"token":"new"}')
        source.tokens = {"new"}
        acts.refuses(401)(wire, asked, answer)

    source.strikes.append(Strike(renews, page=3, unit="a", times=1))
    assert story.run(day(1)).failures == ()
    assert is_whole(tmp_path, source)


# Storms


def test_a_storm_of_429_on_all_work_units_passes(source, tmp_path) -> None:
    story = story_of(tmp_path, source)
    storm = acts.refuses(429, Retry_After="1")
    for page in range(1, 6):
        source.strikes.extend(Strike(storm, page, unit, times=1) for unit in "ab")
    report = story.run(day(1))
    assert (report.status, report.failures, notes_of(report)) == (RunStatus.SUCCESS, (), ())
    assert is_whole(tmp_path, source)


def test_a_storm_that_stays_ends_the_run_early(source, tmp_path) -> None:
    story = story_of(tmp_path, source)
    source.strikes.append(Strike(acts.refuses(429, Retry_After="1")))
    report = story.run(day(4))
    assert report.status is RunStatus.FAILED
    assert report.failures[-1].code == "DIL-SRC-TRANSIENT"
    assert "the source refused every work unit so far" in report.failures[-1].error
    assert (report.units.failed, report.units.not_started) == (3, 5)

    source.strikes.clear()
    assert story.run(day(4)).status is RunStatus.SUCCESS
    assert is_whole(tmp_path, source)


def test_a_spent_quota_keeps_what_was_read_for_the_next_run_to_publish(source, tmp_path) -> None:
    story = story_of(tmp_path, source, job__commit__policy="full")
    source.strikes.append(Strike(acts.refuses(429, Retry_After="86400"), page=3, unit="b"))
    report = story.run(day(1))
    assert report.status is RunStatus.FAILED
    assert {failure.code for failure in report.failures} == {"DIL-QUOTA"}
    assert published(tmp_path) == {}

    source.strikes.clear()
    before = len(source.requests)
    report = story.run(day(1))
    assert (report.status, report.units.adopted) == (RunStatus.SUCCESS, 1)
    assert len(source.requests) - before == 5
    assert is_whole(tmp_path, source)


# Clocks


@pytest.mark.parametrize("jump_ms", [-YEAR_MS, YEAR_MS], ids=["back", "ahead"])
def test_a_clock_that_jumps_between_two_runs_costs_no_row(jump_ms, source, tmp_path) -> None:
    story = story_of(tmp_path, source)
    source.strikes.append(Strike(acts.resets, page=3, unit="b"))
    assert story.run(day(1)).status is RunStatus.PARTIAL

    story.clock += jump_ms
    source.strikes.clear()
    assert story.run(day(1)).status is RunStatus.SUCCESS
    assert story.run(day(1)).status is RunStatus.NOTHING_DUE
    assert story.head() is not None
    assert is_whole(tmp_path, source)


# Types that change, where the columns are not given


def test_a_number_beyond_64_bits_on_a_later_page_widens_its_column(source, tmp_path) -> None:
    story = story_of(tmp_path, source, ms__output__schema="")
    source.strikes.append(
        Strike(acts.rows(lambda row: row.update(id=10**20 + row["id"])), page=3, unit="b")
    )
    assert story.run(day(1)).failures == ()
    large = Counter(10**20 + number for number in range(2 * LIMIT, 3 * LIMIT))
    small = Counter(number for number in range(ROWS) if not 2 * LIMIT <= number < 3 * LIMIT)
    assert ids(tmp_path, "b", int) == large + small


def test_text_in_a_column_of_numbers_on_a_later_page_makes_it_text(source, tmp_path) -> None:
    story = story_of(tmp_path, source, ms__output__schema="")
    source.strikes.append(
        Strike(acts.rows(lambda row: row.update(id=f"n{row['id']}")), page=3, unit="b")
    )
    assert story.run(day(1)).failures == ()
    named = [f"n{number}" for number in range(2 * LIMIT, 3 * LIMIT)]
    plain = [str(n) for n in range(ROWS) if not 2 * LIMIT <= n < 3 * LIMIT]
    assert ids(tmp_path, "b", str) == Counter([*named, *plain])


def ids(folder, unit: str, kind: type) -> Counter:
    """Count the ids of the published rows of a unit."""
    return Counter(
        kind(row["id"])
        for file in visible_files(folder)
        for row in pq.read_table(file).to_pylist()
        if row["unit"] == unit
    )
