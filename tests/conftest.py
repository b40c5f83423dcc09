"""What all tests share: servers, one of each per process, and the log of that process."""

import logging
from collections.abc import Iterator

import pytest

from tests.servers.mariadb import MariadbServer
from tests.servers.postgresql import PostgresqlServer


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as server:
        yield server


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[MariadbServer]:
    with MariadbServer() as server:
        yield server


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
        logger.setLevel(level)
