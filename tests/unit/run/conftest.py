"""One source of six days for units a and b, four rows a day, and a job that reads it."""

from pathlib import Path

import pytest

from tests.marks import mark_slow_below
from tests.servers.http_server import HttpServer
from tests.stories import Story


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_slow_below(Path(__file__).parent, items)


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source)
