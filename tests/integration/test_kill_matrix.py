"""Kill -9 between any two steps of a run, then run again: nothing lost, nothing doubled.

The tasks run in the driver's process here, so that a kill costs a tenth of a second instead of a
Spark start; tests/integration/test_spark_kills.py kills real drivers.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from datetime import UTC, datetime

import pytest

from tests.jobs import manifest_files, published_ids, visible_files, write_job
from tests.marks import all_long_but
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS, START_MS, Dataset, late_rows
from tests.torture.kills import restore, spread, steps

FIRST = int(datetime(2020, 1, 4, tzinfo=UTC).timestamp() * 1000)
SECOND = int(datetime(2020, 1, 6, tzinfo=UTC).timestamp() * 1000)
STEP_MS = 40 * 60_000
PER_DAY = DAY_MS // STEP_MS
# The short form kills at this many steps of each path; the long form (make torture) at all.
KILLS = int(os.environ.get("DIL_KILLS", "8"))

PATHS = {
    "append, all or nothing": {"ms__publish__mode": "append"},
    "append, keep successes": {
        "ms__publish__mode": "append",
        "job__commit__policy": "successful",
    },
    "append, shared files": {
        "ms__publish__mode": "append",
        "ms__output__file__per__work__unit": "false",
    },
    "append, shared files, keep successes": {
        "ms__publish__mode": "append",
        "ms__output__file__per__work__unit": "false",
        "job__commit__policy": "successful",
    },
    "append, a folder for each run": {
        "ms__publish__mode": "append",
        "writer__file__path__type": "default",
    },
    "window replace, all or nothing": {
        "ms__publish__mode": "window_replace",
        "ms__grace__period__days": "2",
    },
    "window replace, keep successes": {
        "ms__publish__mode": "window_replace",
        "ms__grace__period__days": "2",
        "job__commit__policy": "successful",
    },
    "replace": {"ms__publish__mode": "replace"},
    "replace, shared files": {
        "ms__publish__mode": "replace",
        "ms__output__file__per__work__unit": "false",
    },
}


@pytest.mark.parametrize(
    "path",
    all_long_but(
        PATHS,
        "append, keep successes",
        "window replace, all or nothing",
    ),
)
def test_a_run_killed_at_any_step_and_run_again_publishes_exactly_the_source(path, tmp_path, kills):
    settings = PATHS[path]
    rereads = settings["ms__publish__mode"] != "append"
    base, live = tmp_path / "before", tmp_path / "job"
    with HttpServer(Dataset.generate(6 * PER_DAY, units=("a", "b"), step_ms=STEP_MS)) as source:
        job = write_job(live, source.url, **settings)
        assert kills.run(job, FIRST)["exit"] == 0
        assert published_ids(visible_files(live)) == source.dataset.ids(FIRST)
        if rereads:
            source.dataset.extend(late_rows(START_MS + 2 * DAY_MS))
        shutil.copytree(live, base)

        whole = kills.run(job, SECOND)
        assert whole["exit"] == 0
        expected = source.dataset.ids(SECOND)
        assert published_ids(visible_files(live)) == expected

        chosen = sorted(set(steps(whole["events"]).values()))
        for at in spread(chosen, KILLS):
            restore(base, live)
            assert kills.run(job, SECOND, at)["killed"], f"step {at} was never reached"
            step = f"killed at {at}: {whole['events'][at]}"
            assert kills.run(job, SECOND)["exit"] == 0, step
            found = published_ids(visible_files(live))
            assert found - expected == Counter(), f"doubled, {step}"
            assert expected - found == Counter(), f"lost, {step}"
            assert manifest_files(live) == visible_files(live), step


# For one run: the first days of one unit of the two.
ONCE = {
    "ms.publish.mode": "replace",
    "ms.watermark": json.dumps(
        [
            {
                "name": "system",
                "type": "datetime",
                "range": {"from": "2020-01-01", "to": "2020-01-03"},
            },
            {"name": "unit", "type": "unit", "units": "a"},
        ]
    ),
}


def test_a_replace_of_one_run_killed_at_any_step_never_hides_the_rows_that_it_removed(
    tmp_path, kills
):
    """The run is repeated with its flags, as its message asks if its publish had begun."""
    base, live = tmp_path / "before", tmp_path / "job"
    with HttpServer(Dataset.generate(6 * PER_DAY, units=("a", "b"), step_ms=STEP_MS)) as source:
        job = write_job(live, source.url)
        assert kills.run(job, FIRST)["exit"] == 0
        shutil.copytree(live, base)
        whole = kills.run(job, FIRST, flags=ONCE)
        assert whole["exit"] == 0
        narrow = published_ids(visible_files(live))
        assert len(narrow) == 2 * PER_DAY
        expected = source.dataset.ids(SECOND)

        chosen = sorted(set(steps(whole["events"]).values()))
        for at in spread(chosen, 2 * KILLS):
            restore(base, live)
            assert kills.run(job, FIRST, at, flags=ONCE)["killed"], f"step {at} was never reached"
            step = f"killed at {at}: {whole['events'][at]}"
            # Without the flags, the next run goes on only if nothing had been decided, or all.
            if kills.run(job, SECOND)["exit"] != 0:
                assert kills.run(job, SECOND, flags=ONCE)["exit"] == 0, step
                assert kills.run(job, SECOND)["exit"] == 0, step
            found = published_ids(visible_files(live))
            assert found - expected == Counter(), f"doubled, {step}"
            assert expected - found == Counter(), f"lost, {step}"
            assert manifest_files(live) == visible_files(live), step
