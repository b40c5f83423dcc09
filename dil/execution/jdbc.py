"""Prepares Spark's JDBC source: finds drivers, and refuses columns that Spark would change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dil.errors import SourceContractError
from dil.execution.jvm_errors import no_driver

_DECIMAL = re.compile(r"decimal\(\d+, ?(-?\d+)\)")
_MICROSECONDS = 6


def add_jars(context: Any, jars: Sequence[str]) -> None:  # a SparkContext
    """Give the classes of local jars to the driver and all executors."""
    jvm = context._jvm  # a running JVM takes a jar by no public way
    loader = _loader(jvm)
    for jar in jars:
        loader.addURL(jvm.java.io.File(jar).toURI().toURL())
        context._jsc.addJar(jar)


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
    jvm = context._jvm
    kind = jvm.java.lang.Class.forName("java.sql.Driver")
    drivers = jvm.java.util.ServiceLoader.load(kind, _loader(jvm)).iterator()
    while drivers.hasNext():
        driver = drivers.next()
        if driver.acceptsURL(url):
            return str(driver.getClass().getName())
    raise no_driver(f"has no driver for {location}")


def _loader(jvm: Any) -> Any:  # a view of the JVM
    return jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()


def refuse_lossy(fields: Iterable[Mapping[str, Any]]) -> None:
    """Refuse columns whose values Spark would round or cut, without saying so.

    Spark reads decimals into a scale that it chooses, times of day in milliseconds, and timestamps
    in microseconds. The metadata of Spark's schema has the driver's description of a column.
    Source: Spark's JdbcUtils.getSchema and makeGetter, 4.0 to 4.3.

    Args:
        fields: The fields of a StructType as JSON: ``name``, ``type``, ``metadata``.

    Raises:
        SourceContractError: a column would be rounded or cut.
    """
    for field in fields:
        name, kind, metadata = str(field["name"]), _item(field["type"]), field["metadata"]
        scale = metadata.get("scale")
        decimal = _DECIMAL.fullmatch(kind)
        if decimal and scale is not None and int(decimal[1]) != scale:
            raise _lossy(
                name,
                f"Spark does not keep the scale of its numbers: it would round them to {kind}",
                f"CAST({name} AS DECIMAL(38, 9)) AS {name}, with as many digits as there are, or a"
                " cast to text",
            )
        if metadata.get("logical_time_type"):
            raise _lossy(
                name,
                "Spark would cut its times of day to milliseconds",
                f"CAST({name} AS VARCHAR(18)) AS {name}",
            )
        if kind.startswith("timestamp") and scale is not None and scale > _MICROSECONDS:
            raise _lossy(
                name,
                "Spark would cut its times to microseconds",
                f"CAST({name} AS TIMESTAMP(6)) AS {name}, or a cast to text",
            )


def _item(kind: Any) -> str:  # a type as JSON
    """Return the type; for arrays, the type of the items."""
    found = kind
    while isinstance(found, Mapping) and found.get("type") == "array":
        found = found["elementType"]
    return found if isinstance(found, str) else ""


def _lossy(name: str, what: str, write: str) -> SourceContractError:
    return SourceContractError(f'column "{name}": {what}', f"Write {write} in ms.jdbc.statement.")
