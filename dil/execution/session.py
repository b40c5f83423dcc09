"""A Spark context: the one spark-submit made, or a local one that starts fast and quietly."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import IO, Any

from dil.errors import ExecutionError
from dil.execution.class_archive import ClassArchive
from dil.execution.java import find_java
from dil.execution.shipping import ship

log = logging.getLogger(__name__)

_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "dil.execution.daemon",
    "spark.eventLog.enabled": "false",
    "spark.shuffle.service.enabled": "false",
    "spark.speculation": "false",
}
# Executor loss is Spark's to heal; a task body never raises, so four failures mean real trouble.
MAX_FAILURES = 4
_NOISE = ("WARNING: Using incubator modules", "NOTE: Picked up ", "WARNING: package sun.")


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How a session is made.

    ``threads`` is for a local one. ``plugins`` are modules of the user's own, to be shipped.
    ``cache`` is a folder that survives the run.
    """

    app_name: str
    threads: int
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    cache: Path | None = None
    plugins: tuple[str, ...] = ()


def is_submitted(environ: Mapping[str, str]) -> bool:
    """Tell whether spark-submit started this process."""
    return "PYSPARK_GATEWAY_PORT" in environ


def is_on_cluster(environ: Mapping[str, str]) -> bool:
    """Tell whether spark-submit put this driver on a machine of the cluster's choice."""
    if not is_submitted(environ):
        return False
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # noqa: SLF001 - the settings live in the waiting JVM
    return bool(SparkConf().get("spark.submit.deployMode", "client") == "cluster")


@contextmanager
def spark_context(settings: SparkSettings) -> Iterator[Any]:
    """Yield a SparkContext.

    Under spark-submit it runs on the master that spark-submit was given, with its options, and is
    stopped at the end. Otherwise it runs on ``local[threads]`` and ends with this process, whose
    closed pipe tells its JVM: waiting for that would cost a second of each run.

    Raises:
        ExecutionError: no Java, or Spark did not start.
    """
    interrupt = signal.getsignal(signal.SIGINT)
    submitted = is_submitted(settings.environ)
    context = _submitted(settings) if submitted else _local(settings)
    try:
        if threading.current_thread() is threading.main_thread():
            # The context installs a SIGINT handler of its own; ours knows how a run ends.
            signal.signal(signal.SIGINT, interrupt)
        yield context
    finally:
        if submitted:
            context.stop()


def _submitted(settings: SparkSettings) -> Any:  # noqa: ANN401 - pyspark comes late
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setIfMissing("spark.app.name", settings.app_name)
    conf.set("spark.speculation", "false")
    if int(conf.get("spark.task.maxFailures", "4") or 4) < MAX_FAILURES:
        conf.set("spark.task.maxFailures", str(MAX_FAILURES))
    context = SparkContext(conf=conf)
    ship(context, settings.plugins)
    return context


def _local(settings: SparkSettings) -> Any:  # noqa: ANN401 - pyspark comes late
    from pyspark import SparkConf, SparkContext

    master = f"local[{settings.threads},{MAX_FAILURES}]"
    running = SparkContext._active_spark_context  # noqa: SLF001 - getOrCreate ignores the master
    if running is not None:
        if running.master == master:
            return running
        running.stop()
    conf = SparkConf(loadDefaults=False).setAppName(settings.app_name).setMaster(master)
    conf.setAll(list(_LOCAL.items()))
    if SparkContext._gateway is None:  # noqa: SLF001 - the JVM of an earlier run serves again
        return SparkContext(conf=conf, gateway=_launch(settings, conf))
    return SparkContext(conf=conf)


def _launch(settings: SparkSettings, conf: Any) -> Any:  # noqa: ANN401 - pyspark comes late
    """Start the JVM with options that make it start fast, its output filtered."""
    from pyspark.java_gateway import launch_gateway

    java = find_java(settings.environ)
    archive = _archive(settings, java)
    conf.set(
        "spark.driver.extraJavaOptions", " ".join(f'"{option}"' for option in _jvm_options(archive))
    )
    _export(settings, java.home)
    try:
        start: Callable[..., Any] = launch_gateway
        gateway = start(conf, {"stderr": subprocess.PIPE, "stdout": sys.__stderr__})
    except Exception as error:
        raise ExecutionError(
            f"Spark's JVM did not start: {error}", f"The Java in use is {java.home}."
        ) from error
    threading.Thread(
        target=_pass_on, args=(gateway.proc.stderr,), daemon=True, name="dil-jvm-output"
    ).start()
    if archive is not None:
        archive.written_by(gateway.proc.pid)
    return gateway


def _archive(settings: SparkSettings, java: Any) -> ClassArchive | None:  # noqa: ANN401
    import pyspark

    if settings.cache is None:
        return None
    return ClassArchive(settings.cache, java, Path(pyspark.__file__).parent / "jars")


def _jvm_options(archive: ClassArchive | None) -> list[str]:
    quiet = Path(str(resources.files("dil.execution") / "log4j2-quiet.properties")).as_uri()
    # The client compiler alone: a local driver lives for seconds and never gets hot.
    options = ["-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={quiet}"]
    return [*options, *(archive.jvm_options() if archive else ())]


def _export(settings: SparkSettings, java_home: str) -> None:
    """Hand Java and our packages to the processes that pyspark starts: it asks the environment."""
    own = Path(__file__).resolve().parents[2]
    # An installed package is found without help; its folder must not come before the library's.
    checkout = [] if own.name == "site-packages" else [str(own)]
    paths = [*checkout, settings.environ.get("PYTHONPATH", "")]
    os.environ["JAVA_HOME"] = java_home  # noqa: TID251 - pyspark knows no other way
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)  # noqa: TID251
    python = settings.environ.get("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_PYTHON"] = python  # noqa: TID251


def _pass_on(stream: IO[bytes]) -> None:
    """Pass on what the JVM and its workers print, without the launcher's own noise."""
    for raw in stream:
        line = raw.decode(errors="replace")
        if not line.startswith(_NOISE):
            sys.stderr.write(line)
