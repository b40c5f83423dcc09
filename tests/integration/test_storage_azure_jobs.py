"""Kill -9 between any two steps of a run that publishes to Azure, then run again."""

from __future__ import annotations

import pytest

from tests.integration.azure_places import Container, use
from tests.integration.killed_jobs import check_kills, kill_server


@pytest.fixture(scope="module")
def kills(azurite):
    with kill_server(lambda patch: use(azurite, patch)) as server:
        yield server


@pytest.mark.long
@pytest.mark.parametrize("path", ["append", "window replace"])
def test_a_run_killed_at_any_step_and_run_again_publishes_exactly_the_source(
    path, tmp_path, azurite, kills
):
    check_kills(Container(azurite), path, tmp_path, kills)
