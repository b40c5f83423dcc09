"""Starts the JVM of a local session while pyspark is being imported."""

from __future__ import annotations

import os
import resource
import runpy
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from dil.errors import ExecutionError

_GLANCE_S = 0.02
# Spark's JVM keeps several hundred archives open.
_FEW_FILES = 1024
_NOISE = ("WARNING: Using incubator modules", "NOTE: Picked up ", "WARNING: package sun.")


class StartingJvm:
    """A JVM that is starting; it ends when this process ends or closes the pipe to the JVM.

    ``conf`` are Spark's settings, ``environ`` is the JVM's whole environment. The output of the JVM
    goes to standard error, without the launcher's own noise.
    """

    def __init__(self, conf: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self._java = environ.get("JAVA_HOME", "")
        self._folder = tempfile.TemporaryDirectory(prefix="dil-jvm-")
        self._answer = Path(self._folder.name, "gateway")
        settings = (f"--conf={name}={value}" for name, value in conf.items())
        self._process = subprocess.Popen(  # noqa: S603 - of the pyspark that is installed
            [f"{spark_home()}/bin/spark-submit", *settings, "pyspark-shell"],
            env={
                # The JVM would fail on a host name that no DNS resolves.
                "SPARK_LOCAL_IP": "127.0.0.1",
                **environ,
                "SPARK_CONNECT_MODE": "0",
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._answer),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Only this process handles Ctrl-C, so that the run ends in order.
            process_group=0,
        )
        self._output = threading.Thread(
            target=_pass_on, args=(self._process.stdout,), daemon=True, name="dil-jvm-output"
        )
        self._output.start()

    @property
    def pid(self) -> int:
        """Return the id of the process, which is first the launch script and then the JVM."""
        return self._process.pid

    def gateway(self) -> Any:  # pyspark is imported late
        """Wait for the JVM; return pyspark's connection to it.

        Raises:
            ExecutionError: the JVM ended.
        """
        from pyspark.java_gateway import launch_gateway

        known = self.environ()
        os.environ.update(known)  # noqa: TID251 - pyspark knows no other way
        try:
            connect: Callable[[], Any] = launch_gateway
            gateway = connect()
        finally:
            for name in known:
                del os.environ[name]  # noqa: TID251
        gateway.proc = self._process
        return gateway

    def environ(self) -> Mapping[str, str]:
        """Wait for the JVM; return the environment variables by which pyspark connects to it.

        Raises:
            ExecutionError: the JVM ended.
        """
        with self._folder:
            while not self._answer.exists():
                if self._process.poll() is not None:
                    self._output.join()
                    self._process.communicate()  # closes the pipes
                    raise ExecutionError(
                        f"Spark's JVM did not start: it ended with code {self._process.returncode}",
                        f"It may have printed why. The Java in use is {self._java}."
                        f"{_about_open_files()}",
                    )
                time.sleep(_GLANCE_S)
            answer = self._answer.read_bytes()
        # Two numbers of four bytes, the port and the length of the secret, and the secret.
        return {
            "PYSPARK_GATEWAY_PORT": str(int.from_bytes(answer[:4])),
            "PYSPARK_GATEWAY_SECRET": answer[8:].decode(),
        }


def spark_home() -> Path:
    """Return Spark's folder as pyspark finds it, without the slow import of pyspark.

    Raises:
        ExecutionError: pyspark is not installed.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ExecutionError("pyspark is not installed", "Install it: pip install pyspark.")
    finder = runpy.run_path(str(Path(spec.origin).with_name("find_spark_home.py")))
    return Path(finder["_find_spark_home"]())


def _about_open_files() -> str:
    """Return advice if the system lets processes open too few files, else empty text."""
    # Java raises the soft limit to the hard one by itself.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if not 0 <= most < _FEW_FILES:
        return ""
    return (
        f" A process may have only {most:,} open files here, and Spark needs several hundred: raise"
        f" the limit to {_FEW_FILES:,} or more (ulimit -n)."
    )


def _pass_on(stream: IO[bytes]) -> None:
    with stream:
        for raw in stream:
            line = raw.decode(errors="replace")
            # The pipe is read even without a standard error, because a full pipe blocks the JVM.
            if sys.stderr is not None and not line.startswith(_NOISE):
                sys.stderr.write(line)
