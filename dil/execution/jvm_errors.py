"""Translates exceptions of Spark's JVM to errors that say what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dil.errors import (
    AuthenticationError,
    ConfigError,
    DilError,
    ExecutionError,
    SourceError,
    TransientSourceError,
)
from dil.model.messages import shortened

_LONGEST = 300
_MOST_CAUSES = 20
_NO_DRIVER = "No suitable driver"
# Classes of SQLSTATE (SQL:2016 part 2, table 38; vendors' own): a refused login, a failed
# connection, a busy server.
_LOGIN = ("28",)
_CONNECTION = ("08", "57P")
_BUSY = ("40", "53", "57", "HYT")
_SQL_EXCEPTION = "java.sql.SQLException"
# The classes of SQLSTATE with their own exceptions (JDBC 4.3, 8.5). SQLRecoverableException
# asks for a new connection.
_KINDS = {
    "java.sql.SQLInvalidAuthorizationSpecException": "28",
    "java.sql.SQLNonTransientConnectionException": "08",
    "java.sql.SQLTransientConnectionException": "08",
    "java.sql.SQLRecoverableException": "08",
    "java.sql.SQLTransientException": "40",
}
# A Python worker's text about an exception, up to the frames of the JVM.
_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\):\n(.*?)(?:\n\s*\n|\n\s+at |\Z)", re.DOTALL
)
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:: .*)?$")
# Java 24 and newer refuse what the Hadoop of Spark 4.0 calls when a session starts.
_TOO_NEW = "getSubject is not supported"
_NO_CLASS = frozenset({"java.lang.ClassNotFoundException", "java.lang.NoClassDefFoundError"})


def last_line(error: BaseException) -> str:
    """Return the most telling line of an error's text."""
    lines = [line.strip().removeprefix(": ") for line in _text(error).splitlines() if line.strip()]
    caused = [line for line in lines if "Caused by" in line or "Exception" in line]
    return (caused or lines or [type(error).__name__])[0][:500]


def _text(error: BaseException) -> str:
    """Return an error's text; py4j asks the JVM for it, and it is empty if the JVM is gone."""
    with suppress(Exception):
        return str(error)
    return ""


def stopping_error(error: Exception) -> DilError:
    """Return the error that stopped a Spark job: a DilError unchanged, other errors translated.

    If a Python task broke off outside of its work unit, the task's exception is named as the cause.
    """
    from pickle import PicklingError

    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if isinstance(error, DilError):
        return error
    if isinstance(error, Py4JError | PySparkException | ConnectionError | EOFError):
        return _of_spark(error)
    if isinstance(error, PicklingError):
        return ExecutionError(
            f"an object cannot be sent to the tasks: {last_line(error)}",
            "A class that the job names keeps an object that does not pickle, such as a lock or a "
            "connection: create the object in the task.",
        )
    if isinstance(error, OSError):
        return ExecutionError(f"the machine that drives the run refused: {error}")
    return ExecutionError(
        f"the run broke off: {type(error).__name__}: {last_line(error)}",
        "Run again with -v for the traceback.",
    )


def _of_spark(error: Exception) -> ExecutionError:
    """Return the error for an error of Spark, of its JVM, or of the connection to the JVM."""
    from py4j.protocol import Py4JNetworkError

    if isinstance(error, Py4JNetworkError | ConnectionError):
        return ExecutionError(
            f"Spark's JVM has ended: {last_line(error)}",
            "The system's log (dmesg) says whether it was killed because memory ran out: give it"
            " less to do by taskexecutor.threadpool.size, or more memory by spark.driver.memory."
            " Then run the job again.",
        )
    text = _text(error)
    if _TOO_NEW in text:
        return ExecutionError(
            f"this release of Spark does not run on this Java: {last_line(error)}",
            "Set JAVA_HOME to Java 17 or 21, or install a newer pyspark.",
        )
    traceback = _TRACEBACK.search(text)
    lines = traceback[1].splitlines() if traceback else []
    causes = [line for line in lines if _RAISED.match(line)]
    if causes:
        return ExecutionError(
            f"a task of Spark broke off: {shortened(causes[-1].strip(), _LONGEST)}",
            "The machines that run tasks need the same Python packages as this one; -v shows"
            " the whole text.",
        )
    return ExecutionError(f"Spark failed: {last_line(error)}")


@contextmanager
def jvm_errors() -> Iterator[None]:
    """Translate errors of the connection to the JVM, and of the JVM; other errors pass unchanged.

    Raises:
        ExecutionError: the translated error.
    """
    from py4j.protocol import Py4JError

    try:
        yield
    except (Py4JError, ConnectionError, EOFError) as error:
        raise stopping_error(error) from error


@contextmanager
def source_errors(location: str) -> Iterator[None]:
    """Translate errors of Spark and the JVM while they read a source; other errors pass unchanged.

    Args:
        location: The source's address without secrets.

    Raises:
        DilError: the translated error.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException, ConnectionError) as error:
        found = None
        with suppress(Py4JError, ConnectionError):  # the JVM itself may be gone
            found = _java_error(error, location)
        raise found or ExecutionError(f"Spark failed: {last_line(error)}") from error


def _java_error(error: Exception, location: str) -> DilError | None:
    """Return the translation of the Java exceptions behind an error; an SQLException goes first."""
    causes: list[tuple[tuple[str, ...], Any]] = []  # the outermost first
    found = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while found is not None and len(causes) < _MOST_CAUSES:
        causes.append((_ancestry(found), found))
        found = found.getCause()
    for names, cause in reversed(causes):
        if _SQL_EXCEPTION in names:
            kind = next((_KINDS[name] for name in names if name in _KINDS), "")
            return refusal(cause.getSQLState() or "", _message(cause), location, kind)
    for names, cause in reversed(causes):
        if _NO_CLASS.intersection(names):
            return no_driver(f"has no class {_message(cause).replace('/', '.')}")
    return None


def refusal(state: str, reason: str, location: str, kind: str = "") -> DilError:
    """Return the DilError that a SQLException means.

    Args:
        state: The SQLSTATE of the exception, empty if the driver gives none.
        reason: The message of the exception.
        location: The source's address without secrets.
        kind: The first two characters of the SQLSTATE that the exception's Java class stands for;
            they are used if ``state`` is empty.
    """
    if _NO_DRIVER in reason:
        return no_driver(f"has no driver for {location}")
    said = shortened(re.sub(r"\s+", " ", reason).strip(), _LONGEST)
    said = f"{said} (SQLSTATE {state})" if state else said
    meant = state or kind
    if meant.startswith(_LOGIN):
        return AuthenticationError(
            f"{location} refused the user: {said}",
            "Check source.conn.username and source.conn.password, and the user's rights.",
        )
    if meant.startswith(_CONNECTION):
        return TransientSourceError(
            f"{location} cannot be reached, or the connection broke: {said}",
            "Check that the server runs and that ms.source.uri names its host and port.",
        )
    if meant.startswith(_BUSY):
        return TransientSourceError(
            f"{location} gave up: {said}",
            "Raise the server's limit, ask for less in one statement, or run fewer work units at"
            " once (taskexecutor.threadpool.size).",
        )
    return SourceError(f"{location} refused the statement: {said}", "Correct ms.jdbc.statement.")


def no_driver(what: str) -> ConfigError:
    """Return the error for a JDBC driver that Spark does not find; ``what`` begins the message."""
    return ConfigError.single(
        "ms.jdbc.driver.jar",
        f"{what}: Spark does not find the JDBC driver",
        "Name the driver's jar, or give it to spark-submit --jars; ms.jdbc.driver.class names its "
        "class if the jar does not name it.",
    )


def _message(cause: Any) -> str:  # a Java exception
    return str(cause.getMessage() or cause.getClass().getName())


def _ancestry(cause: Any) -> tuple[str, ...]:  # a Java exception
    """Return the names of an exception's class and of its superclasses."""
    names = []
    found = cause.getClass()
    while found is not None:
        names.append(str(found.getName()))
        found = found.getSuperclass()
    return tuple(names)
