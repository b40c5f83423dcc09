"""The HTTP connector when the source limits, refuses, or stops answering, on a real server."""

import gzip
import time

import pytest

from connectors.http.failures import UnknownOutcomeError
from connectors.http.settings import RetryBudget
from dil.errors import (
    AuthenticationError,
    QuotaError,
    SourceError,
    TransientSourceError,
)
from dil.model.authentication import Authentication
from dil.model.secondary import SecondaryRetry
from dil.model.secret import Secret
from dil.model.settings import HttpStatuses, TlsSettings
from dil.secrets import learned
from dil.spi.connector import RequestValues
from dil.spi.coordination import Uncoordinated
from tests.servers.faulty_server import FaultySource, Strike
from tests.servers.http_server import Fault, HttpServer, Reply
from tests.servers.http_sessions import Session, values
from tests.servers.rows import Dataset


@pytest.fixture
def server():
    with HttpServer() as running:
        running.script("/x", Reply(b"{}"))
        yield running


class Driver(Uncoordinated):
    """A coordinator of one process: writes down what it is told, hands out tokens in turn."""

    def __init__(self, *tokens, wait=0.0):
        self.tokens = list(tokens)
        self.wait = wait
        self.permits = 0
        self.slowed = []
        self.spent = []
        self.rejected = []

    def permit(self):
        self.permits += 1
        return self.wait

    def slow_down(self, seconds):
        self.slowed.append(seconds)

    def quota_spent(self, why):
        self.spent.append(why)

    def credential(self, rejected=None):
        if rejected is not None:
            self.rejected.append(rejected.reveal())
            self.tokens.pop(0)
        return Secret(self.tokens[0])


ROW = RequestValues({}, {}, payload={"id": 1}, idempotency_key="k1")


# The rate, and the quota


def test_every_sending_asks_for_a_permit_and_its_wait_is_counted_but_not_in_the_budget(server):
    driver = Driver(wait=100.0)
    server.script("/x", Reply(status=503), Reply(status=503), Reply(b"{}"))
    clock = iter(range(0, 10_000, 100))
    with Session(server.url + "/x", monotonic=lambda: next(clock), coordinator=driver) as session:
        assert session.get() == b"{}"
        assert (driver.permits, session.seconds_waited) == (3, 303.0)


def test_an_asked_wait_holds_back_all_tasks(server):
    driver = Driver()
    server.script(
        "/x",
        Reply(status=429, headers=(("Retry-After", "7"),)),
        Reply(status=503, headers=(("Retry-After", "5"),)),
        Reply(status=429),
        Reply(b"{}"),
    )
    with Session(server.url + "/x", coordinator=driver) as session:
        session.get()
        assert driver.slowed == session.waits == [7.0, 5.0, 4.0]


def test_a_server_that_is_only_busy_holds_nobody_back(server):
    driver = Driver()
    server.script("/x", Reply(status=503), Reply(status=502), Reply(b"{}"))
    with Session(server.url + "/x", coordinator=driver) as session:
        session.get()
    assert driver.slowed == []


def test_a_used_up_limit_told_by_403_is_waited_for_and_no_wrong_credential(server):
    headers = (("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "30"))
    server.script("/x", Reply(status=403, headers=headers), Reply(b"{}"))
    with Session(server.url + "/x") as session:
        assert session.get() == b"{}"
        assert session.waits == [30.0]


def test_a_403_that_says_how_long_to_wait_is_waited_for(server):
    limit = Reply(status=403, headers=(("X-RateLimit-Remaining", "12"), ("Retry-After", "60")))
    server.script("/x", limit, Reply(b"{}"))
    with Session(server.url + "/x") as session:
        assert session.get() == b"{}"
        assert session.waits == [60.0]


@pytest.mark.parametrize(
    ("body", "names_quota"),
    [
        (b'[{"errorCode": "REQUEST_LIMIT_EXCEEDED"}]', True),
        (b'{"error": {"reason": "quotaExceeded"}}', True),
        (b'{"message": "Must have admin rights"}', False),
    ],
)
def test_a_403_that_names_a_limit_advises_to_declare_it_as_a_quota(server, body, names_quota):
    server.script("/x", Reply(body, status=403))
    with Session(server.url + "/x") as session, pytest.raises(AuthenticationError) as caught:
        session.get()
    assert ('"quota": [403]' in caught.value.fix) is names_quota


@pytest.mark.parametrize(
    ("challenge", "unsupported"),
    [
        ('Digest realm="a, Basic b", nonce="n=1", qop="auth"', "Digest"),
        ("Negotiate, NTLM", "Negotiate or NTLM"),
        ('Negotiate, Basic realm="x"', None),
        ('Basic realm="x", Digest realm="x", nonce="n"', None),
        ("Bearer", None),
    ],
)
def test_a_401_that_asks_only_for_schemes_that_a_job_cannot_send_names_them_first(
    server, challenge, unsupported
):
    server.script("/x", Reply(status=401, headers=(("WWW-Authenticate", challenge),)))
    with Session(server.url + "/x") as session, pytest.raises(AuthenticationError) as caught:
        session.get()
    assert ("ms.authentication has no" in caught.value.fix) is bool(unsupported)
    assert (f"asks for {unsupported}" in caught.value.message) is bool(unsupported)
    assert "sends no credentials" in caught.value.fix  # a refused token gets such a challenge, too


def test_a_spent_quota_is_told_to_all_tasks(server):
    driver = Driver()
    server.script("/x", Reply(status=429, headers=(("Retry-After", "121"),)))
    session = Session(server.url + "/x?key=s3cret", coordinator=driver)
    with session, pytest.raises(QuotaError) as caught:
        session.get()
    assert (driver.spent, session.waits) == ([caught.value.message], [])
    assert "s3cret" not in caught.value.message


def test_a_larger_budget_waits_as_long_as_it_is_asked(server):
    server.script("/x", Reply(status=429, headers=(("Retry-After", "900"),)), Reply(b"{}"))
    with Session(server.url + "/x", retry=RetryBudget(3, 1000)) as session:
        session.get()
        assert session.waits == [900.0]


def test_a_status_listed_as_quota_ends_the_run_at_once(server):
    driver = Driver()
    server.script("/x", Reply(b'{"error": {"reason": "dailyLimitExceeded"}}', status=402))
    session = Session(server.url + "/x", statuses=HttpStatuses(quota=(402,)), coordinator=driver)
    with session, pytest.raises(QuotaError) as caught:
        session.get()
    assert "HTTP status 402 Payment Required; the source's quota is spent" in caught.value.message
    assert "dailyLimitExceeded" in caught.value.message
    assert len(driver.spent) == 1


# Credentials that are renewed


RENEWAL = {"headers": {"X-Token": "{{token}}"}, "renewal": SecondaryRetry(delay_s=30)}


def test_a_stale_token_is_read_again_after_the_delay_and_holds_for_later_requests(server):
    server.script("/x", Reply(status=401), Reply(status=401), Reply(b"{}"))
    rows = iter(["stale too", "fresh"])
    members = {**RENEWAL, "renewed": lambda: {"token": Secret(next(rows)), "user": Secret("u")}}
    with Session(server.url + "/x", **members) as session:
        session.get(values(token="old"))
        session.get(values({"user": "?"}, token="old"))
        assert (session.waits, session.retries) == ([30, 30], 2)
    sent = [each.headers["X-Token"] for each in server.requests]
    assert sent == ["old", "stale too", "fresh", "fresh"]
    assert server.requests[-1].target == "/x?user=u"


def test_a_token_that_stays_stale_is_an_error_after_retry_count(server):
    server.script("/x", Reply(b"who?", 401))
    members = {**RENEWAL, "renewed": lambda: {"token": Secret("same")}}
    session = Session(server.url + "/x", **members)
    with session, pytest.raises(AuthenticationError) as caught:
        session.get(values(token="old"))
    assert session.waits == [30, 30, 30]
    assert caught.value.message.endswith("HTTP status 401 Unauthorized; the answer begins: who?")


def test_only_listed_statuses_are_stale_tokens(server):
    server.script("/x", Reply(status=403))
    members = {**RENEWAL, "renewed": lambda: pytest.fail("it was read again")}
    with Session(server.url + "/x", **members) as session, pytest.raises(AuthenticationError):
        session.get(values(token="old"))
    server.script("/x", Reply(status=419), Reply(b"{}"))
    members["renewed"] = lambda: {"token": Secret("fresh")}
    statuses = HttpStatuses(pagination_error=(419,))
    with Session(server.url + "/x", statuses=statuses, **members) as session:
        assert session.get(values(token="old")) == b"{}"


OAUTH2 = Authentication(
    method="oauth2", grant="client_credentials", token_uri="https://h/t", client_id="c"
)


def test_a_refused_token_of_a_grant_is_replaced_once(server):
    driver = Driver("t1", "t2", "t3")
    server.script("/x", Reply(status=401), Reply(b"{}"), Reply(b"{}"))
    with Session(server.url + "/x", authentication=OAUTH2, coordinator=driver) as session:
        session.get()
        session.get()
        assert (session.waits, session.retries) == ([], 1)
    sent = [each.headers["Authorization"] for each in server.requests]
    assert sent == ["Bearer t1", "Bearer t2", "Bearer t2"]
    assert driver.rejected == ["t1"]


def test_a_second_refusal_in_a_row_is_an_error(server):
    driver = Driver("t1", "t2", "t3")
    server.script("/x", Reply(status=401))
    session = Session(server.url + "/x", authentication=OAUTH2, coordinator=driver)
    with session, pytest.raises(AuthenticationError):
        session.get()
    assert len(server.requests) == 2


def test_each_retry_is_signed_with_the_token_of_its_moment(server):
    class Renewing(Driver):
        def slow_down(self, seconds):
            self.tokens = ["t2"]

    server.script("/x", Reply(status=429), Reply(b"{}"))
    driver = Renewing("t1")
    with Session(server.url + "/x", authentication=OAUTH2, coordinator=driver) as session:
        session.get()
    sent = [each.headers["Authorization"] for each in server.requests]
    assert sent == ["Bearer t1", "Bearer t2"]


# Requests that may have been done


def test_a_row_whose_answer_never_came_is_not_sent_again(server):
    for kind in ("reset", "short"):
        server.faults.append(Fault("reset", path=f"/{kind}"))
        for method in ("POST", "PATCH"):
            session = Session(f"{server.url}/{kind}", method=method)
            with session, pytest.raises(UnknownOutcomeError) as caught:
                session.get(ROW)
            assert session.waits == []
            assert not caught.value.retryable
            assert "may have been done, so it is not sent again" in caught.value.message


def test_a_row_is_not_sent_again_after_a_time_out(server):
    server.faults.append(Fault("slow", path="/slow", delay_s=1.2))
    tls = TlsSettings(connect_timeout_s=1, socket_timeout_s=1)
    session = Session(server.url + "/slow", method="POST", tls=tls)
    with session, pytest.raises(UnknownOutcomeError) as caught:
        session.get(ROW)
    assert "timed out" in caught.value.message


@pytest.mark.parametrize("status", [502, 504])
def test_a_gateway_leaves_open_whether_a_row_arrived(server, status):
    server.script("/x", Reply(status=status))
    with Session(server.url + "/x", method="POST") as session, pytest.raises(UnknownOutcomeError):
        session.get(ROW)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("method", "request_values", "members"),
    [
        ("GET", values(), {}),
        ("PUT", ROW, {}),
        ("DELETE", ROW, {}),
        ("POST", values({"q": 1}), {}),
        ("POST", ROW, {"idempotency_header": "Idempotency-Key"}),
        ("PATCH", ROW, {"idempotency_header": "Idempotency-Key"}),
        ("POST", ROW, {"repeats_unsafe": True}),
    ],
)
def test_what_may_be_done_twice_is_sent_again(server, method, request_values, members):
    server.faults.append(Fault("reset", at=(1,), path="/x"))
    with Session(server.url + "/x", method=method, **members) as session:
        session.get(request_values)
        assert session.waits == [1.0]
    assert server.requests[0].body == server.requests[1].body


@pytest.mark.parametrize("status", [429, 503])
def test_a_refusal_that_did_nothing_lets_a_row_be_sent_again(server, status):
    server.script("/x", Reply(status=status), Reply(b"{}"))
    with Session(server.url + "/x", method="POST") as session:
        session.get(ROW)
        assert session.waits == [1.0]


def test_a_row_that_could_not_be_sent_at_all_is_tried_again():
    session = Session("http://no-such-host.invalid/x", method="POST")
    with session, pytest.raises(TransientSourceError):
        session.get(ROW)
    assert len(session.waits) == 3


@pytest.mark.parametrize("kind", ["reset_body", "short_body"])
def test_a_row_whose_answer_broke_off_was_done_and_is_not_sent_again(server, kind):
    server.faults.append(Fault(kind, path="/x"))
    server.script("/x", Reply(b'{"done":true}'))
    with Session(server.url + "/x", method="POST") as session, pytest.raises(UnknownOutcomeError):
        session.get(ROW)
    assert len(server.requests) == 1


@pytest.mark.parametrize("lengths", ["2\r\nContent-Length: 3", "2, 3"])
def test_a_row_whose_answer_has_two_lengths_may_have_been_done_and_is_not_sent_again(
    server, lengths
):
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {lengths}\r\n\r\n"
    server.script("/x", Reply(raw=head.encode() + b"{}"))
    with Session(server.url + "/x", method="POST") as session, pytest.raises(UnknownOutcomeError):
        session.get(ROW)
    assert len(server.requests) == 1


@pytest.mark.parametrize("location", ["http://[x/", "//[x/", "http://h:99999999/"])
def test_a_row_is_not_sent_again_if_its_redirect_leads_to_no_address(server, location):
    server.script("/x", Reply(status=303, headers=(("Location", location),)))
    with Session(server.url + "/x", method="POST") as session, pytest.raises(UnknownOutcomeError):
        session.get(ROW)
    assert len(server.requests) == 1


# Answers that do not end, and what refusals say


def test_a_body_that_trickles_is_given_up(server):
    server.script("/x", Reply(b"a" * 100_000))
    ticks = iter(range(0, 100_000, 40))
    session = Session(
        server.url + "/x", monotonic=lambda: next(ticks), body_wait_s=10.0, retry=RetryBudget(0, 0)
    )
    with session, pytest.raises(TransientSourceError) as caught:
        session.get()
    assert "the answer's body trickles" in caught.value.message
    assert "ms.http.response.max.seconds" in caught.value.fix


def trickling(begin, piece):
    """Return an act that sends the beginning of an answer, and then a piece now and then."""

    def act(wire, asked, answer):
        wire.send(begin)
        while wire.is_open:
            wire.send(piece)
            wire.pause(0.02)

    return act


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"HTTP/1.1 200 ", b"a"),
        (b"HTTP/1.1 200 OK\r\nX-Note: ", b"a"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;", b"a"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Note: a\r\n"),
    ],
    ids=["status", "header", "100", "102", "chunk extension", "trailers"],
)
def test_an_answer_whose_framing_trickles_is_given_up(begin, piece):
    with FaultySource(Dataset()) as source:
        source.strikes.append(Strike(trickling(begin, piece)))
        session = Session(
            source.url + "/records", monotonic=time.monotonic, body_wait_s=0.1,
            retry=RetryBudget(0, 0),
        )  # fmt: skip
        with session, pytest.raises(TransientSourceError) as caught:
            session.get()
    assert "trickle" in caught.value.message
    assert "ms.http.response.max.seconds" in caught.value.fix


def test_a_slow_consumer_is_no_trickle(server):
    server.script("/x", Reply(gzip.compress(b"a" * 100), headers=(("Content-Encoding", "gzip"),)))
    now = [0.0]
    session = Session(server.url + "/x", monotonic=lambda: now[0], body_wait_s=10.0)
    with session, session.fetch(values()).body as body:
        found = b""
        while piece := body.read(7):
            found += piece
            now[0] += 100
    assert found == b"a" * 100


def test_a_refusal_names_method_address_status_and_the_masked_beginning_of_the_answer(server):
    long = "x" * 30
    server.script("/x", Reply(f"No such unit. Token {long}".encode(), 404, content_type="a/b"))
    session = Session(server.url + "/x?key=s3cret", method="PUT")
    with session, pytest.raises(SourceError) as caught:
        session.get(values({"a": "b"}))
    assert caught.value.message == (
        f"PUT {server.url}/x (key, a): HTTP status 404 Not Found; the answer begins: No such unit."
        " Token ***"
    )


def test_a_renewed_secret_is_learned_so_that_it_is_masked_from_then_on(server):
    server.script("/x", Reply(status=401), Reply(b"{}"))
    members = {**RENEWAL, "renewed": lambda: {"token": Secret("brand-new-token")}}
    with Session(server.url + "/x", **members) as session:
        session.get(values(token="old"))
    assert Secret("brand-new-token") in learned()
