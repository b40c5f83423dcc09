"""Kill -9 between any two steps of a run that publishes to Google Cloud Storage, then run again.

The service is the fake of tests/servers/gcs.py, which says what of it is as documented.
"""

from __future__ import annotations

import pytest

from tests.integration.gcs_places import Bucket, use
from tests.integration.killed_jobs import check_kills, kill_server
from tests.servers.gcs import GcsServer


@pytest.fixture(scope="module")
def gcs():
    with GcsServer() as server:
        yield server


@pytest.fixture(scope="module")
def kills(gcs):
    with kill_server(lambda patch: use(gcs.url, patch)) as server:
        yield server


@pytest.mark.long
@pytest.mark.parametrize("path", ["append", "window replace"])
def test_a_run_killed_at_any_step_and_run_again_publishes_exactly_the_source(
    path, tmp_path, gcs, kills
):
    check_kills(Bucket(gcs), path, tmp_path, kills)
