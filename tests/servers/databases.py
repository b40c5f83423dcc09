"""Gives each test a database of its own, on servers that many tests share."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class DatabaseServer(Protocol):
    """A server that makes databases and drops them."""

    def add_database(self, name: str) -> str:
        """Make an empty database and return its URL."""

    def drop_database(self, name: str) -> None:
        """Drop the database."""


@contextmanager
def new_database(server: DatabaseServer) -> Iterator[str]:
    """Yield the URL of an empty database, which is dropped at the end."""
    name = f"t{uuid.uuid4().hex[:12]}"
    url = server.add_database(name)
    try:
        yield url
    finally:
        server.drop_database(name)
