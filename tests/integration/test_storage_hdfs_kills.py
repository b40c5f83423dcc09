"""Kill -9 between any two steps of a run that publishes to HDFS, then run again."""

from __future__ import annotations

import pytest

from tests.integration.hdfs_places import Folder, use
from tests.integration.killed_jobs import HERE, check_kills, kill_server


@pytest.fixture(scope="module")
def kills():
    with kill_server(use) as server:
        yield server


@pytest.mark.long
@pytest.mark.parametrize("path", ["append, keep successes", f"window replace, {HERE}"])
def test_a_run_killed_at_any_step_and_run_again_publishes_exactly_the_source(
    path, tmp_path, hdfs, kills
):
    check_kills(Folder(hdfs), path, tmp_path, kills)
