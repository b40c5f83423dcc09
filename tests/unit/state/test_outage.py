"""A state server that goes away: waited for once, told once, and not in the way of the end."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Iterator

import pytest

from dil.databases.faults import Diagnosis, Fault
from dil.errors import StateError
from dil.model.database_address import DatabaseAddress, Server
from dil.model.dataset import Lease, LeaseHolder
from dil.state.databases import outage
from dil.state.databases.database import Row, SqlValue
from dil.state.databases.outage import without_waiting
from dil.state.databases.server_database import ServerDatabase
from dil.state.databases.server_driver import ServerConnection, ServerDriver
from dil.state.databases.tables import FORMAT, POSTGRESQL, ColumnWords
from dil.state.runs.leases import LeaseKeeper
from dil.state.store.sql_store import SqlStateStore
from tests.servers.waiting import wait_until

TEXT = "refused; is the server running?"


class AwayError(Exception):
    """What the scripted driver raises while its server is away."""


class ScriptedDriver(ServerDriver):
    """A driver whose server answers everything, until ``is_away``; it counts who knocks."""

    def __init__(self) -> None:
        self.address = DatabaseAddress(Server.POSTGRESQL, (("db", 5432),), "dil")
        self.is_away = False
        self.back_after: int | None = None
        self.knocks = 0

    def connect(self, *, may_idle: bool) -> ServerConnection:
        del may_idle
        self.knocks += 1
        if self.knocks == self.back_after:
            self.is_away = False
        self.require()
        return ScriptedConnection(self)

    def errors(self) -> tuple[type[Exception], ...]:
        return (AwayError,)

    def diagnose(self, error: Exception) -> Diagnosis:
        return Diagnosis(Fault.LOST, str(error), "Look at the server.")

    def require(self) -> None:
        if self.is_away:
            raise AwayError(TEXT)


class ScriptedConnection(ServerConnection):
    """A connection to a store with tables and without rows."""

    def __init__(self, driver: ScriptedDriver) -> None:
        self._driver = driver

    def change(self, statement: str, *values: SqlValue) -> int:
        self._driver.require()
        return 1

    def rows(self, statement: str, *values: SqlValue) -> list[Row]:
        self._driver.require()
        return [(FORMAT,)] if "state_format" in statement else []

    def stream(self, statement: str, *values: SqlValue) -> Generator[Row, None, None]:
        self._driver.require()
        yield from ()

    def lift_limits(self) -> None:
        self._driver.require()

    def columns(self, table: str) -> tuple[str, ...]:
        self._driver.require()
        return ()

    def existing(self, names: Iterable[str]) -> frozenset[str]:
        self._driver.require()
        return frozenset(names)

    def column_words(self) -> ColumnWords:
        return POSTGRESQL

    def begin_writing(self) -> None:
        self._driver.require()

    begin_reading = commit = rollback = create = begin_writing

    def close(self) -> None:
        pass


@pytest.fixture
def driver() -> ScriptedDriver:
    return ScriptedDriver()


@pytest.fixture
def store(driver: ScriptedDriver, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStateStore]:
    """A store whose server answered once; an outage is waited for half a second."""
    monkeypatch.setattr(outage, "RESTART_S", 0.5)
    monkeypatch.setattr(outage, "_PAUSE_S", 0.05)
    with SqlStateStore(ServerDatabase(driver, "orders"), "orders", clock=lambda: 0) as opened:
        opened.head()
        yield opened


LEASE = Lease("orders", 1, LeaseHolder("r1", "here", 1, "", 0, 0))


def test_the_end_of_a_run_waits_once_however_often_it_asks(
    store: SqlStateStore, driver: ScriptedDriver, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "dil"), LeaseKeeper(store, LEASE, 60):
        driver.is_away = True
        with pytest.raises(StateError) as read:
            store.last_rows()
        knocks = driver.knocks
        with pytest.raises(StateError) as written:
            store.end_run(LEASE, "r1", "failed", rows=0, files=0)
    assert driver.knocks == knocks, "known to be away: nobody knocks again"
    assert "cannot be reached" in read.value.message
    assert "recorded" not in read.value.fix
    assert "Nothing of this change was recorded" in written.value.fix
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        f"waiting for the state store postgresql://db:5432/dil, up to 0.5 s: {TEXT}",
        "the lease could not be released: the state store postgresql://db:5432/dil cannot be "
        f"reached: {TEXT}",
    ]


def test_a_server_that_comes_back_in_time_is_used_and_a_later_outage_waited_for_anew(
    store: SqlStateStore, driver: ScriptedDriver, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        driver.is_away, driver.back_after = True, driver.knocks + 3
        with caplog.at_level(logging.INFO, "dil"):
            assert store.last_rows() is None
    backs = [record for record in caplog.records if "is back" in record.getMessage()]
    assert len(backs) == 2


def test_a_server_that_comes_back_after_the_wait_is_asked_again(
    store: SqlStateStore, driver: ScriptedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage, "RESTART_S", 0)
    driver.is_away = True
    with pytest.raises(StateError):
        store.last_rows()
    driver.is_away = False
    assert store.last_rows() is None


def test_a_heartbeat_does_not_use_up_the_time_of_the_run(
    store: SqlStateStore, driver: ScriptedDriver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.is_away = True
    with without_waiting(), pytest.raises(StateError):
        store.heartbeat(LEASE)
    assert caplog.records == []
    driver.back_after = driver.knocks + 3
    assert store.last_rows() is None


def test_a_server_that_never_answered_is_not_waited_for(
    driver: ScriptedDriver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.is_away = True
    with SqlStateStore(ServerDatabase(driver, "orders"), "orders", clock=lambda: 0) as store:
        for _ in range(2):
            with pytest.raises(StateError):
                store.head()
    assert caplog.records == []


def test_a_heartbeat_that_fails_is_told_on_one_line_and_tried_again(
    store: SqlStateStore, driver: ScriptedDriver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.is_away = True
    with LeaseKeeper(store, LEASE, 1), caplog.at_level(logging.WARNING, "dil"):
        wait_until(lambda: len(caplog.records) > 1)
    told = caplog.records[0].getMessage()
    assert told.startswith("a heartbeat failed, trying again: the state store")
    assert "\n" not in told
