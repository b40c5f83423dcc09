"""A driver sleeps with late rows alone to publish, which are given up; then it wakes up."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.event_feed import MINUTE, Feed
from tests.integration.local_jobs import NOW
from tests.integration.test_abandoned_publishes import HISTORY_SERVER
from tests.integration.test_late_rows_again import Place
from tests.integration.test_sleeping_drivers import CARRY_OUT, LATER_S
from tests.torture.kills import KillServer, restore
from tests.warehouses import kept_copy, new_warehouse

# Before the rows are where readers find them, and when their files are, but not those of a table.
STEPS = {
    "files": (f"call {CARRY_OUT}", "call publishing/destination.py:place_files"),
    "postgresql": (f"call {CARRY_OUT}", "call publishing/warehouse/late.py:LateTable.load_alone"),
}


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    side = {"ms.late.action": "side_table"}
    if request.param == "files":
        yield Place(Feed(tmp_path / "feed", **side), "files", None)
        return
    (tmp_path / "feed").mkdir()
    with new_warehouse(request.param, tmp_path / "feed", request) as made:
        given = {"ms.warehouse.url": made.url, "extract.namespace": "shop"}
        yield Place(Feed(tmp_path / "feed", **side, **given), request.param, made)


@pytest.mark.parametrize("place", STEPS, indirect=True)
def test_late_rows_that_were_given_up_while_their_driver_slept_are_there_once(
    place: Place, request: pytest.FixtureRequest
) -> None:
    feed = place.feed
    feed.put(-10)
    feed.run()
    feed.put(-12, -13)
    feed.job()
    base = feed.folder.with_name("before")
    shutil.copytree(feed.folder, base)
    put_back = kept_copy(place.warehouse, request) if place.warehouse else lambda: None
    driver = {"job": place.conf, "now": NOW + MINUTE}
    abandon = ["runs", "abandon", place.conf, "--yes"]
    with KillServer(HISTORY_SERVER) as kills:
        events = kills.order(**driver, at=-1, stops=True)["events"]
        for step in STEPS[place.kind]:
            restore(base, feed.folder)
            put_back()
            assert kills.order(**driver, at=events.index(step), stops=True)["stopped"], step
            given_up = kills.order(arguments=abandon, at=-1, ahead=LATER_S)
            assert given_up["exit"] == 0, (step, given_up["error"])
            assert kills.order(wake=True)["exit"] == 1, step
            ran = kills.order(**driver, at=-1, ahead=2 * LATER_S)
            assert ran["exit"] == 0, (step, ran["error"])
            assert (place.rows(), place.late()) == ([100], [200, 201]), step
            verify = ["state", "verify", place.conf]
            assert kills.order(arguments=verify, at=-1, ahead=2 * LATER_S)["exit"] == 0, step
