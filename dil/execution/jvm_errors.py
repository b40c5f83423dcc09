"""What an error of Spark's JVM means: Java's exceptions, in the errors that tell what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from dil.errors import (
    AuthenticationError,
    ConfigError,
    DilError,
    ExecutionError,
    SourceError,
    TransientSourceError,
)
from dil.observe.redaction import shortened

_LONGEST = 300
_MOST_CAUSES = 20
_NO_DRIVER = "No suitable driver"
# Classes of SQLSTATE (SQL:2016 part 2, table 38; vendors' own): what may pass.
_LOGIN = ("28",)
_CONNECTION = ("08", "57P")
_BUSY = ("40", "53", "57", "HYT")


def last_line(error: Exception) -> str:
    """Return the line of an error's text that tells most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    caused = [line for line in lines if "Caused by" in line or "Exception" in line]
    return (caused or lines or [type(error).__name__])[0][:500]


def source_error(error: Exception, location: str) -> DilError:
    """Return what an error of reading a source by Spark means.

    Args:
        error: From py4j or pyspark.
        location: The source, without secrets.
    """
    causes = [(cause.getClass().getName(), cause) for cause in _causes(error)]
    if any(name.endswith(("ClassNotFoundException", "NoClassDefFoundError")) for name, _ in causes):
        return no_driver(f"has no class {_message(causes[-1][1]).replace('/', '.')}")
    for _, cause in reversed(causes):
        with suppress(_py4j_error()):
            return refusal(cause.getSQLState() or "", _message(cause), location)
    return ExecutionError(f"Spark failed: {last_line(error)}")


def refusal(state: str, reason: str, location: str) -> DilError:
    """Return what a SQLException means.

    Args:
        state: Its SQLSTATE, empty where the driver tells none.
        reason: Its message.
        location: The source, without secrets.
    """
    if _NO_DRIVER in reason:
        return no_driver(f"has no driver for {location}")
    said = shortened(re.sub(r"\s+", " ", reason).strip(), _LONGEST)
    said = f"{said} (SQLSTATE {state})" if state else said
    if state.startswith(_LOGIN):
        return AuthenticationError(
            f"{location} refused the user: {said}",
            "Check source.conn.username and source.conn.password, and the user's rights.",
        )
    if state.startswith(_CONNECTION):
        return TransientSourceError(
            f"{location} cannot be reached, or the connection broke: {said}",
            "Check that the server runs and that ms.source.uri names its host and port.",
        )
    if state.startswith(_BUSY):
        return TransientSourceError(
            f"{location} gave up: {said}",
            "Raise the server's limit, ask for less in one statement, or run fewer work units at"
            " once (taskexecutor.threadpool.size).",
        )
    return SourceError(f"{location} refused the statement: {said}", "Correct ms.jdbc.statement.")


def no_driver(what: str) -> ConfigError:
    """Return the error for a JDBC driver that Spark does not find; ``what`` ends "the jar ..."."""
    return ConfigError.single(
        "ms.jdbc.driver.jar",
        f"{what}: Spark does not find the JDBC driver",
        "Name the driver's jar, or give it to spark-submit --jars; ms.jdbc.driver.class names its"
        " class where the jar does not tell.",
    )


def _causes(error: Exception) -> Iterator[Any]:
    """Yield the Java exceptions of an error, the outermost first."""
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(_MOST_CAUSES):
        if cause is None:
            return
        yield cause
        cause = cause.getCause()


def _message(cause: Any) -> str:  # noqa: ANN401 - a Java exception
    return str(cause.getMessage() or cause.getClass().getName())


def _py4j_error() -> type[Exception]:
    from py4j.protocol import Py4JError

    found: type[Exception] = Py4JError
    return found
