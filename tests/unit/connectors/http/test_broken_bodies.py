"""Answers whose body breaks off: what may be asked for again, and what may have been done."""

from __future__ import annotations

import pytest

from connectors.http.failures import UnknownOutcomeError
from dil.errors import TransientSourceError
from dil.spi.connector import RequestValues
from tests.servers.http_server import HttpServer, Reply
from tests.servers.http_sessions import Session

BROKEN = Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}")


@pytest.mark.parametrize(
    ("payload", "error"), [(None, TransientSourceError), ({"id": 1}, UnknownOutcomeError)]
)
def test_a_row_that_was_answered_is_not_sent_again_because_its_answer_breaks_off(payload, error):
    with HttpServer() as server:
        server.script("/x", BROKEN)
        with Session(f"{server.url}/x", method="POST") as session:
            answer = session.fetch(RequestValues({}, {}, payload=payload))
            with pytest.raises(error), answer.body as body:
                body.read()
        assert server.count("/x") == 1


CHUNKS = b"7\r\nid\n1\n2\n\r\n0\r\n\r\n"


def answered(*headers: bytes, body: bytes) -> tuple[bytes, bool]:
    """Return the content of an answer with these headers, and whether they say where it ends."""
    head = b"\r\n".join((b"HTTP/1.1 200 OK", b"Connection: close", *headers, b"\r\n"))
    with HttpServer() as server:
        server.script("/x", Reply(raw=head + body))
        with Session(f"{server.url}/x") as session:
            answer = session.fetch(RequestValues({}, {}))
            with answer.body as content:
                return content.read(), answer.has_end


@pytest.mark.parametrize(
    "headers",
    [
        (b"Transfer-Encoding: chunked ",),
        (b"Transfer-Encoding:\tCHUNKED\t",),
        (b"Transfer-Encoding : chunked ", b"Content-Length: 3"),
        (b"Transfer-Encoding: identity, chunked",),
        (b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked"),
        (b"Transfer-Encoding: chunked, chunked",),
        (b"Transfer-Encoding: chunked,",),
        (b"Transfer-Encoding: identity,\r\n chunked",),
    ],
)
def test_the_sizes_of_chunks_are_never_content(headers):
    assert answered(*headers, body=CHUNKS) == (b"id\n1\n2\n", True)


@pytest.mark.parametrize(
    "headers",
    [
        (b"Transfer-Encoding: gzip, chunked",),
        (b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked"),
    ],
)
def test_chunks_of_an_unknown_coding_are_no_answer(headers):
    with pytest.raises(TransientSourceError) as caught:
        answered(*headers, body=CHUNKS)
    assert "ms.source.uri" not in caught.value.fix  # It is another server's fault, not an address'.


@pytest.mark.parametrize("length", [b"", b"-1", b"seven"])
def test_a_length_that_is_no_number_does_not_say_where_a_body_ends(length):
    assert answered(b"Content-Length: " + length, body=b"id\n1\n") == (b"id\n1\n", False)
