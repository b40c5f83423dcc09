"""The errors for failures of a database; their class says whether another attempt may help."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from connectors.jdbc.address import JdbcAddress
from dil.databases.faults import Fault
from dil.errors import (
    AuthenticationError,
    DilError,
    SourceContractError,
    SourceError,
    TransientSourceError,
)
from dil.model.messages import shortened

_LONGEST = 300


class RefusedError(SourceError):
    """The database refuses a request, and would refuse it again."""

    retryable = False


def unreachable(address: JdbcAddress, reason: str) -> TransientSourceError:
    """Return the error for a server that does not answer."""
    return TransientSourceError(
        f"{address} cannot be reached: {_line(reason)}",
        "Check that the server runs and that ms.source.uri names its host and port.",
    )


def lost(address: JdbcAddress, reason: str) -> TransientSourceError:
    """Return the error for a connection that broke; the rows read so far are not published."""
    return TransientSourceError(
        f"the connection to {address} broke: {_line(reason)}",
        "DIL drops the rows read so far and repeats the attempt. If the error comes again, read"
        " the server's log.",
    )


def silent(address: JdbcAddress, seconds: float) -> TransientSourceError:
    """Return the error for a server that did not answer within ``socketTimeout``."""
    return TransientSourceError(
        f"{address} did not answer for {seconds:g} s, the socketTimeout of ms.source.uri",
        "Raise socketTimeout if the statement needs longer for its first rows. Otherwise look at"
        " the server, and at a pooler or proxy before it.",
    )


def busy(address: JdbcAddress, reason: str, fix: str = "") -> TransientSourceError:
    """Return the error for a server that gave up for now: time-out, deadlock, too many logins."""
    return TransientSourceError(
        f"{address} gave up: {_line(reason)}",
        fix
        or "Raise the server's limit, query less in one statement, or run fewer work units at once"
        " (ms.work.unit.parallelism.max).",
    )


def refused_login(address: JdbcAddress, reason: str, fix: str = "") -> AuthenticationError:
    """Return the error for a login that the server refused."""
    return AuthenticationError(
        f"{address} refused the user: {_line(reason)}",
        fix or "Check source.conn.username and source.conn.password, and the user's rights.",
    )


def unopened(address: JdbcAddress, reason: str, fix: str) -> RefusedError:
    """Return the error for a database that is missing, or cannot be opened in this way."""
    return RefusedError(f"{address} cannot be opened: {_line(reason)}", fix)


def failed(address: JdbcAddress, reason: str, fix: str = "") -> SourceError:
    """Return the error for a failed statement; its cause may pass by itself, or may last."""
    return SourceError(
        f"{address} did not run the statement: {_line(reason)}",
        fix or "Read the server's log, and check ms.jdbc.statement.",
    )


def refused(address: JdbcAddress, reason: str, fix: str = "") -> RefusedError:
    """Return the error for a statement that the server refuses."""
    return RefusedError(
        f"{address} refused the statement: {_line(reason)}", fix or "Correct ms.jdbc.statement."
    )


def denied(address: JdbcAddress, reason: str) -> RefusedError:
    """Return the error for a user without the right to read the statement's tables."""
    return refused(address, reason, "Give the user the right: GRANT SELECT ON <table> TO <user>.")


def writes(address: JdbcAddress, reason: str) -> RefusedError:
    """Return the error for a query that tries to write."""
    return refused(
        address,
        reason,
        "Queries run in a transaction that cannot write. To let the statement write, set"
        " ms.jdbc.read.only=false. A replica accepts no writes in any case.",
    )


_PLAIN: Mapping[Fault, Callable[[JdbcAddress, str], DilError]] = {
    Fault.LOST: lost,
    Fault.UNREACHABLE: unreachable,
    Fault.DENIED: denied,
    Fault.READ_ONLY: writes,
} | dict.fromkeys(
    (Fault.STARTING, Fault.TOO_MANY, Fault.CONFLICT, Fault.LOCKED, Fault.TIMED_OUT,
     Fault.NO_RESOURCES, Fault.DISK_FULL), busy,
)  # fmt: skip
_LOGIN = {Fault.LOGIN, Fault.NO_ENTRY}
_UNOPENED = {
    Fault.NO_DATABASE, Fault.NO_DATABASE_RIGHT, Fault.OPTIONS, Fault.NO_TLS, Fault.TLS_ONLY,
    Fault.UNTRUSTED, Fault.NO_TRANSACTIONS,
}  # fmt: skip
_REFUSED = {
    Fault.EXISTS, Fault.DUPLICATE, Fault.TOO_LARGE, Fault.NO_SCHEMA, Fault.NO_TABLE,
    Fault.NO_COLUMN, Fault.DOES_NOT_FIT, Fault.REFUSED, Fault.NO_PRIMARY_KEY,
}  # fmt: skip


def failure_for(
    fault: Fault, address: JdbcAddress, reason: str, fixes: Mapping[Fault, str] | None = None
) -> DilError:
    """Return the error for a fault of a database; ``fixes`` holds the engine's own advice.

    ``fixes`` is ignored for faults with advice of their own. A fault that may pass by itself is
    transient; a fault that every attempt would meet again is a refusal.
    """
    fix = (fixes or {}).get(fault, "")
    plain = _PLAIN.get(fault)
    if plain is not None:
        return plain(address, reason)
    if fault is Fault.REPLAY:
        return busy(address, reason, fix)
    if fault in _LOGIN:
        return refused_login(address, reason, fix)
    if fault in _UNOPENED:
        return unopened(address, reason, fix)
    return (refused if fault in _REFUSED else failed)(address, reason, fix)


def missing_driver(package: str, kind: str) -> SourceError:
    """Return the error for a driver that is not installed."""
    return SourceError(
        f"the driver for jdbc:{kind}: is not installed: there is no module {package}",
        f"Install the driver on the machines that run tasks: pip install {package}.",
    )


def unfit(column: str, what: str, fix: str) -> SourceContractError:
    """Return the error for a value that no column type holds exactly."""
    return SourceContractError(f'column "{column}": {what}', fix)


def _line(reason: str) -> str:
    return shortened(re.sub(r"\s+", " ", reason).strip(), _LONGEST)
