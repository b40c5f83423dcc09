"""What Java's exceptions mean, as a JVM throws them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pickle import PicklingError
from typing import Any

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from dil.errors import DilError, ExecutionError, LeaseLostError, TransientSourceError
from dil.execution.java import find_java
from dil.execution.jvm import spark_home
from dil.execution.jvm_errors import jvm_errors, last_line, source_errors, stopping_error

pytestmark = pytest.mark.spark


@contextmanager
def running() -> Iterator[JavaGateway]:
    (jar,) = (spark_home() / "jars").glob("py4j-*.jar")
    java = f"{find_java(os.environ).home}/bin/java"
    port = launch_gateway(jarpath=str(jar), die_on_exit=True, java_path=java)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    yield gateway
    gateway.shutdown()


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    with running() as gateway:
        yield gateway.jvm


def thrown(jvm: Any, *causes: Any) -> DilError:
    """Return what an error means whose chain has these, the outermost first."""
    for outer, inner in pairwise(causes):
        outer.initCause(inner)
    with pytest.raises(DilError) as caught, source_errors("jdbc:db2://host/x"):
        jvm.java.util.concurrent.CompletableFuture.failedFuture(causes[0]).get()
    return caught.value


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("SQLTransientException", "DIL-SRC-TRANSIENT"),
        ("SQLTimeoutException", "DIL-SRC-TRANSIENT"),
        ("SQLTransientConnectionException", "DIL-SRC-TRANSIENT"),
        ("SQLRecoverableException", "DIL-SRC-TRANSIENT"),
        ("SQLInvalidAuthorizationSpecException", "DIL-SRC-AUTH"),
        ("SQLSyntaxErrorException", "DIL-SRC"),
        ("SQLException", "DIL-SRC"),
    ],
)
def test_without_a_state_the_class_of_an_exception_tells(jvm: Any, name: str, code: str) -> None:
    error = thrown(jvm, getattr(jvm.java.sql, name)("come later"))
    assert (error.code, "come later" in error.message) == (code, True)


def test_a_state_tells_more_than_the_class(jvm: Any) -> None:
    error = thrown(jvm, jvm.java.sql.SQLRecoverableException("no such table", "42P01"))
    assert error.code == "DIL-SRC"
    assert "no such table (SQLSTATE 42P01)" in error.message


def test_a_class_that_is_missing_behind_a_refusal_is_no_missing_driver(jvm: Any) -> None:
    error = thrown(
        jvm,
        jvm.java.lang.RuntimeException("a task failed"),
        jvm.java.sql.SQLTransientConnectionException("no answer", "08001"),
        jvm.java.lang.ClassNotFoundException("org.example.Sockets"),
    )
    assert isinstance(error, TransientSourceError)
    assert "no answer" in error.message


def test_a_driver_that_is_missing_is_named_and_not_what_is_behind_it(jvm: Any) -> None:
    closed = jvm.java.io.IOException("closed")
    for error in (
        thrown(jvm, jvm.java.lang.ClassNotFoundException("org.example.Driver", closed)),
        thrown(jvm, jvm.java.lang.NoClassDefFoundError("org/example/Driver"), closed),
    ):
        assert error.code == "DIL-CONFIG"
        assert "has no class org.example.Driver" in error.message


def test_other_errors_of_the_jvm_are_those_of_spark(jvm: Any) -> None:
    error = thrown(jvm, jvm.java.lang.IllegalStateException("no memory left"))
    assert isinstance(error, ExecutionError)
    assert "no memory left" in error.message


def test_errors_that_are_not_of_spark_go_on_as_they_are() -> None:
    with pytest.raises(KeyError), source_errors("jdbc:db2://host/x"):
        raise KeyError("of our own")


def test_a_jvm_that_is_gone_is_told() -> None:
    with running() as gateway, pytest.raises(Py4JJavaError) as caught:
        gateway.jvm.java.lang.Integer.parseInt("x")
    with pytest.raises(ExecutionError, match="Spark failed"), source_errors("jdbc:db2://host/x"):
        raise caught.value
    assert last_line(caught.value) == "Py4JJavaError"


IN_A_TASK = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times
Lost task 0.3 in stage 0.0: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/spark/worker.py", line 1, in main
    import shop_rules
ModuleNotFoundError: No module named 'shop_rules'

\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:572)
"""  # noqa: E501


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (LeaseLostError("another run took the lease over"), "DIL-LEASE-LOST", "another run took"),
        (
            Py4JError(IN_A_TASK),
            "DIL-EXEC",
            "a task of Spark broke off: ModuleNotFoundError: No module named 'shop_rules'",
        ),
        (Py4JError("no memory left"), "DIL-EXEC", "Spark failed: no memory left"),
        (Py4JNetworkError("while receiving"), "DIL-EXEC", "Spark's JVM has ended: while receiving"),
        (ConnectionRefusedError(111, "refused"), "DIL-EXEC", "Spark's JVM has ended: [Errno 111]"),
        (PicklingError("a lock"), "DIL-EXEC", "an object cannot be sent to the tasks: a lock"),
        (OSError(28, "No space left on device", "/tmp"), "DIL-EXEC", "refused: [Errno 28] No"),
        (KeyError("unit"), "DIL-EXEC", "the run broke off: KeyError: 'unit'"),
    ],
    ids=["own", "python", "spark", "network", "gone", "pickling", "disk", "other"],
)
def test_what_stopped_a_stage_has_its_own_name(error: Exception, code: str, text: str) -> None:
    found = stopping_error(error)
    assert text in found.message
    assert found.code == code
    assert ("Spark failed" in found.message) == (text.startswith("Spark failed"))


def test_a_java_that_is_too_new_for_spark_is_named(jvm: Any) -> None:
    refused = jvm.java.lang.UnsupportedOperationException("getSubject is not supported")
    with pytest.raises(ExecutionError) as caught, jvm_errors():
        jvm.java.util.concurrent.CompletableFuture.failedFuture(refused).get()
    assert "does not run on this Java: java.util" in caught.value.message
    assert "JAVA_HOME" in caught.value.fix


def test_only_errors_of_the_jvm_are_translated() -> None:
    with pytest.raises(ExecutionError, match="JVM has ended"), jvm_errors():
        raise ConnectionResetError(104, "reset")
    with pytest.raises(OSError, match="No space"), jvm_errors():
        raise OSError(28, "No space left on device")
