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
from tests.jobs import ROOT
from tests.servers.class_archive import quick_start

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


SCRIPT = """
import json, os, signal, sys, threading
from datetime import UTC, datetime
import dil.api
from pyspark import SparkContext
from pyspark.sql import SparkSession

options, alone, *together, given, found = sys.argv[1:]
said = {}

def facts():
    names = ["JAVA_HOME", "PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT"]
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    running = [SparkContext._active_spark_context, SparkContext._gateway]
    return str([[os.environ.get(name) for name in names], handlers, running])

def run(job, **how):
    report = dil.api.run(job, **how)
    return [report.status, report.exit_code, report.rows]

def run_in_threads(jobs):
    reports = []
    threads = [
        threading.Thread(target=lambda job=job: reports.append(run(job))) for job in jobs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return reports

said["facts"] = [facts()]
now = datetime(2024, 3, 5, tzinfo=UTC)
said["alone"] = [run(alone, now=now), run(alone, now=now)]
said["facts"].append(facts())
said["together"] = run_in_threads(together)
said["facts"].append(facts())

os.environ["PYSPARK_PYTHON"] = sys.executable
spark = (SparkSession.builder.master("local[1]").appName("mine")
    .config("spark.driver.extraJavaOptions", options).getOrCreate())
context = spark.sparkContext
identity = context.applicationId
said["given"] = [run(given, spark=spark), *run_in_threads([found])]
said["goes on"] = [
    context.applicationId == identity,
    spark.range(3).count(),
    context.getLocalProperty("spark.jobGroup.id"),
    len(context.statusTracker().getJobIdsForGroup()) >= 1,
]
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("script")


@pytest.fixture(scope="module")
def said(place: Path) -> dict[str, list]:
    """Run a user's script: jobs on sessions that runs start and stop, then on its own session."""
    jobs = [write_job(place, name) for name in ("alone", "a", "b", "c", "given", "found")]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, quick_start(), *map(str, jobs)],
        capture_output=True, text=True, timeout=300, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    facts: dict[str, list] = json.loads(done.stdout)
    return facts


@pytest.mark.spark
def test_a_run_stops_the_session_that_it_started_and_leaves_the_process_as_it_was(
    said: dict[str, list],
) -> None:
    assert said["alone"] == [["success", 0, 2], ["nothing_due", 0, 0]]
    before, after, _ = said["facts"]
    assert after == before
    assert after.endswith("[None, None]]"), "no session, no JVM"


@pytest.mark.spark
def test_runs_of_several_threads_share_the_session_that_one_of_them_starts(
    said: dict[str, list],
) -> None:
    """Runs of this process had a session before, which was stopped."""
    assert said["together"] == [["success", 0, 2]] * 3
    before, _, after = said["facts"]
    assert after == before


@pytest.mark.spark
def test_a_session_of_the_caller_is_used_and_goes_on(said: dict[str, list], place: Path) -> None:
    """The caller starts it after runs have stopped theirs."""
    assert said["given"] == [["success", 0, 2]] * 2
    assert said["goes on"] == [True, 3, None, True]
    assert rows(place, "given") == rows(place, "found") == ["Bern", "Oslo"]


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
