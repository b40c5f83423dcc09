"""A JVM in which ``dil`` processes start their contexts one after the other.

Most tests of whole runs are about rows, and the start of a JVM costs more than all else that their
processes do. Here the JVM is there before the driver, as under spark-submit, and the driver stops
its context at the end. Drivers that are killed or stopped, and tests of the start itself, have a
JVM of their own, which ends with its driver.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dil.execution.class_archive import ClassArchive
from dil.execution.java import find_java
from dil.execution.jvm import StartingJvm, spark_home
from tests.jobs import ROOT

# The environment of the test process: what a test sets for its own driver does not reach the JVM.
_ENVIRON = dict(os.environ)


def quick_start() -> str:
    """Return JVM options for a session of seconds: no optimising, and the archive of ``dil``.

    The archive halves what a session of tests costs. These sessions use it if a run has made it.
    """
    jars = spark_home() / "jars"
    archive = ClassArchive(Path.home() / ".cache" / "dil", find_java(os.environ), jars)
    options = archive.jvm_options()
    is_made = any("SharedArchiveFile" in option for option in options)
    return " ".join(["-XX:TieredStopAtLevel=1", *(options if is_made else ())])


class WaitingJvm:
    """Starts the JVM when a driver first needs it; the JVM ends with this process."""

    def __init__(self) -> None:
        self._use = threading.Lock()
        self._jvm: StartingJvm | None = None
        self._given: Mapping[str, str] = {}

    @contextmanager
    def lent(self) -> Iterator[Mapping[str, str]]:
        """Yield the environment of one driver; it is empty while another driver uses the JVM."""
        if not self._use.acquire(blocking=False):
            yield {}
            return
        try:
            if self._jvm is None:
                self._start()
            yield self._given
        finally:
            self._use.release()

    def end(self) -> None:
        """End the JVM; the next driver gets a new one."""
        if self._jvm is not None:
            os.kill(self._jvm.pid, signal.SIGKILL)
            self._jvm = None

    def _start(self) -> None:
        conf = {
            "spark.master": "local[2,4]",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": quick_start(),
            "spark.python.daemon.module": "dil.execution.daemon",
        }
        java = find_java(os.environ).home
        self._jvm = StartingJvm(conf, {**_ENVIRON, "JAVA_HOME": java, "PYTHONPATH": str(ROOT)})
        self._given = {**self._jvm.environ(), "PYSPARK_PYTHON": sys.executable}


waiting_jvm = WaitingJvm()
