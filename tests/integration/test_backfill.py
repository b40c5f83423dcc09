"""``dil backfill`` from end to end: a real source, real processes, Spark, a kill on the way."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.backfills import correct, late_row, notes_of, source_notes
from tests.integration.dil_processes import dil, run, started
from tests.jobs import visible_files
from tests.servers.http_server import Fault
from tests.servers.waiting import wait_until
from tests.stories import Story, day, work_unit

pytestmark = pytest.mark.spark

FOUR, FIVE = "2020-01-05T00:00:00Z", "2020-01-06T00:00:00Z"
RANGE = ("--from", "2020-01-02", "--to", "2020-01-04", "--now", FOUR)


@pytest.fixture
def story(tmp_path, source):
    return Story(
        tmp_path,
        source,
        ms__publish__mode="window_replace",
        extract__primary__key__fields="id,unit",
    )


def told(*arguments: object, code: int = 0) -> dict:
    """Return what ``dil backfill`` prints as JSON."""
    done = dil("backfill", *map(str, arguments), "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_the_whole_story_of_a_backfill(story, source):
    story.job()
    job = story.folder / "orders.conf"
    assert run(job, FOUR).returncode == 0
    before, files = notes_of(story), visible_files(story.folder)
    correct(source, "a", 5)
    late_row(source, "b", 2, 900)

    begun = is_killed_in_the_middle(story, source, job)
    assert notes_of(story) == before

    # A run of the job meanwhile is not held up, and has its own watermark.
    assert run(job, FIVE).returncode == 0
    states, before = story.states(), before + source_notes(source, range(4, 5))
    goes_on(source, job, begun)
    assert notes_of(story) == before

    is_compared(job, begun)
    shown = told("publish", job, begun)
    assert (shown["applied"], shown["files"]["out"]) == (False, 4)
    assert told("publish", job, begun, "--yes")["applied"] is True
    assert notes_of(story) == source_notes(source, range(5))
    assert story.states() == states
    assert told("publish", job, begun, "--yes")["applied"] is False
    assert json.loads(run(job, FIVE).stdout)["status"] == "nothing_due"

    assert told("undo", job, begun, "--yes")["applied"] is True
    assert notes_of(story) == before
    assert set(files) <= set(visible_files(story.folder))
    assert told("undo", job, begun, "--yes")["status"] == "undone"
    assert told("publish", job, begun, "--yes")["applied"] is True

    assert told("drop", job, begun, "--yes")["dropped"] is True
    assert told("list", job) == []
    assert notes_of(story) == source_notes(source, range(5))
    assert dil("state", "verify", job).returncode == 0


def is_killed_in_the_middle(story, source, job) -> str:
    """Begin a backfill and kill it while one work unit waits for its source; return its id."""
    planned = told(job, *RANGE, "--plan")
    assert [unit["reason"] for unit in planned["work_units"]] == ["backfill"] * 4
    assert (planned["backfill"], told("list", job)) == (None, [])
    last = {"unit": "b", "since": str(day(2))}
    source.faults.append(Fault("slow", where=tuple(last.items()), delay_s=20))
    seen = source.count("/records", **last)
    with started("backfill", job, *RANGE, "--parallelism", "1") as reading:
        wait_until(lambda: source.count("/records", **last) > seen)
        os.killpg(reading.pid, signal.SIGKILL)
    source.faults.clear()
    (listed,) = told("list", job)
    assert listed["status"] == "unfinished"
    return listed["backfill"]


def goes_on(source, job, begun: str) -> None:
    """Give the same command again: what was read before the kill is not read again."""
    asked = len(source.requests)
    done = told(job, *RANGE)
    assert (done["status"], done["backfill"], done["job"]) == ("success", begun, "orders")
    assert 0 < len(source.requests) - asked <= 2
    (listed,) = told("list", job)
    assert listed["work_units"] == {"planned": 4, "read": 4, "failed": 0}


def is_compared(job, begun: str) -> None:
    """Compare the backfill with what is live."""
    compared = told("diff", job, begun)
    assert compared["total"] == {"added": 1, "removed": 0, "changed": 1, "same": 15}
    rows = {each["signature"]: (each["before"], each["after"]) for each in compared["work_units"]}
    assert rows[work_unit(2, "b")] == (4, 5)
