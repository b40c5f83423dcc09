"""A driver sleeps while another process gives its publish up, and wakes up afterwards."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.integration.test_abandoned_publishes import FORGET, HISTORY_SERVER, Place, act
from tests.marks import some_long
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import ROWS_PER_DAY, STEP_MS, day, ids_of
from tests.torture.kills import KillServer, restore

# The short form stops at this many steps of each kind; the long form (make torture) at more.
STOPS = int(os.environ.get("DIL_KILLS", "5"))
LATER_S = 3600  # by then the lease of the sleeping driver has run out
CARRY_OUT = "publishing/publisher.py:Publisher.carry_out"
# Between the files and the list of them, and between the list and what it replaces.
STEPS = {
    "files": (
        "return publishing/destination.py:place_files",
        "call publishing/files.py:FileDestination._delete",
    ),
    "delta": (
        "return publishing/table_files.py:put_in_place",
        "call publishing/delta_store.py:commit_properties",
    ),
    "iceberg": (
        "call publishing/iceberg_log.py:IcebergLog._write",
        "call publishing/iceberg_log.py:IcebergLog._data_file",
    ),
}  # fmt: skip
REPLACING = {"ms__publish__mode": "window_replace", "ms__grace__period__days": "1"}


@pytest.fixture(scope="module")
def source() -> Iterator[HttpServer]:
    rows = Dataset.generate(6 * ROWS_PER_DAY, units=("a", "b"), step_ms=STEP_MS)
    with HttpServer(rows) as server:
        yield server


def steps_to_stop_at(kind: str, events: list[str]) -> list[int]:
    """Return the numbers of the steps that matter, and of some others on the way to them."""
    begin = events.index(f"call {CARRY_OUT}")
    end = len(events) - 1 - events[::-1].index(f"return {CARRY_OUT}")
    chosen = {n for n in range(begin, end + 1) if events[n] in STEPS[kind]}
    assert {events[n] for n in chosen} == set(STEPS[kind])
    return sorted({*chosen, *range(begin, end + 1, max(1, (end - begin) // STOPS))})


@pytest.mark.parametrize(
    ("kind", "what"),
    some_long(
        itertools.product(["files", "delta", "iceberg"], ["undo", "run"]),
        ("delta", "undo"), ("delta", "run"), ("iceberg", "undo"), ("iceberg", "run"),
    ),
)  # fmt: skip
def test_a_publish_that_was_given_up_while_its_driver_slept_stays_given_up(
    tmp_path: Path, source: HttpServer, kind: str, what: str
) -> None:
    base, live = tmp_path / "before", tmp_path / "job"
    place = Place(live, source, kind, None, **(REPLACING if what == "run" else {}))
    place.run(day(3))
    before = after = ids_of("a", "b", days=range(3))
    if what == "undo":
        assert act(place, "forget", *FORGET) == 0
        before = ids_of("a", "b", days=range(1))
        driver = {"arguments": ["state", "undo", place.conf, "--now", iso(3), "--yes"]}
    else:
        after = ids_of("a", "b", days=range(4))
        driver = {"job": place.conf, "now": day(4)}
    abandon = ["runs", "abandon", place.conf, "--yes"]
    shutil.copytree(live, base)

    with KillServer(HISTORY_SERVER) as kills:
        events = kills.order(**driver, at=-1, stops=True)["events"]
        outcomes = set()
        for at in steps_to_stop_at(kind, events):
            restore(base, live)
            assert kills.order(**driver, at=at, stops=True)["stopped"]
            given_up = kills.order(arguments=abandon, at=-1, ahead=LATER_S)
            woken = kills.order(wake=True)

            when = f"slept at {at}, {events[at]}: {woken['error']}"
            assert given_up["exit"] == 0, (when, given_up["error"])
            assert woken["exit"] == 1, when
            found = place.rows() if kind == "files" else place.found()
            assert found in (before, after), when
            outcomes.add(found == after)
            verify = ["state", "verify", place.conf]
            assert kills.order(arguments=verify, at=-1, ahead=2 * LATER_S)["exit"] == 0, when
            ran = kills.order(job=place.conf, now=day(4), at=-1, ahead=2 * LATER_S)
            assert ran["exit"] == 0, (when, ran["error"])
            found = place.rows() if kind == "files" else place.found()
            assert found == ids_of("a", "b", days=range(4)), when
    assert outcomes == {False, True}


def iso(number: int) -> str:
    return datetime.fromtimestamp(day(number) / 1000, UTC).isoformat()
