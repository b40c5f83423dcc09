"""Kill -9 between any two steps of a run that publishes to HDFS, then run again.

The folder holds what the uninterrupted run's would: no file is there by half, and none twice.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.integration.hdfs_places import Folder, use
from tests.integration.test_storage_jobs import ids, listed, on_s3, visible
from tests.jobs import write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset, generated_row
from tests.stories import STEP_MS, day, ids_of
from tests.torture.kills import KillServer, restore, steps

# The short form kills at a few steps of each path; the long form (make torture) at all.
KILLS = max(int(os.environ.get("DIL_KILLS", "14")) // 7, 1)

HERE = "state on this machine"
PATHS = {
    "append, keep successes": {
        "ms__publish__mode": "append", "job__commit__policy": "successful",
    },
    f"window replace, {HERE}": {
        "ms__publish__mode": "window_replace", "ms__grace__period__days": "2",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def kills(hdfs):
    del hdfs
    with pytest.MonkeyPatch.context() as patch:
        use(patch)
        with KillServer() as server:
            yield server


def chosen(events):
    """Return the steps at which to kill: of all, or some evenly spread."""
    numbers = sorted(set(steps(events).values()))
    return numbers[:: max(1, len(numbers) // KILLS)]


@pytest.mark.parametrize("path", PATHS)
def test_a_run_killed_at_any_step_and_run_again_publishes_exactly_the_source(
    path, tmp_path, hdfs, kills
):
    folder, here = Folder(hdfs), tmp_path / "job"
    settings = on_s3(folder, **PATHS[path])
    if HERE in path:
        settings = {k: v for k, v in settings.items() if not k.startswith("state")}
    with HttpServer(Dataset.generate(12, units=("a", "b"), step_ms=STEP_MS)) as source:
        job = write_job(here, source.url, **settings)
        assert kills.run(job, day(1))["exit"] == 0
        assert ids(folder, visible(folder)) == ids_of("a", "b", days=range(1))
        expected = ids_of("a", "b", days=range(2))
        if "append" not in path:
            source.dataset.extend([generated_row("a", 100_000, day(0) + 1000)])
            expected["a", 100_000] = 1
        before = folder.objects()
        restore(here, tmp_path / "before")

        whole = kills.run(job, day(2))
        assert whole["exit"] == 0
        assert ids(folder, visible(folder)) == expected

        for at in chosen(whole["events"]):
            folder.restore(before)
            restore(tmp_path / "before", here)
            assert kills.run(job, day(2), at)["killed"], f"step {at} was never reached"
            step = f"killed at {at}: {whole['events'][at]}"
            assert kills.run(job, day(2))["exit"] == 0, step
            found = ids(folder, visible(folder))
            assert found - expected == Counter(), f"doubled, {step}"
            assert expected - found == Counter(), f"lost, {step}"
            assert listed(folder) == visible(folder), step
