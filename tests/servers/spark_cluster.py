"""A real standalone Spark cluster on loopback: one master, some workers, stopped by pid."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pyspark

from tests.servers.class_archive import quick_start
from tests.servers.waiting import wait_until

SPARK_HOME = Path(pyspark.__file__).parent


class SparkCluster:
    """A master and workers of the installed pyspark, on free ports, with logs in ``folder``."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.url = ""
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            return self._start()
        except BaseException:
            self._stop()
            raise

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _start(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        master = self._launch(
            "master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port",
            "0", "--webui-port", "0",
        )  # fmt: skip
        found = wait_until(
            lambda: re.search(r"Starting Spark master at (spark://\S+)", read(master))
        )
        self.url = found.group(1)
        for number in range(self._workers):
            worker = self._launch(
                f"worker-{number}", "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1",
                "--cores", "1", "--memory", "1g", "--webui-port", "0",
                "--work-dir", str(self.folder / f"work-{number}"), self.url,
            )  # fmt: skip
            wait_until(lambda log=worker: "Successfully registered with master" in read(log))
        return self

    def _launch(self, name: str, *command: str) -> Path:
        log = self.folder / f"{name}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [str(SPARK_HOME / "bin" / "spark-class"), *command],
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=self.environ(),
                start_new_session=True,
            )
        self._processes.append(process)
        return log

    def environ(self) -> Mapping[str, str]:
        """Return the environment of Spark's own programs, without this process's Python path."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return {
            **kept,
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            # The programs end too soon for the optimising compiler to pay off.
            "JDK_JAVA_OPTIONS": quick_start(),
        }

    def _stop(self) -> None:
        for process in reversed(self._processes):
            os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            process.wait(timeout=30)


def read(path: Path) -> str:
    """Return the present content of a log."""
    return path.read_text(errors="replace")
