"""Laws of many examples are slow."""

from pathlib import Path

import pytest

from tests.marks import mark_slow_below


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_slow_below(Path(__file__).parent, items)
