"""A Spark session like that of a user's script, for tests that share its start."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dil.execution.java import find_java
from tests.jobs import ROOT
from tests.servers.class_archive import quick_start
from tests.servers.spark_python import quick_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The default manager starts a program, readlink, for each path that it renames.
RENAMING = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


@contextmanager
def spark_session(
    folder: Path, environ: Mapping[str, str] = {}, settings: Mapping[str, str] = {}
) -> Iterator[SparkSession]:
    """Yield a local session whose event log is in ``folder``; its JVM ends with it.

    ``environ`` is what the JVM, and so the processes that it starts, see beside this one's.
    ``settings`` replaces settings of Spark that suit tests.
    """
    from pyspark.sql import SparkSession

    _end_jvm()  # one of an earlier test has another environment
    named = {
        "JAVA_HOME": find_java(os.environ).home,
        "PYSPARK_PYTHON": str(quick_python(folder, ROOT)),
        **environ,
    }
    before = {name: os.environ.get(name) for name in named}
    os.environ.update(named)
    events = folder / "events"
    events.mkdir()
    builder = SparkSession.builder.master("local[2]").appName("dil-tests")
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": quick_start(),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.streaming.checkpointFileManagerClass": RENAMING,
        "spark.python.daemon.module": "tests.servers.spark_daemon",
        **settings,
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
        _end_jvm()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def _end_jvm() -> None:
    """End the JVM that pyspark keeps for the next session, and take back what it did to py4j.

    A context that an earlier test of this process left is stopped first: pyspark would go on
    with it, and its JVM is gone.
    """
    from py4j import java_gateway, protocol
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None:
        context.stop()
    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None
    java_gateway.get_return_value = protocol.get_return_value
