"""One source of six days for units a and b, four rows a day, and a job that reads it."""

from pathlib import Path

import pytest

from tests.backfills import Backfills
from tests.servers.http_server import HttpServer
from tests.stories import Story


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source, ms__publish__mode="window_replace")


@pytest.fixture
def backfills(story: Story) -> Backfills:
    return Backfills(story, 4)
