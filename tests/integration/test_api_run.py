"""``dil.api.run`` in processes like those of a notebook or an orchestrator, on real Spark."""

import json
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

import dil.api
from dil.errors import ConfigError, LeaseHeldError
from dil.model.report import RunStatus
from dil.run.process import real_clock
from dil.state import open_store
from tests.integration.spark_sessions import quick_start
from tests.jobs import ROOT

NOW = datetime(2024, 3, 5, tzinfo=UTC)


def write_job(folder: Path, name: str = "airports", **changes: str) -> Path:
    """Write a job that reads a CSV file beside it."""
    (folder / "source").mkdir(exist_ok=True)
    (folder / "source" / "airports.csv").write_text("id,city\n1,Bern\n2,Oslo\n")
    facts = {
        "job.name": name,
        "source.class": "file",
        "ms.source.uri": f"{folder}/source/airports.csv",
        "ms.extractor.class": "csv",
        "ms.csv": '{"columnHeaderIndex": 0}',
        "ms.timezone": "UTC",
        "extract.table.name": name,
        "extract.table.type": "SNAPSHOT_ONLY",
        "writer.output.format": "JSON",
        "writer.file.path.type": "tablename",
        "data.publisher.final.dir": f"{folder}/lake",
        "state.store.dir": f"{folder}/state",
        **changes,
    }
    path = folder / f"{name}.conf"
    path.write_text("".join(f"{key}={value}\n" for key, value in facts.items()))
    return path


def rows(folder: Path, name: str) -> list[str]:
    files = sorted((folder / "lake" / name).glob("part-*.json"))
    return sorted(
        json.loads(line)["city"] for file in files for line in file.read_text().splitlines()
    )


def in_a_process(code: str, *arguments: Path) -> None:
    """Run code as a user's script; an exception in it fails the test."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments), quick_start()],
        capture_output=True, text=True, timeout=300, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.spark
def test_a_run_stops_the_session_that_it_started_and_leaves_the_process_as_it_was(
    tmp_path: Path,
) -> None:
    first, second = write_job(tmp_path), write_job(tmp_path, "found")

    in_a_process(
        """
import os, signal, sys
from datetime import UTC, datetime
import dil.api

NOW = datetime(2024, 3, 5, tzinfo=UTC)

def facts():
    names = ["JAVA_HOME", "PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT"]
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    return [os.environ.get(name) for name in names], handlers

before = facts()

report = dil.api.run(sys.argv[1], now=NOW)

assert (report.status, report.exit_code, report.rows) == ("success", 0, 2), report
assert facts() == before
from pyspark import SparkContext
assert SparkContext._active_spark_context is None
assert SparkContext._gateway is None

assert dil.api.run(sys.argv[1], now=NOW).status == "nothing_due"
second = dil.api.run(sys.argv[2])
assert (second.status, second.rows) == ("success", 2), second
from pyspark.sql import SparkSession
own = (SparkSession.builder.master("local[1]").appName("mine")
    .config("spark.driver.extraJavaOptions", sys.argv[-1]).getOrCreate())
assert own.range(3).count() == 3
own.stop()
""",
        first,
        second,
    )


@pytest.mark.spark
def test_a_session_of_the_caller_is_used_and_goes_on(tmp_path: Path) -> None:
    given, found = write_job(tmp_path), write_job(tmp_path, "found")

    in_a_process(
        """
import os, sys, threading
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
import dil.api
spark = (SparkSession.builder.master("local[1]").appName("mine")
    .config("spark.driver.extraJavaOptions", sys.argv[-1]).getOrCreate())
context = spark.sparkContext
identity = context.applicationId

reports = [dil.api.run(sys.argv[1], spark=spark)]
thread = threading.Thread(target=lambda: reports.append(dil.api.run(sys.argv[2])))
thread.start()
thread.join()

assert [(each.status, each.rows) for each in reports] == [("success", 2)] * 2, reports
assert context.applicationId == identity and spark.range(3).count() == 3
assert context.getLocalProperty("spark.jobGroup.id") is None
assert len(context.statusTracker().getJobIdsForGroup()) >= 1
""",
        given,
        found,
    )

    assert rows(tmp_path, "airports") == rows(tmp_path, "found") == ["Bern", "Oslo"]


@pytest.mark.spark
def test_runs_of_several_threads_share_the_session_that_one_of_them_starts(tmp_path: Path) -> None:
    jobs = [write_job(tmp_path, name) for name in ("a", "b", "c")]

    in_a_process(
        """
import os, sys, threading
import dil.api
names = ["JAVA_HOME", "PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT"]
before = [os.environ.get(name) for name in names]
reports = []
threads = [
    threading.Thread(target=lambda job=job: reports.append(dil.api.run(job)))
    for job in sys.argv[1:]
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

assert [(each.status, each.rows) for each in reports] == [("success", 2)] * 3, reports
from pyspark import SparkContext
assert SparkContext._active_spark_context is None
assert SparkContext._gateway is None
assert [os.environ.get(name) for name in names] == before
""",
        *jobs,
    )


def test_a_run_that_fails_before_tasks_has_a_report(tmp_path: Path) -> None:
    job = write_job(tmp_path, **{"ms.source.uri": f"{tmp_path}/nowhere/*.csv"})
    (tmp_path / "state").write_text("no folder")

    report = dil.api.run(job, now=NOW)

    assert report.status is RunStatus.FAILED
    assert report.exit_code == 1
    assert report.failures[0].code.startswith("DIL-")


def test_a_wrong_configuration_raises_all_its_problems(tmp_path: Path) -> None:
    job = write_job(tmp_path, **{"writer.output.format": "JSN"})

    with pytest.raises(ConfigError) as caught:
        dil.api.run(job, properties={"ms.work.unit.partition": "dayly"})

    assert {each.key for each in caught.value.problems} == {
        "writer.output.format", "ms.work.unit.partition",
    }  # fmt: skip


def test_a_now_without_a_zone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no time zone"):
        dil.api.run(write_job(tmp_path), now=NOW.replace(tzinfo=None))


def test_a_plan_has_a_now_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has a now of its own"):
        dil.api.run(write_job(tmp_path), now=NOW, plan=tmp_path / "plan.json")


def test_a_held_lease_raises(tmp_path: Path) -> None:
    job = write_job(tmp_path)
    loaded = dil.config.load(job, environ={}).job
    with open_store(loaded.state, loaded.name, clock=real_clock) as store:
        store.acquire_lease("other", lease_s=3600)

        with pytest.raises(LeaseHeldError):
            dil.api.run(job)


def test_a_job_that_is_disabled_needs_no_spark_and_works_in_any_thread(tmp_path: Path) -> None:
    job = write_job(tmp_path, **{"job.disabled": "true"})
    before = signal.getsignal(signal.SIGINT)
    reports = []

    thread = threading.Thread(target=lambda: reports.append(dil.api.run(job)))
    thread.start()
    thread.join()

    assert [each.status for each in reports] == [RunStatus.NOTHING_DUE]
    assert signal.getsignal(signal.SIGINT) is before


def test_what_is_no_session_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no SparkContext"):
        dil.api.run(write_job(tmp_path), spark="local[2]")
