"""One store of each backend for every test of the contract."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.spi.state_store import StateStore
from tests.contract.state_stores import (
    FOLDER_KINDS,
    KINDS,
    Place,
    folder_place,
    mysql_place,
    postgresql_place,
)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    kind: str = request.param
    if kind in FOLDER_KINDS:
        yield folder_place(kind, tmp_path)
        return
    name = f"t{uuid.uuid4().hex[:12]}"
    make = postgresql_place if kind == "postgresql" else mysql_place
    with make(request.getfixturevalue(f"{kind}_server"), name) as made:
        yield made


@pytest.fixture
def store(place: Place) -> Iterator[StateStore]:
    with place.open() as opened:
        yield opened
