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
