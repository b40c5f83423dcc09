"""Two real runs of one job: who runs, who is refused, who takes over."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter

import pytest

from tests.integration.dil_processes import dil_alone, report_of, started
from tests.jobs import ROOT, complete_units, published_ids, visible_files, write_job
from tests.servers.http_server import Fault, HttpServer
from tests.servers.rows import DAY_MS, Dataset
from tests.servers.waiting import wait_until

NOW = "2020-01-04T00:00:00Z"
NOTHING_YET = "2020-01-01T00:00:00Z"
HOLDER = """
import sys, time
from dil.model.job import StateSpec
from dil.state import open_store
clock = lambda: time.time_ns() // 1_000_000
store = open_store(StateSpec("sqlite", sys.argv[1]), "orders", clock=clock)
lease = store.acquire_lease("the-holder", lease_s=3600)
print("held", flush=True)
if sys.stdin.readline():
    store.release_lease(lease)
"""


@pytest.fixture
def source():
    with HttpServer(Dataset.generate(12, units=("a", "b"), step_ms=DAY_MS // 4)) as server:
        yield server


@pytest.fixture
def job(tmp_path, source):
    return write_job(
        tmp_path,
        source.url,
        taskexecutor__threadpool__size="1",
        ms__ssl=json.dumps({"socketTimeoutSeconds": 600}),
    )


@pytest.fixture
def holder(tmp_path):
    """A real process that holds the job's lease until it reads a line, or dies."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "state")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def line_of(stream, words: str) -> str:
    """Return the first line with some words, when it comes."""
    for line in stream:
        if words in line:
            return line
    pytest.fail(f"ended without {words!r}")


@pytest.mark.spark
def test_a_second_run_is_refused_and_a_run_after_a_kill_takes_over_at_once(
    source, job, tmp_path
) -> None:
    held = Fault("held", at=(3,))
    source.faults.append(held)
    with started("run", job, "--now", NOW) as first:
        # One thread: of the third work unit there is no answer, however long this takes.
        wait_until(lambda: len(complete_units(tmp_path)) == 2)

        second = dil_alone("run", job, "--now", NOW, "--json")
        assert first.poll() is None
        assert second.returncode == 3
        (failure,) = report_of(second)["failures"]
        assert (failure["signature"], failure["code"]) == (None, "DIL-LEASE")
        assert f"process {first.pid} on {socket.gethostname()}, since 20" in failure["error"]
        assert "--wait-lease" in second.stderr

        first.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
        asked = source.count("/records")
        third = dil_alone("run", job, "--now", NOW, "--json")
        held.released.set()

    assert third.returncode == 0, third.stderr
    units = report_of(third)["work_units"]
    assert units["adopted"] == 2
    assert source.count("/records") - asked == units["succeeded"]
    assert published_ids(visible_files(tmp_path)) == Counter(
        (unit, number) for unit in ("a", "b") for number in range(12)
    )


def test_a_dead_holder_is_no_hindrance(holder, job) -> None:
    refused = dil_alone("run", job, "--now", NOTHING_YET, "--json")
    holder.kill()
    holder.wait()
    free = dil_alone("run", job, "--now", NOTHING_YET, "--json")

    assert (refused.returncode, free.returncode) == (3, 0)
    assert str(holder.pid) in report_of(refused)["failures"][0]["error"]


def test_waiting_for_the_lease_ends_when_the_holder_gives_it_back(holder, job) -> None:
    with started("run", job, "--now", NOTHING_YET, "--json", "--wait-lease", "60") as waiting:
        assert f"process {holder.pid} on {socket.gethostname()}" in line_of(
            waiting.stderr, "waiting for the lease"
        )
        holder.stdin.write("\n")
        holder.stdin.flush()
        stdout, stderr = waiting.communicate()

    assert waiting.returncode == 0, stderr
    assert '"nothing_due"' in stdout


def test_waiting_for_the_lease_has_an_end(holder, job) -> None:
    done = dil_alone("run", job, "--now", NOTHING_YET, "--json", "--wait-lease", "1")

    assert done.returncode == 3
    assert report_of(done)["failures"][0]["code"] == "DIL-LEASE"
