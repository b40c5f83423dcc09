"""One store of each backend for every test of the contract."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.spi.state_store import StateStore
from tests.contract.state_stores import FACTORIES, Place


@pytest.fixture(params=FACTORIES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return FACTORIES[request.param](tmp_path)


@pytest.fixture
def store(place: Place) -> Iterator[StateStore]:
    with place.open() as opened:
        yield opened
