"""A task with a job on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.task.scripted import SCRIPTS, UnitTask


@pytest.fixture
def task(tmp_path: Path) -> Iterator[UnitTask]:
    yield UnitTask(tmp_path)
    SCRIPTS.clear()
