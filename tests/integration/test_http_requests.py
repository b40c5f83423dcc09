"""HTTP requests that send something, and addresses that answers name, against a real server."""

import json
from decimal import Decimal

import pytest

from dil.errors import SourceContractError, SourceError, UnknownOutcomeError
from dil.model.authentication import Authentication
from dil.model.secret import Secret
from dil.model.settings import HttpStatuses
from dil.spi.connector import RequestValues
from tests.servers.http_server import HttpServer, Reply
from tests.servers.http_sessions import Session, values

FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def server():
    with HttpServer() as running:
        running.script("/x", Reply(b"{}"))
        yield running


def sent(server, request, path="/x", **members):
    """Send one request; return it as it arrived."""
    with Session(server.url + path, **members) as session:
        session.get(request)
    return server.requests[-1]


def row(payload, parameters=None, key="", **variables):
    return RequestValues(
        {**(parameters or {}), **variables}, parameters or {}, payload=payload, idempotency_key=key
    )


# Bodies


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_left_overs_of_a_method_with_a_body_are_a_json_object(server, method):
    found = sent(server, values({"q": "since é €", "limit": 5}), method=method)
    assert (found.method, found.target) == (method, "/x")
    assert found.body.decode() == '{"q":"since é €","limit":5}'
    assert found.headers["Content-Type"] == "application/json; charset=UTF-8"


def test_the_worked_example_of_b6_6(server):
    server.script("/v1/2020-01-01/list", Reply(b"{}"))
    request = values({"from": "2020-01-01", "q": "since:2020-01-01 x y", "limit": 5})
    path = "/v1/{{from}}/list?z=1"
    query = "/v1/2020-01-01/list?z=1&q=since%3A2020-01-01+x+y&limit=5"
    assert sent(server, request, path).target == query
    found = sent(server, request, path, method="POST")
    assert found.target == "/v1/2020-01-01/list?z=1"
    assert found.body == b'{"q":"since:2020-01-01 x y","limit":5}'


def test_members_of_the_row_are_added_last_and_win_over_left_overs(server):
    payload = {"conversions": [{"id": 1}, {"id": 2}], "mode": "row"}
    found = sent(server, row(payload, {"validateOnly": True, "mode": "job"}), method="POST")
    assert json.loads(found.body) == {"validateOnly": True, "mode": "row", **payload}


def test_what_a_header_or_the_uri_consumed_is_not_in_the_body(server):
    headers = {"X-A": "{{a}}"}
    request = values({"a": 1, "b": 2, "c": 3})
    found = sent(server, request, "/x?b={{b}}", method="PUT", headers=headers)
    assert found.body == b'{"c":3}'


@pytest.mark.parametrize("request_values", [values(), row({})])
def test_nothing_to_send_is_an_empty_object(server, request_values):
    assert sent(server, request_values, method="POST").body == b"{}"


def test_numbers_of_a_body_keep_every_digit(server):
    payload = {"i": 12345678901234567890123, "d": Decimal("0.10000000000000000000001"), "f": 1.5}
    found = sent(server, row(payload), method="POST")
    assert found.body == b'{"i":12345678901234567890123,"d":0.10000000000000000000001,"f":1.5}'


@pytest.mark.parametrize("kind", [FORM, "Application/X-WWW-Form-Urlencoded; charset=UTF-8"])
def test_a_form_holds_left_overs_and_the_row_with_arrays_as_compact_json(server, kind):
    payload = {"b": [1, {"c": "ü"}], "n": None}
    request = row(payload, {"a": "1 €&"})
    found = sent(server, request, method="POST", headers={"content-type": kind})
    assert found.body == b"a=1+%E2%82%AC%26&b=%5B1%2C%7B%22c%22%3A%22%C3%BC%22%7D%5D&n="
    assert found.headers["content-type"] == kind


def test_another_content_type_of_the_job_is_kept_over_a_json_body(server):
    headers = {"Content-Type": "application/vnd.api+json"}
    found = sent(server, values({"a": 1}), method="POST", headers=headers)
    assert (found.headers["Content-Type"], found.body) == (headers["Content-Type"], b'{"a":1}')


def test_a_line_of_json_has_an_end(server):
    headers = {"Content-Type": "application/x-ndjson; charset=utf-8"}
    found = sent(server, row({"b": 1}, {"a": 2}), method="POST", headers=headers)
    assert found.body == b'{"a":2,"b":1}\n'


@pytest.mark.parametrize(
    ("method", "members", "connections"),
    [("POST", {}, 2), ("PATCH", {}, 2), ("PUT", {}, 1), ("POST", {"repeats_unsafe": True}, 1)],
)
def test_a_row_that_must_not_be_repeated_meets_no_connection_that_the_server_may_close(
    server, method, members, connections
):
    server.script("/rows", Reply(b"{}"))
    clock = [0.0]
    uri = server.url + "/rows"
    with Session(uri, method=method, monotonic=lambda: clock[0], **members) as session:
        for now in (0.0, 0.4, 5.4):
            clock[0] = now
            session.get(row({"b": 1}, {}))
    assert server.connections == connections


# Redirects


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("status", [302, 303, 307])
def test_only_get_follows_redirects_others_fail(server, method, status):
    server.script("/away", Reply(status=status, headers=(("Location", "/x"),)))
    session = Session(server.url + "/away", method=method)
    with session, pytest.raises(SourceError) as caught:
        session.get(values({"a": 1}))
    assert f"{method} {server.url}/away (a): HTTP status {status}" in caught.value.message
    assert [each.path for each in server.requests] == ["/away"]


@pytest.mark.parametrize(("status", "error"), [(308, SourceError), (303, UnknownOutcomeError)])
def test_the_target_of_a_redirect_is_named_without_the_values_of_its_query(
    server, status, error, caplog
):
    body = b'<a href="/there/?key=s3cret">here</a>'
    away = Reply(body, status, headers=(("Location", "/there/?key=s3cret"),))
    server.script("/away", away)
    with (
        Session(server.url + "/away", method="POST") as session,
        pytest.raises(error) as caught,
    ):
        session.get(row({"b": 1}))
    assert f"{server.url}/there/ (key)" in caught.value.message
    assert "s3cret" not in caught.value.message + caplog.text


def test_a_redirect_to_what_is_no_address_fails_like_others(server):
    server.script("/away", Reply(status=308, headers=(("Location", "http://[x/"),)))
    with Session(server.url + "/away", method="POST") as session, pytest.raises(SourceError):
        session.get(values())


def test_a_redirect_that_is_listed_as_a_warning_gives_no_rows(server):
    server.script("/away", Reply(status=303, headers=(("Location", "/x"),)))
    statuses = HttpStatuses(warning=(303,))
    with Session(server.url + "/away", method="POST", statuses=statuses) as session:
        response = session.fetch(values())
    assert (response.body, response.status) == (None, 303)


@pytest.mark.parametrize("status", [303, 409])
def test_the_connection_of_an_answer_that_is_a_warning_is_used_again(server, status):
    done = Reply(b"done", status, headers=(("Location", "/x"),))
    server.script("/rows", done, done)
    statuses = HttpStatuses(warning=(status,))
    with Session(server.url + "/rows", method="POST", statuses=statuses) as session:
        for number in range(2):
            session.fetch(row({"b": number}))
    assert server.connections == 1


def test_a_response_tells_its_status_and_the_address_that_answered(server):
    server.script("/away", Reply(status=302, headers=(("Location", "/x?page=2"),)))
    server.script("/x", Reply(b"{}", 201))
    with Session(server.url + "/away") as session:
        response = session.fetch(values())
        response.body.close()
    assert (response.status, response.uri) == (201, server.url + "/x?page=2")


# Addresses that answers name


def follow(uri, parameters=None):
    return RequestValues(dict(parameters or {}), dict(parameters or {}), page=1, next_uri=uri)


BEARER = Authentication(method="bearer", encryption="none", token=Secret("t0ken"))


def test_a_next_address_is_asked_for_exactly_with_headers_and_credentials(server):
    address = server.url + "/x?cursor=a%2cb&limit=2"
    headers = {"X-A": "1"}
    request = follow(address, {"limit": 5})
    found = sent(server, request, "/first", authentication=BEARER, headers=headers)
    assert found.target == "/x?cursor=a%2cb&limit=2"
    assert (found.headers["Authorization"], found.headers["X-A"]) == ("Bearer t0ken", "1")


def test_a_method_with_a_body_sends_it_again_to_the_next_address(server):
    request = follow(server.url + "/x?page=2", {"limit": 5})
    found = sent(server, request, "/first", method="POST")
    assert (found.target, found.body) == ("/x?page=2", b'{"limit":5}')


@pytest.mark.parametrize(
    "address",
    [
        "http://localhost:{port}/x?key=s3cret",
        "https://127.0.0.1:{port}/x?key=s3cret",
        "http://127.0.0.1:1/x?key=s3cret",
        "http://127.0.0.1:{port}@evil.invalid/x?key=s3cret",
        "//127.0.0.1/x?key=s3cret",
        "http://127.0.0.1:99999/x?key=s3cret",
    ],
)
def test_a_next_address_at_another_origin_is_refused_before_anything_is_sent(server, address):
    uri = address.format(port=server.url.rpartition(":")[2])
    session = Session(server.url + "/x", authentication=BEARER)
    with session, pytest.raises(SourceContractError) as caught:
        session.get(follow(uri))
    assert "another origin" in caught.value.message
    assert "s3cret" not in str(caught.value)
    assert server.requests == []


def test_a_key_of_the_query_goes_with_every_request_and_shows_in_no_message(server, caplog):
    key = Authentication("apikey", token=Secret("k3y/€"), name="api_key", location="query")
    server.script("/x", Reply(b"{}", 404))
    for request, target in (
        (values({"a": 1}), "/x?a=1&api_key=k3y%2F%E2%82%AC"),
        (follow(server.url + "/x?page=2"), "/x?page=2&api_key=k3y%2F%E2%82%AC"),
        (follow(server.url + "/x?api_key=k3y%2F%E2%82%AC"), "/x?api_key=k3y%2F%E2%82%AC"),
    ):
        session = Session(server.url + "/x", authentication=key)
        with session, pytest.raises(SourceError) as caught:
            session.get(request)
        assert server.requests[-1].target == target
        assert "k3y" not in str(caught.value) + caplog.text


def test_the_row_is_told_by_its_key_in_the_header_that_the_job_names(server):
    request = row({"id": 1}, key="abc123")
    found = sent(server, request, method="POST", idempotency_header="Idempotency-Key")
    assert found.headers["Idempotency-Key"] == "abc123"
    assert "Idempotency-Key" not in sent(server, request, method="POST").headers
