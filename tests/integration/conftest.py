"""What tests of stores share: servers, one of each per process, and a source of rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.s3_places import OrderlyMoto
from tests.servers.azurite import Azurite
from tests.servers.gcs import GcsServer
from tests.torture.kills import KillServer


@pytest.fixture(scope="session")
def moto() -> Iterator[OrderlyMoto]:
    with OrderlyMoto() as server:
        yield server


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    with Azurite() as server:
        yield server


@pytest.fixture(scope="session")
def kills() -> Iterator[KillServer]:
    """Start what runs and kills jobs; where it needs an environment a module starts its own."""
    with KillServer() as server:
        yield server


@pytest.fixture
def gcs() -> Iterator[GcsServer]:
    """Start a fake for one test, which may tell it how to answer."""
    with GcsServer() as server:
        yield server
