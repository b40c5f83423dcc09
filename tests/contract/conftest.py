"""One store of each backend for every test of the contract."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.spi.state_store import StateStore
from tests.contract.state_servers import mysql_place, postgresql_place
from tests.contract.state_stores import (
    FOLDER_KINDS,
    KINDS,
    Place,
    folder_place,
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark a test as ``long`` if its parameters have the values that ``long_where`` lists.

    A contract's tests cannot have ``long`` on their parameters: others import and inherit them.
    """
    for item in items:
        for mark in item.iter_markers("long_where"):
            assert isinstance(item, pytest.Function)
            if all(item.callspec.params[name] in found for name, found in mark.kwargs.items()):
                item.add_marker(pytest.mark.long)


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
