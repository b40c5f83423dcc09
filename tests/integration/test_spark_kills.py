"""Kill -9 of real drivers at random moments, then a plain re-run on Spark."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter

import pytest

from tests.jobs import DIL, ROOT, manifest_files, published_ids, run, visible_files, write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS, START_MS, Dataset

pytestmark = pytest.mark.spark

NOW = "2020-01-06T00:00:00Z"
NOW_MS = START_MS + 5 * DAY_MS
STEP_MS = 5 * 60_000
# The short form kills a few drivers; the long form (make torture) many.
KILLS = int(os.environ.get("DIL_SPARK_KILLS", "3"))
SEED = int(os.environ.get("DIL_SEED", "20200106"))


def test_a_driver_killed_at_a_random_moment_and_run_again_publishes_exactly_the_source(tmp_path):
    """The moments are one in each part of a run, of as many parts as there are kills."""
    chance = random.Random(SEED)
    dataset = Dataset.generate(6 * DAY_MS // STEP_MS, units=("a", "b"), step_ms=STEP_MS)
    with HttpServer(dataset) as source:
        job = write_job(tmp_path, source.url, ms__publish__mode="window_replace")
        started = time.monotonic()
        whole = run(job, NOW)
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
            killed = subprocess.Popen(
                [*DIL, "run", str(job), "--now", NOW, *flags],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=ROOT,
            )
            try:
                killed.wait(moment_s)
            except subprocess.TimeoutExpired:
                killed.send_signal(signal.SIGKILL)
                killed.wait()
            again = run(job, NOW, *flags)
            when = f"kill {number} of {policy} after {moment_s:.2f} s of {usual_s:.2f} s"
            assert again.returncode == 0, f"{when}: {again.stderr}"
            found = published_ids(visible_files(tmp_path))
            assert found - expected == Counter(), f"doubled, {when}"
            assert expected - found == Counter(), f"lost, {when}"
            assert manifest_files(tmp_path) == visible_files(tmp_path), when
