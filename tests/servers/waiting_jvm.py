"""A JVM in which ``dil`` processes start their contexts one after the other.

Most tests of whole runs are about rows, and the start of a JVM costs more than all else that their
processes do. Here the JVM is there before the driver, as under spark-submit, and the driver stops
its context at the end. Drivers that are killed or stopped, and tests of the start itself, have a
JVM of their own, which ends with its driver.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dil.execution.class_archive import ClassArchive
from dil.execution.java import find_java
from dil.execution.jvm import spark_home
from tests.jobs import ROOT
from tests.servers.waiting import wait_until

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
        self._process: subprocess.Popen[bytes] | None = None
        self._door: Mapping[str, str] = {}

    @contextmanager
    def lent(self) -> Iterator[Mapping[str, str]]:
        """Yield the environment of one driver; it is empty while another driver uses the JVM."""
        if not self._use.acquire(blocking=False):
            yield {}
            return
        try:
            if self._process is None:
                self._start()
            yield self._door
        finally:
            self._use.release()

    def end(self) -> None:
        """End the JVM; the next driver gets a new one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

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
        settings = [f"--conf={name}={value}" for name, value in conf.items()]
        with tempfile.TemporaryDirectory() as folder:
            answer = Path(folder, "gateway")
            self._process = subprocess.Popen(
                [spark_home() / "bin" / "spark-submit", *settings, "pyspark-shell"],
                env={
                    **_ENVIRON,
                    "JAVA_HOME": find_java(os.environ).home,
                    "PYTHONPATH": str(ROOT),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "SPARK_CONNECT_MODE": "0",
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,
            )
            wait_until(answer.exists)
            found = answer.read_bytes()
        # Two numbers of four bytes, the port and the length of the secret, and the secret.
        self._door = {
            "PYSPARK_GATEWAY_PORT": str(int.from_bytes(found[:4])),
            "PYSPARK_GATEWAY_SECRET": found[8:].decode(),
            "PYSPARK_PYTHON": sys.executable,
        }


waiting_jvm = WaitingJvm()
