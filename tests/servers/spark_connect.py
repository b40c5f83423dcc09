"""A Spark Connect server and its clients: their Python has pandas, grpc, and dil as a wheel."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dil.execution.java import find_java
from tests.servers.class_archive import quick_start
from tests.servers.programs import free_port
from tests.servers.spark_python import quick_python
from tests.servers.third_party import needed
from tests.servers.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
SPARK = Path(sys.executable).parent
# Each line of the input is a program; its variable ``answer`` is printed.
CLIENT = """
import json, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
for line in sys.stdin:
    names = {"spark": spark}
    try:
        exec(json.loads(line), names)
        said = {"answer": names["answer"]}
    except Exception as error:
        said = {"error": str(error)}
    print(json.dumps(said, default=str), flush=True)
"""


class ConnectServer:
    """A server on a free port; ``folder`` has its log, its tables and its event log.

    The server, and the Python processes that it starts, see ``environ`` in addition to this
    process's environment. Its clients do not see ``environ``.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.url = ""
        python = needed("connect", "bin", "python")
        site = folder / "site"
        subprocess.run(
            [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install",
             "--no-deps", "--no-build-isolation", "--target", str(site), str(ROOT)],
            check=True,
        )  # fmt: skip
        self._environ = {
            **os.environ,
            "JAVA_HOME": find_java(os.environ).home,
            "PATH": f"{Path(python).parent}:{os.environ['PATH']}",
            "PYSPARK_PYTHON": str(quick_python(folder, site, python)),
            "PYTHONPATH": str(site),
        }
        self._own = environ

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start the server, and kill it at the end."""
        events = self.folder / "events"
        events.mkdir()
        port = free_port()
        self.url = f"sc://127.0.0.1:{port}"
        options = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": quick_start(),
            "spark.driver.host": "127.0.0.1",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.enabled": "true",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.ui.enabled": "false",
        }
        settings = [word for pair in options.items() for word in ("--conf", "=".join(pair))]
        kind = "org.apache.spark.sql.connect.service.SparkConnectServer"
        command = [SPARK / "spark-submit", "--master", "local[2]", *settings, "--class", kind]
        with (self.folder / "server.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, "spark-internal"], cwd=self.folder, env={**self._environ, **self._own},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        with process:
            try:
                wait_until(lambda: self._answers(process, port))
                yield
            finally:
                os.killpg(process.pid, signal.SIGKILL)

    def _answers(self, process: subprocess.Popen[bytes], port: int) -> bool:
        if process.poll() is not None:
            raise RuntimeError((self.folder / "server.log").read_text(encoding="utf-8")[-4000:])
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    @contextmanager
    def client(self) -> Iterator[ConnectClient]:
        """Start a client."""
        with subprocess.Popen(
            [self._environ["PYSPARK_PYTHON"], "-c", CLIENT, self.url], cwd=self.folder,
            env=self._environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            yield ConnectClient(process)
            process.stdin.close()

    def pipeline(self, spec: Path) -> subprocess.CompletedProcess[str]:
        """Run a declarative pipeline on the server."""
        return subprocess.run(
            [SPARK / "spark-pipelines", "run", "--remote", self.url, "--spec", str(spec)],
            cwd=self.folder, env=self._environ, capture_output=True, text=True, check=False,
        )  # fmt: skip


class ConnectClient:
    """A process with a session on a server."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, program: str) -> dict[str, Any]:
        """Run a program; return a mapping with its ``answer``, or with its ``error``."""
        self._process.stdin.write(json.dumps(program) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def answer(self, program: str) -> Any:
        """Run a program that has to succeed; return its answer."""
        said = self.run(program)
        assert "answer" in said, said["error"]
        return said["answer"]
