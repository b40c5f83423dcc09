"""Limits each wait of psycopg for the server; importing this module imports psycopg."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from typing import Any, TypeVar

import psycopg

T = TypeVar("T")


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """Gives up if the server is silent for ``answer_s`` seconds."""

    answer_s: float

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **named: Any) -> T:
        """Return the result of an exchange with the server, waiting no longer than ``answer_s``."""
        try:
            return super().wait(_bounded(gen, self.answer_s), *args, **named)
        except _SilentServerError as error:
            self.pgconn.finish()
            raise psycopg.OperationalError(str(error)) from error


def connect(given: Mapping[str, str], *, answer_s: float) -> BoundedConnection:
    """Return a connection in autocommit mode; the caller's BEGIN starts a transaction.

    Args:
        given: Arguments for libpq.
        answer_s: The seconds of silence after which the server counts as gone.
    """
    # A pooler on the way may not know statements that another connection prepared.
    more: dict[str, Any] = {**given, "autocommit": True, "prepare_threshold": None}
    connection = BoundedConnection.connect("", **more)
    connection.answer_s = answer_s
    return connection


class _SilentServerError(Exception):
    """The server did not answer in time."""


def _bounded(exchange: Generator[Any, Any, T], limit_s: float) -> Generator[Any, Any, T]:
    """Pass an exchange on; raise if no answer comes within ``limit_s`` seconds."""
    deadline = time.monotonic() + limit_s
    try:
        wanted = next(exchange)
        while True:
            ready = yield wanted
            if ready:
                deadline = time.monotonic() + limit_s
            elif time.monotonic() > deadline:
                raise _SilentServerError(f"no answer for {limit_s} s")
            wanted = exchange.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result
