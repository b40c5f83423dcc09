"""Signals during acts of DuckDB's driver."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import duckdb
import pytest

from dil.cli.signals import Interruption, interruptible
from dil.databases.duckdb import DuckdbSession

# It runs for hours and keeps no rows.
ENDLESS = "SELECT sum(sqrt(range)) FROM range(1000000000000000)"
ACTS: list[Callable[[Any], object]] = [
    lambda connection: connection.execute(ENDLESS).fetchall(),
    lambda connection: connection.sql(ENDLESS).to_arrow_reader(10).read_all(),
    lambda connection: connection.commit(),
]


@pytest.mark.parametrize("act", ACTS, ids=["execute", "sql", "commit"])
def test_a_signal_ends_an_act_of_duckdb_as_itself(act: Callable[[Any], object]) -> None:
    """In the main thread DuckDB would raise RuntimeError; no signal ends a statement by itself."""
    connection = duckdb.connect()
    connection.begin()
    ended = threading.Event()

    def signalled() -> object:
        assert threading.current_thread() is not threading.main_thread()
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            return act(connection)
        finally:
            ended.set()

    session = DuckdbSession(connection)
    with closing(session), pytest.raises(Interruption), interruptible():
        session.run(signalled)
    assert ended.is_set()
