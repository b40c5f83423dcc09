"""What all tests share: servers, one of each per process, and the log of that process."""

import atexit
import gc
import logging
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite
from hypothesis import HealthCheck, is_hypothesis_test, settings
from xdist.scheduler import LoadFileScheduling

from tests.servers.hdfs import Hdfs
from tests.servers.http_server import HttpServer
from tests.servers.mariadb import MariadbServer
from tests.servers.mysql import mysql_class
from tests.servers.postgresql import PostgresqlServer
from tests.servers.rows import Dataset
from tests.stories import ROWS_PER_DAY, STEP_MS

# How long an example takes says how busy the machine is, and nothing about the code. `make test`
# has the same examples each time, so that a change fails by its own fault; `make torture` has new.
settings.register_profile(
    "dil",
    deadline=None,
    derandomize="DIL_NEW_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("dil")

_IMPORTS_HDFS = re.compile(r"servers\.hdfs import|hdfs_places|places import .*PLACES")


class _FilesByServer(LoadFileScheduling):
    """Gives a worker the tests of whole files, and one worker all files that may need HDFS.

    A cluster costs as much as many of its tests, and each worker would start its own.
    """

    def __init__(self, config: pytest.Config, log: object) -> None:
        super().__init__(config, log)
        self._scopes: dict[str, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        if file not in self._scopes:
            text = (self.config.rootpath / file).read_text("utf-8")
            self._scopes[file] = "hdfs" if _IMPORTS_HDFS.search(text) else file
        return self._scopes[file]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    return _FilesByServer(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Collect without the garbage collector: what a collection makes stays until the end."""
    gc.disable()
    if _is_worker(session.config):
        atexit.register(_end_at_once, os.getpid())
        if not sys.dont_write_bytecode:
            _rewrite_share(session.config, session.config.workerinput)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _end_at_once(worker: int) -> None:
    """End a worker of xdist without freeing each of its objects, which takes seconds.

    By now it has sent all results. Coverage writes its data when ``os._exit`` is called, too.
    """
    if os.getpid() == worker:  # not in a fork of it, which has a code of its own
        os._exit(0)


def _rewrite_share(config: pytest.Config, worker: dict[str, Any]) -> None:
    """Write the modules of one worker's share as pytest caches them, with asserts that explain.

    Workers collect the same modules at the same time, so on a fresh checkout each would rewrite
    all of them, which takes twice as long as the rest of its collection.
    """
    folders = (Path(argument.partition("::")[0]).absolute() for argument in config.args)
    modules = sorted(each for folder in folders for each in folder.rglob("test_*.py"))
    for module in modules[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        cache = rewrite.get_cache_dir(module)
        written = cache / f"{module.stem}{rewrite.PYC_TAIL}"
        if not written.exists() and rewrite.try_makedirs(cache):
            source, code = rewrite._rewrite_test(module, config)
            rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source, written)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark laws as slow, and put the longest first: no worker waits for another's last test."""
    for item in items:
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: not _is_long(item))


def _is_long(item: pytest.Item) -> bool:
    uses_hdfs = "hdfs" in getattr(item, "fixturenames", ())
    return uses_hdfs or item.get_closest_marker("spark") is not None


def pytest_collection_finish() -> None:
    """Spare the garbage collector the tests and their modules, which stay until the end."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let the interpreter free at its exit what was frozen: libraries report the rest as leaks."""
    if not _is_worker(session.config):
        gc.unfreeze()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as server:
        yield server


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[MariadbServer]:
    with mysql_class()() as server:
        yield server


@pytest.fixture(scope="session")
def hdfs() -> Iterator[Hdfs]:
    with Hdfs() as cluster:
        yield cluster


@pytest.fixture
def source() -> Iterator[HttpServer]:
    """Serve six days of rows of two units, four a day."""
    rows = Dataset.generate(6 * ROWS_PER_DAY, units=("a", "b"), step_ms=STEP_MS)
    with HttpServer(rows) as server:
        yield server


@pytest.fixture
def sigint_is_heeded() -> Iterator[None]:
    """Undo an inherited "ignore" (``nohup``, a background job) for one test and what it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """Make a folder for one test, and remove pytest's link to it, too.

    A job looks for inherited files in all folders above its own. Pytest keeps the links until its
    end: thousands of them, which each job of a later test would look through. So would each look
    for an installed plug-in go through the folders that earlier jobs put into the import path.
    """
    yield tmp_path
    sys.path[:] = [each for each in sys.path if not each.startswith(str(tmp_path))]
    tmp_path.with_name(f"{tmp_path.name.rstrip('0123456789')}current").unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def _no_secret_of_another_test(monkeypatch) -> None:
    """What a process learned is masked in all its messages from then on."""
    monkeypatch.setattr("dil.secrets.masking._learned", [()])


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """A command configures the log of its process, which here is that of all tests."""
    root = logging.getLogger()
    loggers = [
        root,
        *(logging.getLogger(name) for name in ("dil", "connectors", "py4j", "urllib3")),
    ]
    levels = [logger.level for logger in loggers]
    handlers = list(root.handlers)
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        if logger.level != level:  # setting one empties the caches of all loggers
            logger.setLevel(level)
