"""The file log in any store keeps the contract of state stores where writers meet."""

import pytest

from dil.model.job import StateSpec
from tests.contract.state_stores import Place
from tests.contract.test_state_store_races import (  # noqa: F401 - these very tests, on stores
    test_a_commit_that_fails_half_way_leaves_nothing,
    test_a_process_whose_lease_was_taken_over_is_refused,
    test_no_commit_of_racing_processes_is_lost,
    test_of_processes_that_race_for_a_lease_one_gets_it,
    test_processes_may_make_an_empty_store_at_the_same_moment,
)
from tests.integration.places import PLACES, open_place

pytestmark = pytest.mark.long


@pytest.fixture(params=PLACES)
def place(request, monkeypatch):
    found = open_place(request.param, request, monkeypatch)
    return Place(StateSpec("filelog", f"{found.uri}/state"), traces=found.keys)


@pytest.fixture
def store(place):
    with place.open() as opened:
        yield opened
