"""Opens a Spark context: with the options of spark-submit, or a local one, fast and quietly."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from dil.errors import ConfigError
from dil.execution.java import ClassArchive, find_java
from dil.execution.jvm import StartingJvm, spark_home
from dil.execution.shipping import ship

log = logging.getLogger(__name__)

# Marks the contexts that this module made.
_OWN = "spark.dil.own"
_SPECULATION = "spark.speculation"
# Spark starts its workers as `python -m`, which would import from the working directory first.
_SAFE_PATH = "spark.executorEnv.PYTHONSAFEPATH"
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "dil.execution.daemon",
    "spark.eventLog.enabled": "false",
    "spark.shuffle.service.enabled": "false",
    _SPECULATION: "false",
    _OWN: "true",
    _SAFE_PATH: "1",
}
_EXPORTED = ("JAVA_HOME", "PYTHONPATH", "PYSPARK_PYTHON")
_JOB_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
_EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"
# Spark repeats tasks of lost executors; a task body never raises, so four failures are an error.
MAX_FAILURES = 4


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The settings of a session.

    ``threads`` is the size of a local session. ``plugins`` are modules of the user's own, to be
    shipped. ``cache`` is a folder that survives the run. ``reads`` says that Spark itself reads
    rows of the source. ``given`` is a SparkContext of the caller, which is used and left running.
    ``is_embedded`` says that this process continues after the run, so a local session and its JVM
    are stopped.
    """

    app_name: str
    threads: int
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    cache: Path | None = None
    plugins: tuple[str, ...] = ()
    reads: bool = False
    given: Any = field(default=None, repr=False)
    is_embedded: bool = False


def is_submitted(environ: Mapping[str, str]) -> bool:
    """Return whether spark-submit started this process."""
    return "PYSPARK_GATEWAY_PORT" in environ


def is_on_cluster(environ: Mapping[str, str]) -> bool:
    """Return whether spark-submit put this driver on a machine of the cluster's choice."""
    if not is_submitted(environ):
        return False
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # noqa: SLF001 - the settings live in the waiting JVM
    return bool(SparkConf().get("spark.submit.deployMode", "client") == "cluster")


@contextmanager
def spark_context(settings: SparkSettings) -> Iterator[Any]:
    """Yield a SparkContext; callable from any thread.

    A context that the caller gave, or that other code of this process made, is used and left
    running. Else, under spark-submit, a new context runs on the master and with the options that
    spark-submit was given, and is stopped at the end. Else a new context runs on
    ``local[threads]``. It ends with this process: the pipe to the JVM closes, and the JVM ends.
    Waiting for this would cost a second of each run.

    Raises:
        ConfigError: the given session is not fit for work units, or for rows that Spark reads.
        ExecutionError: no Java, or Spark did not start.
    """
    given = settings.given or _own.others()
    uses = _own.used(settings) if given is None else _borrowed(given, settings)
    with uses as context:
        yield context


class _OwnContext:
    """The one SparkContext that the runs of this process share, and how many of them use it.

    A process has one SparkContext at most. The first run starts it, and the last one stops it, so
    that a run that ends does not stop the context of another thread's run.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._context: Any = None
        self._stop = ExitStack()

    def others(self) -> Any:  # a SparkContext
        """Return the SparkContext that other code of this process made, None if it made none."""
        if "pyspark" not in sys.modules:
            return None
        from pyspark import SparkContext

        with self._lock:  # a context that another thread is starting has no settings yet
            running = SparkContext._active_spark_context  # getOrCreate would make one
            return None if running is None or running.getConf().contains(_OWN) else running

    @contextmanager
    def used(self, settings: SparkSettings) -> Iterator[Any]:
        """Yield the context; start it for the first user, stop it after the last."""
        with self._lock:
            if not self._users:
                self._start(settings)
            elif not self._context.master.startswith("local"):
                ship(self._context, settings.plugins)
            if settings.reads:  # the driver's running JVM reads the rows of a local session
                zones = self._context._jvm.java.util.TimeZone
                zones.setDefault(zones.getTimeZone("UTC"))
            self._users += 1
        try:
            yield self._context
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._stop.close()

    def _start(self, settings: SparkSettings) -> None:
        handler = signal.getsignal(signal.SIGINT)
        with ExitStack() as stop:
            if is_submitted(settings.environ):
                self._context = _submitted(settings)
                from pyspark import SparkFiles

                # Spark copies the modules that it ships into this folder.
                stop.callback(_forget_shipped, str(SparkFiles.getRootDirectory()))
                stop.callback(self._context.stop)
                if settings.is_embedded:
                    stop.enter_context(_zone_kept(self._context))
            elif settings.is_embedded:
                stop.enter_context(_environment_kept())
                self._context = _local(settings)
                stop.callback(_end, self._context)
            else:
                self._context = _local(settings)
            self._stop = stop.pop_all()
        if threading.current_thread() is threading.main_thread():
            # The context installs a SIGINT handler of its own; only our handler can end a run well.
            signal.signal(signal.SIGINT, handler)


_own = _OwnContext()


@contextmanager
def _borrowed(context: Any, settings: SparkSettings) -> Iterator[Any]:
    """Yield a SparkContext of other code; restore the job group of this thread afterwards."""
    if context.getConf().get(_SPECULATION, "false").lower() == "true":
        raise ConfigError.single(
            "spark",
            f"is a session with {_SPECULATION}=true, by which a slow work unit may run twice at"
            " the same time",
            f"Start that session with {_SPECULATION}=false, or leave spark out.",
        )
    if settings.reads:
        zone = context._jvm.java.util.TimeZone.getDefault().getID()
        if zone not in {"UTC", "Etc/UTC", "GMT"}:
            raise ConfigError.single(
                "ms.jdbc.reader",
                f"is spark, and the JVM of the given session has the time zone {zone}",
                "Start that session with -Duser.timezone=UTC in spark.driver.extraJavaOptions and"
                " spark.executor.extraJavaOptions, or leave ms.jdbc.reader out.",
            )
    if not context.master.startswith("local"):
        ship(context, settings.plugins)
    before = {name: context.getLocalProperty(name) for name in _JOB_GROUP}
    try:
        yield context
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)


def _forget_shipped(folder: str) -> None:
    """Forget the modules that this process imported from a context's folder.

    Spark deletes the folder when the context is stopped. A later run of this process finds the
    modules where they came from.
    """
    sys.path[:] = [path for path in sys.path if not str(path).startswith(folder)]
    for name, module in tuple(sys.modules.items()):
        if str(getattr(module, "__dict__", {}).get("__file__")).startswith(f"{folder}{os.sep}"):
            del sys.modules[name]


def _end(context: Any) -> None:  # a SparkContext
    """Stop a local context and its JVM, whose options for a fast start do not fit other code."""
    from pyspark import SparkContext

    context.stop()
    gateway = SparkContext._gateway  # pyspark keeps it for the next context
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def _environment_kept() -> Iterator[None]:
    """Restore the environment of this process, in which pyspark looks for Java and packages."""
    environ = os.environ  # noqa: TID251 - see _launch
    before = {name: environ.get(name) for name in _EXPORTED}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                environ.pop(name, None)
            else:
                environ[name] = value


def _submitted(settings: SparkSettings) -> Any:  # pyspark is imported late
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setIfMissing("spark.app.name", settings.app_name)
    conf.set(_SPECULATION, "false").set(_OWN, "true")
    conf.set(_SAFE_PATH, "1")
    if settings.reads:
        # JDBC drivers convert times by the JVM's zone, and UTC has no gaps.
        options = conf.get(_EXECUTOR_OPTIONS, "") or ""
        conf.set(_EXECUTOR_OPTIONS, f"{options} -Duser.timezone=UTC".strip())
    if int(conf.get("spark.task.maxFailures", "4") or 4) < MAX_FAILURES:
        conf.set("spark.task.maxFailures", str(MAX_FAILURES))
    context = SparkContext(conf=conf)
    ship(context, settings.plugins)
    return context


@contextmanager
def _zone_kept(context: Any) -> Iterator[None]:  # a SparkContext
    """Restore the time zone of the driver's JVM, which runs on under spark-submit."""
    zones = context._jvm.java.util.TimeZone
    before = zones.getDefault()
    try:
        yield
    finally:
        zones.setDefault(before)


def _local(settings: SparkSettings) -> Any:  # pyspark is imported late
    options = {
        **_LOCAL,
        "spark.app.name": settings.app_name,
        "spark.master": f"local[{settings.threads},{MAX_FAILURES}]",
    }
    has_jvm = False
    if "pyspark" in sys.modules:  # the JVM of an earlier run of this process is used again
        from pyspark import SparkContext

        has_jvm = SparkContext._gateway is not None
    jvm = None if has_jvm else _launch(settings, options)  # it starts during the next import
    from pyspark import SparkConf, SparkContext

    running = SparkContext._active_spark_context  # getOrCreate would ignore the master
    if running is not None:
        if running.master == options["spark.master"]:
            return running
        running.stop()
    conf = SparkConf(loadDefaults=False).setAll(list(options.items()))
    return SparkContext(conf=conf, gateway=jvm.gateway() if jvm is not None else None)


def _launch(settings: SparkSettings, options: dict[str, str]) -> StartingJvm:
    """Start the JVM with options for a fast start, which are added to ``options``.

    Environment variables say where pyspark's processes find Java and our packages.
    """
    java = find_java(settings.environ)
    archive = None
    if settings.cache is not None:
        archive = ClassArchive(settings.cache, java, spark_home() / "jars")
    quiet = Path(str(resources.files("dil.execution") / "log4j2-quiet.properties")).as_uri()
    # Only the client compiler: a local driver lives for seconds and never gets hot.
    given = ["-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={quiet}"]
    given += archive.jvm_options() if archive else ()
    options["spark.driver.extraJavaOptions"] = " ".join(f'"{option}"' for option in given)
    own = Path(__file__).resolve().parents[2]
    # An installed package is found without help; its folder must not come before the library's.
    checkout = [] if own.name == "site-packages" else [str(own)]
    # An empty part would be the working directory.
    paths = [*checkout, *settings.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environ = os.environ  # noqa: TID251 - pyspark knows no other way
    environ["JAVA_HOME"] = java.home
    environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    environ["PYSPARK_PYTHON"] = settings.environ.get("PYSPARK_PYTHON", sys.executable)
    jvm = StartingJvm(options, dict(environ))
    if archive is not None:
        archive.written_by(jvm.pid)
    return jvm
