"""The HTTP connector against a real server: targets, headers, statuses, retries, broken bodies."""

import logging
import socket

import pytest

from connectors.http.settings import CredentialSources, RetryBudget
from connectors.http.target import build_target, form_encoded
from dil.errors import (
    AuthenticationError,
    ConfigError,
    QuotaError,
    SourceError,
    TransientSourceError,
)
from dil.model.authentication import Authentication
from dil.model.secret import Secret
from dil.model.settings import (
    HttpStatuses,
    HttpStatusReasons,
    TlsSettings,
)
from dil.sections.reading import build
from dil.spi.connector import RequestValues
from tests.servers.http_server import Fault, HttpServer, Reply
from tests.servers.http_sessions import Session, values
from tests.servers.rows import Dataset

TRICKY = "a b/c?d=e&f:é~*'()!"


@pytest.fixture
def server():
    with HttpServer(Dataset.generate(240, units=("a", "b"))) as running:
        yield running


def target_of(server, path, request=None, **members):
    """Send one request; return the raw target that arrived."""
    server.script(path.partition("?")[0].partition("{")[0], Reply(b"{}"))
    with Session(server.url + path, statuses=HttpStatuses(warning=(404,)), **members) as session:
        session.get(request)
    return server.requests[-1].target


# Targets


def test_the_encoding_of_b6_5():
    assert form_encoded(TRICKY) == "a+b%2Fc%3Fd%3De%26f%3A%C3%A9%7E*%27%28%29%21"


def test_values_in_the_uri_are_form_encoded_on_the_wire(server):
    target = target_of(server, "/x?q={{q}}", values(q=TRICKY))
    assert target == "/x?q=a+b%2Fc%3Fd%3De%26f%3A%C3%A9%7E*%27%28%29%21"


def test_a_blank_is_a_plus_in_the_query_only_because_a_path_has_no_form_encoding(server):
    target = target_of(server, "/x/{{p}}/y?q={{p}}", values(p="a b+c/d"))
    assert target == "/x/a%20b%2Bc%2Fd/y?q=a+b%2Bc%2Fd"


def test_get_xe_puts_values_in_as_they_are(server):
    assert target_of(server, "/x/{{p}}", values(p="a/b?c=d e"), encodes=False) == ("/x/a/b?c=d%20e")


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("/x?a=%2c%2C,&b=c+d%20e&&c", "/x?a=%2c%2C,&b=c+d%20e&&c"),
        ("/x/./%7ey/../z?[0]=~'()*!;:@$", "/x/./%7ey/../z?[0]=~'()*!;:@$"),
        ("/x?a=b c|d{e}\"<é>", "/x?a=b%20c%7Cd%7Be%7D%22%3C%C3%A9%3E"),
        ("/x?a=100%&b=%zz", "/x?a=100%25&b=%25zz"),
        ("/x?a=1#part", "/x?a=1"),
    ],
)  # fmt: skip
def test_the_written_part_arrives_byte_for_byte(server, written, sent):
    assert target_of(server, written) == sent


@pytest.mark.parametrize(
    ("written", "sent"),
    [("/x", "/x?l=5&q=a+b"), ("/x?z=%2c", "/x?z=%2c&l=5&q=a+b"), ("/x?", "/x?l=5&q=a+b"),
     ("/x?z=1#f", "/x?z=1&l=5&q=a+b"), ("/x?l={{l}}", "/x?l=5&q=a+b")],
)  # fmt: skip
def test_left_overs_are_appended_in_order(server, written, sent):
    assert target_of(server, written, values({"l": 5, "q": "a b"})) == sent


def test_arrays_and_objects_are_sent_as_compact_json(server):
    assert target_of(server, "/x", values({"f": {"a": [1, "b"]}})) == (
        "/x?f=%7B%22a%22%3A%5B1%2C%22b%22%5D%7D"
    )


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("/x?cursor={{cursor}}", "/x"),
        ("/x?a=1&cursor={{cursor}}", "/x?a=1"),
        ("/x?cursor={{cursor}}&a=%2c", "/x?a=%2c"),
        ("/x?a=1&c=x{{cursor}}y&b=2", "/x?a=1&b=2"),
    ],
)
def test_the_query_member_of_an_absent_parameter_is_removed(server, written, sent):
    assert target_of(server, written, declared=frozenset({"cursor"})) == sent


def test_an_empty_cursor_is_not_an_absent_one(server):
    request = RequestValues({"cursor": ""}, {})
    target = target_of(server, "/x?c={{cursor}}", request, declared=frozenset({"cursor"}))
    assert target == "/x?c="


def test_an_absent_parameter_in_the_path_fails():
    with pytest.raises(ConfigError) as caught:
        build_target("https://h/{{c}}/x", values(), encodes=True, declared={"c"})
    assert caught.value.problems[0].key == "ms.source.uri"


def test_an_unknown_placeholder_is_kept_and_warned_of_once(server, caplog):
    server.script("/x", Reply(b"{}"))
    with caplog.at_level(logging.WARNING), Session(server.url + "/x?a={{nope}}") as session:
        session.get()
        session.get()
    assert server.requests[-1].target == "/x?a=%7B%7Bnope%7D%7D"
    assert len([r for r in caplog.records if "nope" in r.getMessage()]) == 1


# Headers and authentication


def headers_of(server, request=None, **members):
    server.script("/x", Reply(b"{}"))
    with Session(server.url + "/x", **members) as session:
        session.get(request)
    return server.requests[-1]


def test_variables_in_headers_are_consumed_all_of_them(server):
    request = values({"a": "1", "b": "2 é", "c": "3"})
    sent = headers_of(server, request, headers={"X-A": "v{{a}}", "X-B": Secret("{{b}}")})
    assert (sent.headers["X-A"], sent.headers["X-B"]) == ("v1", "2 é")
    assert sent.target == "/x?c=3"


def test_header_values_beyond_latin_1_are_sent_as_utf_8(server):
    sent = headers_of(server, headers={"X-A": "€"})
    assert sent.headers["X-A"].encode("latin-1").decode() == "€"


def test_a_line_break_in_a_header_fails_without_showing_it(server):
    session = Session(server.url + "/x", headers={"X-A": "{{a}}"})
    with session, pytest.raises(ConfigError) as caught:
        session.fetch(values(a="x\r\nInjected: s3cret"))
    assert "s3cret" not in str(caught.value)
    assert server.requests == []


@pytest.mark.parametrize(
    ("method", "encryption", "token", "value"),
    [
        ("basic", "base64", None, "Basic dTpw"),
        ("Basic", "Base64", None, "Basic dTpw"),
        ("bearer", "none", "tok", "Bearer tok"),
        ("oauth", "none", "{{t}}", "OAuth from unit"),
        ("custom", "base64", "{{t}}", "ZnJvbSB1bml0"),  # replaced before it is encoded
    ],
)
def test_the_authentication_header(server, method, encryption, token, value):
    members = {
        "method": method,
        "encryption": encryption,
        "header": "X-Key" if method == "custom" else "Authorization",
        "token": Secret(token) if token else None,
    }
    authentication = build(Authentication, members)
    sent = headers_of(
        server,
        values({"t": "from unit"}),
        headers={"authorization": "loses" if method != "custom" else "stays"},
        authentication=authentication,
        username=Secret("u"),
        password=Secret("p"),
    )
    assert sent.headers[authentication.header] == value
    assert ("t=" in sent.target) == ("{{t}}" not in (token or ""))


def test_credentials_do_not_follow_a_redirect_to_another_host(server):
    members = {
        "authentication": Authentication(
            method="custom", encryption="none", header="X-Key", token=Secret("k")
        ),
        "headers": {"Authorization": Secret("Bearer t"), "X-Other": Secret("o"), "X-Plain": "p"},
    }
    with HttpServer() as other:
        other.script("/there", Reply(b"{}"))
        away = ("Location", f"http://localhost:{other.url.rpartition(':')[2]}/there")
        server.script("/away", Reply(status=302, headers=(away,)))
        server.script("/near", Reply(status=302, headers=(("Location", "/here"),)))
        server.script("/here", Reply(b"{}"))
        with Session(server.url + "/away", **members) as session:
            session.get()
        with Session(server.url + "/near", **members) as session:
            session.get()
        far, near = other.requests[-1].headers, server.requests[-1].headers
    assert {"Authorization", "X-Key", "X-Other", "X-Plain"} & set(far) == set()
    assert (near["Authorization"], near["X-Key"], near["X-Other"]) == ("Bearer t", "k", "o")


def test_the_environment_is_not_looked_at(server, monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login l password p\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert "Authorization" not in headers_of(server).headers


def test_a_proxy_gets_the_absolute_target(server):
    server.script("/x", Reply(b"{}"))
    with Session("http://h.invalid/x?a=%2c", proxy=server.url) as session:
        session.fetch(values()).body.close()
    assert server.requests[-1].target == "http://h.invalid/x?a=%2c"


# Statuses


@pytest.mark.parametrize(
    ("status", "reason", "members", "outcome"),
    [
        (200, "OK", {}, b"{}"),
        (201, "Created", {}, b"{}"),
        (202, "Accepted", {"statuses": HttpStatuses(error=(202,))}, SourceError),
        (202, "Accepted", {"statuses": HttpStatuses(warning=(202,))}, None),
        (202, "Accepted", {"statuses": HttpStatuses(success=(202,), warning=(202,))}, b"{}"),
        (204, "No Content", {}, None),
        (206, "Partial", {}, None),
        (206, "Partial", {"statuses": HttpStatuses(error=(206,))}, SourceError),
        (304, "Not Modified", {}, SourceError),
        (304, "Not Modified", {"statuses": HttpStatuses(warning=(304,))}, None),
        (404, "Not Found", {}, SourceError),
        (404, "Not Found", {"statuses": HttpStatuses(warning=(404,))}, None),
        (404, "Not Found", {"statuses": HttpStatuses(success=(404,))}, b"{}"),
        (200, "Oops", {"reasons": HttpStatusReasons(error=("Oops",))}, SourceError),
        (200, "oops", {"reasons": HttpStatusReasons(error=("Oops",))}, b"{}"),
        (401, "Unauthorized", {}, AuthenticationError),
        (403, "Forbidden", {}, AuthenticationError),
        (401, "Unauthorized", {"statuses": HttpStatuses(warning=(401,))}, None),
        (500, "Broken", {}, TransientSourceError),
        (503, "Busy", {"statuses": HttpStatuses(warning=(503,))}, None),
    ],
)
def test_statuses_in_their_order(server, status, reason, members, outcome):
    server.script("/x", Reply(b"" if status in {204, 304} else b"{}", status, reason))
    with Session(server.url + "/x", **members) as session:
        if isinstance(outcome, type):
            with pytest.raises(SourceError) as caught:
                session.get()
            assert type(caught.value) is outcome
        elif outcome is None:
            response = session.fetch(values())
            assert response.body is None
            assert str(status) in response.warning
            assert response.is_unread is (status == 206)
        else:
            assert session.get() == outcome
        assert session.waits == []
    assert len(server.requests) == 1


def test_a_status_that_its_reason_makes_an_error_names_the_property(server):
    server.script("/x", Reply(b"{}", 200, "Oops"))
    reasons = HttpStatusReasons(error=("Oops",))
    with (
        Session(server.url + "/x", reasons=reasons) as session,
        pytest.raises(SourceError) as caught,
    ):
        session.get()
    assert "ms.http.status.reasons" in caught.value.fix


def test_response_facts_are_kept(server):
    headers = (("X-Next", "a"), ("X-Next", "b"))
    reply = Reply(b"{}", content_type="Application/JSON; charset=utf-8", headers=headers)
    server.script("/x", reply)
    with Session(server.url + "/x") as session:
        response = session.fetch(values())
        response.body.close()
    assert response.content_type == "application/json"
    assert response.checks_content_type
    assert response.header("x-next") == "b"


# Retries


def test_passing_failures_are_sent_again_with_growing_waits(server):
    server.script("/x", *(Reply(status=s) for s in (503, 429, 502)), Reply(b"{}"))
    with Session(server.url + "/x") as session:
        assert session.get() == b"{}"
        assert session.waits == [1.0, 2.0, 4.0]
        assert session.retries == 3
        assert session.seconds_waited == 7.0


def test_retry_after_is_obeyed_as_seconds_and_as_a_date(server):
    date = ("Retry-After", "Thu, 01 Jan 2099 00:00:05 GMT")
    raw = b"HTTP/1.1 503 Busy\r\nDate: Thu, 01 Jan 2099 00:00:00 GMT\r\n%s: %s\r\n\r\n"
    server.script(
        "/x",
        Reply(status=429, headers=(("Retry-After", "7"),)),
        Reply(raw=raw % tuple(part.encode() for part in date)),
        Reply(b"{}"),
    )
    with Session(server.url + "/x") as session:
        session.get()
        assert session.waits == [7.0, 5.0]


@pytest.mark.parametrize("status", [429, 503])
def test_a_wait_beyond_the_budget_is_a_spent_quota_that_says_when_it_opens(server, status):
    server.script("/x", Reply(status=status, headers=(("Retry-After", "100000"),)))
    session = Session(server.url + "/x", wall_clock=lambda: 1_577_836_800.0)
    with session, pytest.raises(QuotaError) as caught:
        session.get()
    assert session.waits == []
    assert "asks to wait 100000 s, until 2020-01-02T03:46:40+00:00" in caught.value.message


def test_retries_end_with_their_number_or_their_seconds(server):
    server.script("/x", Reply(status=503))
    for budget, waits in (
        (RetryBudget(2, 120), [1.0, 2.0]),
        (RetryBudget(9, 5), [1.0, 2.0]),
        (RetryBudget(0, 120), []),
    ):
        with Session(server.url + "/x", retry=budget) as session:
            with pytest.raises(TransientSourceError):
                session.get()
            assert session.waits == waits


@pytest.mark.parametrize(("status", "made"), [(503, " after 2 retries"), (500, " Error")])
def test_a_failure_tells_how_often_the_request_was_really_sent_again(server, status, made):
    server.script("/x", Reply(status=status))
    session = Session(server.url + "/x", retry=RetryBudget(2, 120))
    with session, pytest.raises(TransientSourceError) as caught:
        session.get()
    assert caught.value.message.endswith(made)
    assert "0 retries" not in caught.value.message


def test_each_retry_says_why_and_a_passing_failure_is_told_by_its_error_alone(server, caplog):
    server.script("/x", Reply(status=503))
    session = Session(server.url + "/x", retry=RetryBudget(1, 120))
    with caplog.at_level(logging.WARNING), session, pytest.raises(TransientSourceError):
        session.get()
    (line,) = [record.getMessage() for record in caplog.records]
    assert "HTTP status 503 Service Unavailable; sending again in 1.0 s (1 of at most 1)" in line


def test_the_seconds_of_the_budget_count_slow_answers_as_well(server):
    server.script("/x", Reply(status=503))
    ticks = iter(range(0, 1000, 50))
    session = Session(server.url + "/x", retry=RetryBudget(9, 120), monotonic=lambda: next(ticks))
    with session, pytest.raises(TransientSourceError):
        session.get()
    assert session.waits == [1.0, 2.0]  # 50 and 100 s after the first sending; 150 is too late


def connection_error(url, **members):
    session = Session(url, retry=RetryBudget(0, 0), **members)
    with session, pytest.raises(TransientSourceError) as caught:
        session.get()
    return caught.value.message


def test_a_missing_answer_is_named_by_its_cause(server):
    server.faults.append(Fault("reset", path="/reset"))
    server.faults.append(Fault("slow", path="/slow", delay_s=1.2))
    server.script("/closed", Reply(raw=b""))
    server.script("/words", Reply(raw=b"hello there\r\n\r\n"))
    brief = TlsSettings(connect_timeout_s=1, socket_timeout_s=1)
    assert "connection reset" in connection_error(server.url + "/reset")
    assert "closed without an answer" in connection_error(server.url + "/closed")
    assert "the answer is not HTTP" in connection_error(server.url + "/words")
    assert "timed out" in connection_error(server.url + "/slow", tls=brief)
    assert "host name not found" in connection_error("http://no-such-host.invalid/x")


def test_a_failing_proxy_is_named_as_one():
    message = connection_error("http://shop.invalid/x", proxy=f"http://127.0.0.1:{unused_port()}")
    assert "shop.invalid/x: the proxy: connection refused" in message


def test_advice_for_a_proxy_is_about_the_proxy(server):
    server.script("/x", Reply(status=407))
    for url, members in (
        (server.url + "/x", {}),
        ("http://shop.invalid/x", {"proxy": f"http://127.0.0.1:{unused_port()}"}),
    ):
        session = Session(url, retry=RetryBudget(0, 0), **members)
        with session, pytest.raises(SourceError, match=r"407|proxy") as caught:
            session.get()
        assert "source.conn.use.proxy.url" in caught.value.fix
        assert "user:${env:NAME}@host" in caught.value.fix


def unused_port():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def test_a_reset_connection_is_tried_again(server):
    server.faults.append(Fault("reset", at=(1,)))
    with Session(server.url + "/records?unit=a&limit=1") as session:
        assert b'"id":0' in session.get()
        assert session.waits == [1.0]


def test_a_refused_connection_is_transient():
    port = unused_port()
    with Session(f"http://u:s3cret@127.0.0.1:{port}/x?k=s3cret") as session:
        with pytest.raises(TransientSourceError) as caught:
            session.get()
        assert len(session.waits) == 3
    assert "s3cret" not in str(caught.value)
    assert f"127.0.0.1:{port}/x (k): connection refused after 3 retries" in caught.value.message


def test_a_silent_server_times_out(server):
    server.faults.append(Fault("slow", delay_s=1.5))
    tls = TlsSettings(connect_timeout_s=1, socket_timeout_s=1)
    session = Session(server.url + "/records", tls=tls, retry=RetryBudget(0, 0))
    with session, pytest.raises(TransientSourceError):
        session.get()


def test_endless_redirects_fail(server):
    server.script("/x", Reply(status=302, headers=(("Location", "/x"),)))
    with Session(server.url + "/x") as session, pytest.raises(SourceError):
        session.get()
    assert len(server.requests) == 51


def test_a_redirect_to_a_host_that_fails_names_that_host(server):
    with HttpServer() as gone:
        place = gone.url.removeprefix("http://")
    away = ("Location", f"http://user:hidden@{place}/there?key=hidden")
    server.script("/x", Reply(status=302, headers=(away,)))
    session = Session(server.url + "/x", retry=RetryBudget(0, 0))
    with session, pytest.raises(TransientSourceError) as caught:
        session.get()
    assert f", redirected to {place}: connection refused" in caught.value.message
    assert "hidden" not in caught.value.message


def test_a_refusal_after_a_redirect_says_that_no_credentials_were_sent_there(server):
    login = Authentication(method="bearer", encryption="none", token=Secret("t0p-s3cret"))
    sources = CredentialSources(("ms.authentication",))
    with HttpServer() as other:
        other.script("/there", Reply(status=401), Reply(status=404))
        back = ("Location", f"{server.url}/here?key=hidden")
        other.script("/around", Reply(status=302, headers=(back,)))
        server.script("/here", Reply(status=401))
        for path, reached in (("/there", "there"), ("/there", "there"), ("/around", "around")):
            away = ("Location", f"{other.url}{path}?key=hidden")
            server.script("/x", Reply(status=302, headers=(away,)))
            session = Session(server.url + "/x", authentication=login, credential_sources=sources)
            with session, pytest.raises(SourceError) as caught:
                session.get()
            place = f", redirected to {other.url}/{reached} (key): HTTP status 40"
            assert f"GET {server.url}/x{place}" in caught.value.message
            assert "hidden" not in caught.value.message
            if isinstance(caught.value, AuthenticationError):
                assert "ms.source.uri" in caught.value.fix
                assert "ms.authentication" not in caught.value.fix


def test_a_refusal_after_a_redirect_of_the_own_origin_advises_to_check_the_credentials(server):
    server.script("/x", Reply(status=302, headers=(("Location", "/here"),)))
    server.script("/here", Reply(status=401))
    sources = CredentialSources(("ms.authentication",))
    session = Session(server.url + "/x", credential_sources=sources)
    with session, pytest.raises(AuthenticationError) as caught:
        session.get()
    assert "Check ms.authentication" in caught.value.fix
    assert "redirected" not in caught.value.message


def test_a_page_of_another_origin_in_place_of_rows_is_named(server):
    path = f"/login/{'7a' * 16}/b"
    with HttpServer() as login:
        login.script(path, Reply(b"<html>", content_type="text/html"))
        server.script("/x", Reply(status=302, headers=(("Location", f"{login.url}{path}?k=v"),)))
        with Session(server.url + "/x") as session:
            response = session.fetch(values())
    assert response.location == f"GET {server.url}/x, redirected to {login.url}/login/***/b (k)"


# Heads


@pytest.mark.parametrize(
    "line",
    [
        "X-Cache : HIT",
        "no header",
        "HTTP/1.1 200 OK",
        "Größe: 1",
        "folded\r\n twice",
        "X-B: CR at the end\r",
        "X-B: CR\rContent-Length: 1",
    ],
)
def test_the_headers_behind_a_malformed_line_count(server, line, caplog):
    headers = f"X-A: 1\r\n{line}\r\nX-Next\t: 5\r\nLink: </y>\r\nContent-Length: 2\r\n\r\n"
    server.script("/x", Reply(raw=b"HTTP/1.1 200 OK\r\n" + headers.encode() + b"{} of another"))
    with Session(server.url + "/x") as session:
        response = session.fetch(values())
        assert response.body.read() == b"{}"
    wanted = {"X-A": "1", "X-Next": "5", "Link": "</y>"}
    assert {name: response.headers[name] for name in wanted} == wanted
    assert caplog.records == []  # The library would log a traceback with the whole address.


def test_an_answer_of_malformed_lines_without_end_is_given_up(server):
    server.script("/x", Reply(raw=b"HTTP/1.1 200 OK\r\n" + b"no header\r\n" * 500 + b"\r\n{}"))
    session = Session(server.url + "/x", retry=RetryBudget(0, 0))
    with session, pytest.raises(TransientSourceError):
        session.get()


# Bodies


def test_connections_are_used_again(server):
    with Session(server.url + "/records?unit=a") as session:
        for _ in range(3):
            session.get()
    assert server.connections == 1
    server.settle()  # fails if the closed session has left the connection open


def test_the_beginning_of_an_error_body_is_logged_and_its_words_are_told(server, caplog):
    server.script("/x", Reply(b'{"error":"no such unit","name":"Ann"}' + b" " * 5000 + b"end", 400))
    session = Session(server.url + "/x")
    with caplog.at_level(logging.INFO), session, pytest.raises(SourceError) as caught:
        session.get()
    assert "no such unit" in caplog.text
    assert "end" not in caplog.text
    assert all(each.levelno < logging.WARNING for each in caplog.records)  # the error is told
    assert "no such unit" in str(caught.value)
    assert "Ann" not in str(caught.value)
