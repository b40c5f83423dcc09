"""Adds the jars of JDBC drivers to Spark's running JVM, and finds drivers by URL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dil.execution.jvm_errors import no_driver


def add_jars(context: Any, jars: Sequence[str]) -> None:  # a SparkContext
    """Make the classes of local jars available to the driver and all executors."""
    jvm = context._jvm  # noqa: SLF001 - a running JVM takes a jar by no public way
    loader = _loader(jvm)
    for jar in jars:
        loader.addURL(jvm.java.io.File(jar).toURI().toURL())
        context._jsc.addJar(jar)  # noqa: SLF001


def driver_for(context: Any, url: str, location: str) -> str:  # a SparkContext
    """Return the class of the driver for a URL.

    Spark itself asks Java's DriverManager, which sees no jar that was added after the JVM started.

    Args:
        context: The SparkContext, whose JVM is searched.
        url: A ``jdbc:`` URL.
        location: The URL without secrets, for messages.

    Raises:
        ConfigError: no jar has a driver that registers itself and takes the URL.
    """
    jvm = context._jvm  # noqa: SLF001
    kind = jvm.java.lang.Class.forName("java.sql.Driver")
    drivers = jvm.java.util.ServiceLoader.load(kind, _loader(jvm)).iterator()
    while drivers.hasNext():
        driver = drivers.next()
        if driver.acceptsURL(url):
            return str(driver.getClass().getName())
    raise no_driver(f"has no driver for {location}")


def _loader(jvm: Any) -> Any:  # a view of the JVM
    return jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
