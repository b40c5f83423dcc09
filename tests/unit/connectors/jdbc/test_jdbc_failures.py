"""What faults of a database are to a source: to be tried again, refused, or neither."""

from __future__ import annotations

import pytest
from pymysql import err

from connectors.jdbc.address import read_address
from connectors.jdbc.failures import RefusedError, failure_for
from dil.databases import mysql, postgresql
from dil.databases.faults import AWAY, Fault
from dil.errors import AuthenticationError, DilError, SourceError, TransientSourceError

ADDRESS = read_address("jdbc:mysql://db:3306/lake")
TRANSIENT = AWAY | {
    Fault.TOO_MANY, Fault.CONFLICT, Fault.LOCKED, Fault.TIMED_OUT, Fault.NO_RESOURCES,
    Fault.DISK_FULL, Fault.REPLAY,
}  # fmt: skip
LOGIN = {Fault.LOGIN, Fault.NO_ENTRY}
NEITHER = {
    Fault.HOST_BLOCKED, Fault.CHANGED, Fault.UNSAFE_BINLOG, Fault.CANNOT_OPEN, Fault.DAMAGED,
    Fault.IO, Fault.OTHER,
}  # fmt: skip


def kind_of(fault: Fault) -> type[DilError]:
    if fault in TRANSIENT:
        return TransientSourceError
    if fault in LOGIN:
        return AuthenticationError
    return SourceError if fault in NEITHER else RefusedError


@pytest.mark.parametrize("fault", Fault)
def test_a_fault_is_one_kind_of_error(fault: Fault) -> None:
    error = failure_for(fault, ADDRESS, "the server's\nwords")
    assert type(error) is kind_of(fault)
    assert "the server's words" in error.message


def test_what_an_engine_knows_to_do_is_said() -> None:
    fixes = {Fault.NO_DATABASE: "Make it.", Fault.IO: "Look at the file."}
    for fault, fix in fixes.items():
        assert failure_for(fault, ADDRESS, "words", fixes).fix == fix
    assert "ms.jdbc.statement" in failure_for(Fault.NO_TABLE, ADDRESS, "words", fixes).fix


@pytest.mark.parametrize("code", [1047, 2006, 4031])
def test_a_server_that_goes_away_is_asked_again(code: int) -> None:
    fault = mysql.fault_of(err.OperationalError(code, "gone"))
    assert isinstance(failure_for(fault, ADDRESS, "gone"), TransientSourceError)


def test_a_packet_that_is_too_large_is_refused_as_often_as_it_is_sent() -> None:
    fault = mysql.fault_of(err.OperationalError(1153, "too large"))
    assert isinstance(failure_for(fault, ADDRESS, "too large"), RefusedError)


def test_a_session_that_was_idle_for_too_long_is_opened_again() -> None:
    fault = postgresql.fault_of_statement("25P03", "idle")
    assert isinstance(failure_for(fault, ADDRESS, "idle"), TransientSourceError)
