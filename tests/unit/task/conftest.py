"""A desk with a job on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.task.scripted import SCRIPTS, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    yield Desk(tmp_path)
    SCRIPTS.clear()
