"""Kill -9 between any two steps of a run that publishes to a bucket, then run again.

The bucket holds what the uninterrupted run's would: a move there is a copy and a deletion, and a
kill may come between the two.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.dumps import dump_story, give
from tests.integration.s3_places import Bucket, use
from tests.integration.test_storage_jobs import ids, listed, on_s3, visible
from tests.jobs import write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset, generated_row
from tests.servers.s3 import MotoServer
from tests.stories import STEP_MS, day, ids_of
from tests.torture.kills import KillServer, restore, steps

# The short form kills at a few steps of each path; the long form (make torture) at all.
KILLS = max(int(os.environ.get("DIL_KILLS", "14")) // 7, 1)

APPEND, REPLACE, WINDOW = (
    {"ms__publish__mode": "append"},
    {"ms__publish__mode": "replace"},
    {"ms__publish__mode": "window_replace", "ms__grace__period__days": "2"},
)
SUCCESSFUL = {"job__commit__policy": "successful"}
HERE = "state on this machine"
PATHS = {
    "append": APPEND,
    f"append, {HERE}, keep successes": {**APPEND, **SUCCESSFUL},
    f"replace, {HERE}": REPLACE,
    "window replace": WINDOW,
}


@pytest.fixture(scope="module")
def moto():
    with MotoServer() as server, pytest.MonkeyPatch.context() as patch:
        use(server.url, patch)
        yield server


@pytest.fixture(scope="module")
def kills(moto):
    with KillServer() as server:
        yield server


def chosen(events):
    """Return the steps at which to kill: of all, or some evenly spread."""
    numbers = sorted(set(steps(events).values()))
    return numbers[:: max(1, len(numbers) // KILLS)]


@pytest.mark.parametrize("path", PATHS)
def test_a_run_killed_at_any_step_and_run_again_publishes_exactly_the_source(
    path, tmp_path, moto, kills
):
    bucket, here = Bucket(moto), tmp_path / "job"
    settings = on_s3(bucket, **PATHS[path])
    if HERE in path:
        settings = {k: v for k, v in settings.items() if not k.startswith("state")}
    with HttpServer(Dataset.generate(12, units=("a", "b"), step_ms=STEP_MS)) as source:
        job = write_job(here, source.url, **settings)
        assert kills.run(job, day(1))["exit"] == 0
        assert ids(bucket, visible(bucket)) == ids_of("a", "b", days=range(1))
        expected = ids_of("a", "b", days=range(2))
        if "append" not in path:
            source.dataset.extend([generated_row("a", 100_000, day(0) + 1000)])
            expected["a", 100_000] = 1
        before = bucket.objects()
        restore(here, tmp_path / "before")

        whole = kills.run(job, day(2))
        assert whole["exit"] == 0
        assert ids(bucket, visible(bucket)) == expected

        for at in chosen(whole["events"]):
            bucket.restore(before)
            restore(tmp_path / "before", here)
            assert kills.run(job, day(2), at)["killed"], f"step {at} was never reached"
            step = f"killed at {at}: {whole['events'][at]}"
            assert kills.run(job, day(2))["exit"] == 0, step
            found = ids(bucket, visible(bucket))
            assert found - expected == Counter(), f"doubled, {step}"
            assert expected - found == Counter(), f"lost, {step}"
            assert listed(bucket) == visible(bucket), step


def test_a_dump_killed_at_any_step_and_run_again_holds_exactly_the_files_of_the_source(
    tmp_path, moto, kills
):
    before = {"a": b"first a", "in/b": b"first b, which is longer than the second one"}
    after = {"a": b"second a, longer", "in/b": b"2nd b", "new/c": b"c" * 100_000}
    bucket, here = Bucket(moto), tmp_path / "job"

    def dumped():
        return {key.removeprefix("lake/"): bucket.objects(key)[key] for key in visible(bucket)}

    with HttpServer(Dataset.generate(1)) as source:
        place = {"data__publisher__final__dir": f"{bucket.uri}/lake"}
        dump_story(here, source, *after, **place).job()
        for name, body in {**after, **before}.items():
            give(source, name.replace("/", "%2F"), body)
        assert kills.run(here / "orders.conf", day(4))["exit"] == 0
        assert dumped() == {**after, **before}
        for name, body in after.items():
            give(source, name.replace("/", "%2F"), body)
        objects = bucket.objects()
        restore(here, tmp_path / "before")
        whole = kills.run(here / "orders.conf", day(6))
        assert whole["exit"] == 0
        assert dumped() == after

        for at in chosen(whole["events"]):
            bucket.restore(objects)
            restore(tmp_path / "before", here)
            assert kills.run(here / "orders.conf", day(6), at)["killed"]
            step = f"killed at {at}: {whole['events'][at]}"
            old = {**after, **before}
            wrong = [n for n, body in dumped().items() if body not in (after[n], old[n])]
            assert wrong == [], f"half a file is visible, {step}"
            assert kills.run(here / "orders.conf", day(6))["exit"] == 0, step
            assert dumped() == after, step
