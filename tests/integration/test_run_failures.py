"""A source that is not there, and a JVM that goes away."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.dil_processes import dil, report_of, started
from tests.jobs import complete_units, published_ids, visible_files, write_job
from tests.servers.http_server import Fault, HttpServer
from tests.servers.rows import DAY_MS, Dataset
from tests.servers.waiting import wait_until

NOW = "2020-01-06T00:00:00Z"


@pytest.fixture
def closed_port():
    """A port that nobody listens on: it is bound and never accepts."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.mark.spark
def test_a_source_that_refuses_connections_fails_the_run_soon_and_clearly(
    closed_port, tmp_path
) -> None:
    job = write_job(tmp_path, f"http://127.0.0.1:{closed_port}", taskexecutor__threadpool__size="1")

    started = time.monotonic()
    done = dil("run", job, "--now", NOW, "--json")

    assert done.returncode == 1
    assert time.monotonic() - started < 60
    report = report_of(done)
    assert report["status"] == "failed"
    assert {one["code"] for one in report["failures"]} == {"DIL-SRC-TRANSIENT"}
    assert f"127.0.0.1:{closed_port}/records" in report["failures"][0]["error"]
    units = report["work_units"]
    assert units["planned"] == 10
    assert units["failed"] >= 3
    assert units["planned"] == units["failed"] + units["not_started"]
    assert visible_files(tmp_path) == []
    assert "Traceback" not in done.stderr


def jvm_of(pid: int) -> int:
    """Return the id of a process's java, its only child of that name."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if Path(f"/proc/{child}/comm").read_text() == "java\n":
            return int(child)
    raise LookupError(pid)


@pytest.mark.spark
def test_a_jvm_that_dies_fails_the_run_and_keeps_what_was_done(tmp_path) -> None:
    if not Path("/proc/self/task").exists():
        pytest.skip("children are found in /proc")
    with HttpServer(Dataset.generate(16, units=("a", "b"), step_ms=DAY_MS // 4)) as source:
        source.faults.append(Fault("slow", delay_s=1.0))
        job = write_job(tmp_path, source.url, taskexecutor__threadpool__size="1")
        with started("run", job, "--now", "2020-01-05T00:00:00Z", "--json") as process:
            wait_until(lambda: len(complete_units(tmp_path)) >= 2)
            os.kill(jvm_of(process.pid), signal.SIGKILL)
            stdout, stderr = process.communicate(timeout=60)
        source.faults.clear()
        again = dil("run", job, "--now", "2020-01-05T00:00:00Z", "--json")

    assert process.returncode == 1, stderr
    report = json.loads(stdout)
    assert report["failures"][-1]["code"] == "DIL-EXEC"
    assert report["failures"][-1]["signature"] is None
    units = dict(report["work_units"])
    assert units.pop("planned") == sum(units.values()) == 8
    assert again.returncode == 0, again.stderr
    assert report_of(again)["work_units"]["adopted"] >= 2
    assert published_ids(visible_files(tmp_path)) == Counter(
        (unit, number) for unit in ("a", "b") for number in range(16)
    )
