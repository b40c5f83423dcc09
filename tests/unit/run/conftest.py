"""One source of six days for units a and b, four rows a day, and a job that reads it."""

from pathlib import Path

import pytest

from tests.servers.http_server import HttpServer
from tests.stories import Story


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source)
