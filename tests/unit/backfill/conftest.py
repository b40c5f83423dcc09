"""One source of six days for units a and b, four rows a day, and a job that reads it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backfills import Backfills
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import ROWS_PER_DAY, STEP_MS, Story


@pytest.fixture
def source() -> Iterator[HttpServer]:
    with HttpServer(
        Dataset.generate(6 * ROWS_PER_DAY, units=("a", "b"), step_ms=STEP_MS)
    ) as server:
        yield server


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source, ms__publish__mode="window_replace")


@pytest.fixture
def backfills(story: Story) -> Backfills:
    return Backfills(story, 4)
