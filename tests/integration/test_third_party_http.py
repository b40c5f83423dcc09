"""Requests to servers that this project did not write: httpbin, oauth2-mock-server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.integration.pattern_jobs import Flow
from tests.integration.third_party_jobs import ThirdPartyJob, read, refused
from tests.servers.third_party import httpbin, oauth2_server

BASIC = {
    "source.conn.username": "lake",
    "source.conn.password": "s3cret:ü",
    "ms.authentication": {"method": "basic", "encryption": "base64"},
}
EXACT = (
    '{"big": 12345678901234567890123, "price": 19.90, "fine": 0.1000000000000000055511151231257827}'
)
POST = {"ms.http.request.method": "POST"}


@pytest.fixture(scope="module")
def bin_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with httpbin(tmp_path_factory.mktemp("httpbin")) as server:
        yield server.url


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with oauth2_server(tmp_path_factory.mktemp("oauth2-mock-server")) as server:
        yield server.url


def one(folder: Path, uri: str, facts: dict[str, object] | None = None) -> dict[str, object]:
    """Return the only row of a job that has to succeed."""
    (row,) = read(folder, uri, facts)
    return row


# Who asks


def test_user_and_password_are_shown(bin_url: str, tmp_path: Path) -> None:
    uri = f"{bin_url}/basic-auth/lake/s3cret%3A%C3%BC"
    assert one(tmp_path, uri, BASIC) == {"authenticated": True, "user": "lake"}


def test_a_wrong_password_fails_at_once_and_is_not_told(bin_url: str, tmp_path: Path) -> None:
    wrong = {**BASIC, "source.conn.password": "other-secret"}
    text = refused(tmp_path, f"{bin_url}/basic-auth/lake/secret", wrong)
    assert text.startswith("DIL-SRC-AUTH: ")
    assert "401" in text
    assert "other-secret" not in text


def test_a_bearer_token_is_shown(bin_url: str, tmp_path: Path) -> None:
    facts = {"ms.authentication": {"method": "bearer", "encryption": "none", "token": "t-1"}}
    assert one(tmp_path, f"{bin_url}/bearer", facts) == {"authenticated": True, "token": "t-1"}


def test_a_key_is_sent_in_the_query_or_in_a_header(bin_url: str, tmp_path: Path) -> None:
    key = {"method": "apikey", "token": "k/1 &", "name": "X-Key"}
    shown = one(tmp_path / "header", f"{bin_url}/get", {"ms.authentication": key})
    assert shown["headers"]["X-Key"] == "k/1 &"
    query = {**key, "name": "key", "in": "query"}
    shown = one(tmp_path / "query", f"{bin_url}/get?a=b", {"ms.authentication": query})
    assert shown["args"] == {"a": "b", "key": "k/1 &"}


# What is sent and comes


@pytest.mark.parametrize(("coding", "flag"), [("gzip", "gzipped"), ("deflate", "deflated")])
def test_packed_answers_are_unpacked(bin_url: str, tmp_path: Path, coding: str, flag: str) -> None:
    row = one(tmp_path, f"{bin_url}/{coding}")
    assert (row[flag], row["method"]) == (True, "GET")


def test_texts_of_all_scripts_come_and_go_unchanged(bin_url: str, tmp_path: Path) -> None:
    text = "Grüße & 你好? +%20 \u2028 \U0001f600"
    row = one(tmp_path, f"{bin_url}/get", {"ms.parameters": [{"name": "q", "value": text}]})
    assert row["args"] == {"q": text}


def test_redirects_of_get_are_followed_and_credentials_stay(bin_url: str, tmp_path: Path) -> None:
    facts = {"ms.authentication": {"method": "bearer", "encryption": "none", "token": "t-1"}}
    row = one(tmp_path, f"{bin_url}/absolute-redirect/3", facts)
    assert row["url"] == f"{bin_url}/get"
    assert row["headers"]["Authorization"] == "Bearer t-1"


def test_redirects_of_post_fail(bin_url: str, tmp_path: Path) -> None:
    uri = f"{bin_url}/redirect-to?url=/post&status_code=302"
    assert "302" in refused(tmp_path, uri, POST)


def test_numbers_of_a_json_body_are_sent_as_they_stand(bin_url: str, tmp_path: Path) -> None:
    members = json.loads(EXACT, parse_float=Decimal)
    texts = {name: EXACT.partition(f'"{name}": ')[2].split(",")[0].strip("}") for name in members}
    parameters = "".join(
        f'{{"name": "{name}", "type": "primitive", "value": {text}}},'
        for name, text in texts.items()
    )
    facts = {**POST, "ms.parameters": f"[{parameters.removesuffix(',')}]"}
    row = one(tmp_path, f"{bin_url}/post", facts)
    assert row["headers"]["Content-Type"].startswith("application/json")
    assert json.loads(row["data"], parse_float=Decimal) == members


def test_numbers_of_a_payload_row_are_sent_as_they_stand(bin_url: str, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(EXACT + "\n", encoding="utf-8")
    entry = {"path": "../rows.json", "fields": ["big", "price", "fine"], "category": "payload"}
    row = one(tmp_path / "job", f"{bin_url}/post", {**POST, "ms.secondary.input": [entry]})
    sent = json.loads(row["data"], parse_float=Decimal)
    assert sent == json.loads(EXACT, parse_float=Decimal)


def test_a_form_is_sent_where_its_content_type_is_asked_for(bin_url: str, tmp_path: Path) -> None:
    facts = {
        **POST,
        "ms.http.request.headers": {"Content-Type": "application/x-www-form-urlencoded"},
        "ms.parameters": [
            {"name": "q", "value": "a&b=ü +"},
            {"name": "many", "type": "jsonarray", "value": [1, "two"]},
        ],
    }
    row = one(tmp_path, f"{bin_url}/post", facts)
    assert row["form"] == {"q": "a&b=ü +", "many": '[1,"two"]'}


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_other_methods_send_a_body_too(bin_url: str, tmp_path: Path, method: str) -> None:
    facts = {"ms.http.request.method": method, "ms.parameters": [{"name": "a", "value": "b"}]}
    row = one(tmp_path, f"{bin_url}/{method.lower()}", facts)
    assert json.loads(str(row["data"])) == {"a": "b"}


def test_the_state_that_ends_polling_may_be_a_header(bin_url: str, tmp_path: Path) -> None:
    session = {"name": "X-State", "condition": {"regexp": "done"}}
    rows = read(
        tmp_path,
        f"{bin_url}/response-headers?X-State=done",
        {"ms.session.key.field": session, "ms.wait.timeout.seconds": 5},
    )
    assert [row["X-State"] for row in rows] == ["done"]


def test_xml_rows_are_read(bin_url: str, tmp_path: Path) -> None:
    facts = {"ms.extractor.class": "xml", "ms.data.field": "slideshow.slide"}
    rows = read(tmp_path, f"{bin_url}/xml", facts)
    assert [row["title"] for row in rows] == ["Wake up to WonderWidgets!", "Overview"]


# What goes wrong


@pytest.mark.parametrize(
    ("status", "code", "attempts"),
    [(404, "DIL-SRC", 0), (503, "DIL-SRC", 2), (403, "DIL-SRC-AUTH", 0), (418, "DIL-SRC", 0)],
)
def test_a_status_tells_what_failed_and_only_passing_ones_are_repeated(
    bin_url: str, tmp_path: Path, status: int, code: str, attempts: int
) -> None:
    patient = {"ms.http.retry.max": 2, "ms.http.retry.max.seconds": 10}
    text = refused(tmp_path, f"{bin_url}/status/{status}", patient)
    assert text.startswith(code)
    assert str(status) in text
    assert (f"{attempts} retries" in text) is bool(attempts)


def test_a_page_of_html_is_no_data(bin_url: str, tmp_path: Path) -> None:
    text = refused(tmp_path, f"{bin_url}/html")
    assert "text/html" in text


# Tokens of another server


def test_a_token_of_the_other_server_is_fetched_and_shown(
    bin_url: str, tokens: str, tmp_path: Path
) -> None:
    facts = {
        "ms.watermark": [{"name": "region", "type": "unit", "units": "eu,us"}],
        "ms.authentication": {
            "method": "oauth2", "grant": "client_credentials", "tokenUri": f"{tokens}/token",
            "clientId": "lake", "clientSecret": "s", "scope": "read",
        },
    }  # fmt: skip
    rows = read(tmp_path, f"{bin_url}/bearer", facts)
    assert [row["authenticated"] for row in rows] == [True, True]
    assert len({row["token"] for row in rows}) == 1
    assert str(rows[0]["token"]).count(".") == 2


def test_the_token_job_of_the_patterns_works_with_the_other_server(
    bin_url: str, tokens: str, tmp_path: Path
) -> None:
    """Its output is the input of a job that httpbin answers with what it was shown."""
    flow = Flow("http://nobody.invalid", tmp_path)
    job = "authentication/token.pull"
    flow.quick(job, ms__source__uri=f"{tokens}/token")
    (kept,) = flow.rows("token")
    facts = {
        "encrypt.key.loc": str(tmp_path / "master.key"),
        "ms.secondary.input": [
            {"path": f"{flow.lake}/token", "fields": ["access_token"],
             "category": "authentication"},
        ],
        "ms.authentication": {
            "method": "bearer", "encryption": "none", "token": "{{access_token}}",
        },
    }  # fmt: skip
    reader = ThirdPartyJob(tmp_path / "reader", f"{bin_url}/bearer", facts)
    reader.run()
    (row,) = reader.rows()
    assert str(kept["access_token"]).startswith("ENC(")
    assert str(row["token"]).count(".") == 2
