"""A worker's memory is bounded, however large a response and however long a walk is.

The sizes here are those that a test run can afford; ``tests/bench/bench_json.py`` has larger ones.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bench.bench_json import json_server, measured
from tests.servers.json_server import PAGE_ROWS, array

pytestmark = pytest.mark.long

MEGABYTES = 150
PAGES = 1_500
LIMIT_MB = 300


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with json_server() as address:
        yield address


def test_a_response_of_150_megabytes_is_read_in_little_memory(tmp_path, url) -> None:
    size = sum(map(len, array(MEGABYTES)))
    found = measured(tmp_path, f"{url}/array/{MEGABYTES}")
    assert found["rows"] == sum(chunk.count(b'{"id"') for chunk in array(MEGABYTES))
    assert found["megabytes"] == size / 1e6
    assert 50 < found["peak_rss_mb"] < LIMIT_MB


def test_a_walk_of_many_pages_needs_little_more_memory_than_a_short_one(tmp_path, url) -> None:
    """What grows is only the row group that the writer fills, up to 65,536 rows."""
    short = measured(tmp_path / "short", f"{url}/pages/100")
    long = measured(tmp_path / "long", f"{url}/pages/{PAGES}")
    assert long["rows"] == PAGES * PAGE_ROWS
    assert long["pages"] == PAGES
    assert long["peak_rss_mb"] < short["peak_rss_mb"] + 60
    assert long["peak_rss_mb"] < LIMIT_MB
