"""Kill -9 of real drivers at random moments, of queries too, then a plain re-run on Spark."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.derived import Readings
from tests.integration.dil_processes import dil_alone, run
from tests.jobs import DIL, ROOT, manifest_files, published_ids, visible_files, write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS, START_MS, Dataset
from tests.torture.kills import restore

pytestmark = pytest.mark.spark

NOW = "2020-01-06T00:00:00Z"
NOW_MS = START_MS + 5 * DAY_MS
STEP_MS = 5 * 60_000
# The short form kills a few drivers; the long form (make torture) many.
KILLS = int(os.environ.get("DIL_SPARK_KILLS", "3"))
QUERY_KILLS = int(os.environ.get("DIL_SPARK_KILLS", "2"))
SEED = int(os.environ.get("DIL_SEED", "20200106"))


def killed_after(moment_s: float, job: Path, *flags: str) -> None:
    """Run a job in a process of its own, and kill that when so many seconds have passed."""
    process = subprocess.Popen(
        [*DIL, "run", str(job), *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    try:
        process.wait(moment_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_a_driver_killed_at_a_random_moment_and_run_again_publishes_exactly_the_source(tmp_path):
    """The moments are one in each part of a run, of as many parts as there are kills."""
    chance = random.Random(SEED)
    dataset = Dataset.generate(6 * DAY_MS // STEP_MS, units=("a", "b"), step_ms=STEP_MS)
    with HttpServer(dataset) as source:
        job = write_job(tmp_path, source.url, ms__publish__mode="window_replace")
        started = time.monotonic()
        whole = dil_alone("run", job, "--now", NOW)
        usual_s = time.monotonic() - started
        assert whole.returncode == 0, whole.stderr
        expected = source.dataset.ids(NOW_MS)
        assert published_ids(visible_files(tmp_path)) == expected

        for number in range(KILLS):
            shutil.rmtree(tmp_path / "lake")
            shutil.rmtree(tmp_path / "state")
            policy = ("full", "successful")[number % 2]
            flags = ("-D", f"job.commit.policy={policy}")
            moment_s = usual_s * (number + chance.random()) / KILLS
            killed_after(moment_s, job, "--now", NOW, *flags)
            again = run(job, NOW, *flags)
            when = f"kill {number} of {policy} after {moment_s:.2f} s of {usual_s:.2f} s"
            assert again.returncode == 0, f"{when}: {again.stderr}"
            found = published_ids(visible_files(tmp_path))
            assert found - expected == Counter(), f"doubled, {when}"
            assert expected - found == Counter(), f"lost, {when}"
            assert manifest_files(tmp_path) == visible_files(tmp_path), when


@pytest.mark.long
def test_a_driver_killed_in_a_query_and_run_again_publishes_what_an_uninterrupted_run_does(
    tmp_path,
):
    """Kills take turns among the modes; what rows choose and count, another engine says as well."""
    chance = random.Random(SEED)
    lake = Readings(tmp_path / "lake")
    lake.put(*range(0, 300, 3))
    lake.put(*range(1, 300, 3))
    counts = "SELECT site, count(*) AS rows FROM orders GROUP BY site"
    jobs = {
        "windowed": lake.windows("windowed", ms__window__keys="site"),
        "append": lake.derive("append", "SELECT id, site FROM orders WHERE id % 2 = 0"),
        "full": lake.derive("full", counts, ms__query__mode="full"),
    }
    base = tmp_path / "before"
    restore(lake.folder, base)
    started = time.monotonic()
    whole = dil_alone("run", jobs["windowed"], "--now", NOW)
    usual_s = time.monotonic() - started
    assert whole.returncode == 0, whole.stderr
    for mode in ("append", "full"):
        assert lake.run(jobs[mode]).exit_code == 0
    expected = {mode: lake.published(mode) for mode in jobs}
    assert all(expected.values())

    for number in range(QUERY_KILLS):
        restore(base, lake.folder)
        mode, job = list(jobs.items())[number % len(jobs)]
        moment_s = usual_s * (number + chance.random()) / QUERY_KILLS
        killed_after(moment_s, job, "--now", NOW)
        again = run(job, NOW)
        when = f"kill {number} of {mode} after {moment_s:.2f} s of {usual_s:.2f} s"
        assert again.returncode == 0, f"{when}: {again.stderr}"
        assert lake.published(mode) == expected[mode], when
        assert lake.verify(job).problems == (), when
