"""Kill -9 during state commits, on every backend: nothing acknowledged is lost, the chain holds.

The short form kills the client; the long form (make torture) also the server, which then runs
with all its disk writes on.
"""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.contract.state_servers import mysql_place, postgresql_place
from tests.contract.state_stores import (
    KINDS,
    Place,
    folder_place,
)
from tests.marks import some_long
from tests.servers.mysql import mysql_class
from tests.servers.postgresql import PostgresqlServer
from tests.torture.state_kills import StateKills

KILLS = int(os.environ.get("DIL_STATE_KILLS", "5"))
IS_LONG = KILLS > 5
# In the long form every fourth kill hits the server.
SERVER_EVERY = 4


@pytest.fixture(params=some_long(KINDS, "fs", "mysql", "postgresql"))
def killed(request: pytest.FixtureRequest, tmp_path) -> Iterator[tuple[Place, Callable | None]]:
    """Return a store, and in the long form how to kill the server that keeps it."""
    kind = request.param
    if kind not in {"postgresql", "mysql"}:
        yield folder_place(kind, tmp_path), None
        return
    servers = {"postgresql": PostgresqlServer, "mysql": mysql_class()}
    make = postgresql_place if kind == "postgresql" else mysql_place
    with ExitStack() as stack:
        if IS_LONG:
            server = stack.enter_context(servers[kind](durable=True))
        else:
            server = request.getfixturevalue(f"{kind}_server")

        def kill_and_start() -> None:
            server.kill()
            server.start()

        place = stack.enter_context(make(server, f"t{uuid.uuid4().hex[:12]}"))
        yield place, kill_and_start if IS_LONG else None


def test_a_store_whose_writers_are_killed_keeps_every_commit_that_returned(killed) -> None:
    place, kill_server = killed
    kills = StateKills(place.spec, random.Random(19), kill_server)
    for number in range(KILLS):
        kills.round(number, server=number % SERVER_EVERY == SERVER_EVERY - 1)
        kills.require_sound(number)
    assert kills.acknowledged
