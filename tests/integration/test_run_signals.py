"""Ctrl-C and SIGTERM in the middle of a run: told, lease given back, finished work kept."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter

import pytest

from tests.integration.dil_processes import dil, report_of, started
from tests.jobs import complete_units, published_ids, visible_files, write_job
from tests.servers.http_server import Fault, HttpServer
from tests.servers.rows import DAY_MS, Dataset
from tests.servers.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("sigint_is_heeded")]

NOW = "2020-01-05T00:00:00Z"


def stopped(job, send) -> tuple[dict, int, str]:
    """Start a run, stop it after it finished two work units; return report, exit code, log."""
    before = len(complete_units(job.parent))
    with started("run", job, "--now", NOW, "--json") as process:
        wait_until(lambda: len(complete_units(job.parent)) >= before + 2)
        send(process)
        stdout, stderr = process.communicate(timeout=30)
    assert stdout, stderr
    return json.loads(stdout), process.returncode, stderr


def test_stopped_runs_report_give_the_lease_back_and_lose_nothing(tmp_path) -> None:
    with HttpServer(Dataset.generate(16, units=("a", "b"), step_ms=DAY_MS // 4)) as source:
        source.faults.append(Fault("slow", delay_s=1.0))
        job = write_job(tmp_path, source.url, taskexecutor__threadpool__size="1")

        # A terminal sends it to the whole process group.
        report, code, log = stopped(job, lambda one: os.killpg(one.pid, signal.SIGINT))
        check(report, code, log, 130)
        assert visible_files(tmp_path) == []

        # A scheduler sends it to the one process. The lease is free: the run began at once.
        report, code, log = stopped(job, lambda one: one.send_signal(signal.SIGTERM))
        check(report, code, log, 143)

        source.faults.clear()
        asked = source.count("/records")
        last = dil("run", job, "--now", NOW, "--json")
        assert last.returncode == 0, last.stderr
        units = report_of(last)["work_units"]
        assert units["adopted"] >= 4
        assert units["adopted"] + units["succeeded"] == 8
        assert source.count("/records") - asked == units["succeeded"]
    assert published_ids(visible_files(tmp_path)) == Counter(
        (unit, number) for unit in ("a", "b") for number in range(16)
    )


def check(report: dict, code: int, log: str, expected: int) -> None:
    assert code == expected, (log, report["failures"])
    assert report["exit_code"] == expected
    assert (report["status"], report["interrupted"]) == ("failed", True)
    assert (report["rows"], report["files"]) == (0, [])
    assert [one["code"] for one in report["failures"]] == ["DIL-INTERRUPTED"]
    units = dict(report["work_units"])
    assert units.pop("planned") == sum(units.values()) == 8
    assert "Traceback" not in log
