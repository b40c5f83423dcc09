"""Streams as processes on Spark: signals, random kills, a lost checkpoint; each row once."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.integration.dil_processes import dil, report_of, started
from tests.jobs import complete_units, published_ids, visible_files, write_job
from tests.marks import some_long
from tests.servers.http_server import Fault, HttpServer
from tests.servers.rows import DAY_MS, Dataset
from tests.servers.waiting import wait_until
from tests.streams import INGEST, StreamFeed

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("sigint_is_heeded")]

# The short form kills a few services; the long form (make torture) many.
KILLS = int(os.environ.get("DIL_STREAM_KILLS", "2"))
SEED = int(os.environ.get("DIL_SEED", "20260101"))
NOW = "2020-01-05T00:00:00Z"
SERVICE = {
    **INGEST,
    "ms.stream.max.files": "1",
    "ms.stream.trigger": "PT0.05S",
    "taskexecutor.threadpool.size": "1",
    "ms.lease.seconds": "5",
}


def service_of(folder: Path, **changes: str) -> tuple[StreamFeed, Path]:
    feed = StreamFeed(folder)
    feed.job(**{**SERVICE, **changes})
    return feed, folder / "feed.conf"


@contextmanager
def running(job: Path) -> Iterator[subprocess.Popen[str]]:
    with started("run", job, "--json") as process:
        yield process


def copy_of(feed: StreamFeed) -> Path:
    """Write the job of a stream over the rows of a feed, which it publishes elsewhere."""
    feed.job(**INGEST)
    properties = {
        "job.name": "copy",
        "extract.table.name": "copy",
        "ms.query.inputs": json.dumps([{"job": "feed.conf", "as": "feed"}]),
        "ms.query.sql": "SELECT id, site FROM feed WHERE id % 2 = 0",
        "ms.query.input.max.blocks": "1",
        "ms.stream.mode": "stateful",
        "ms.stream.trigger": "PT0.05S",
        "ms.lease.seconds": "5",
        "writer.output.format": "PARQUET",
        "writer.file.path.type": "tablename",
        "data.publisher.final.dir": str(feed.folder / "copies"),
        "state.store.dir": str(feed.folder / "state"),
    }
    path = feed.folder / "copy.conf"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


def copied(feed: StreamFeed) -> Counter[object]:
    """Return the ids of the rows of the copy, how often each."""
    files = (feed.folder / "copies" / "copy").glob("part-*.parquet")
    return Counter(number for file in files for number in pq.read_table(file)["id"].to_pylist())


def ended(process: subprocess.Popen[str]) -> tuple[dict, int, str]:
    stdout, stderr = process.communicate(timeout=120)
    assert stdout, stderr
    return json.loads(stdout), process.returncode, stderr


def committed(feed: StreamFeed, more_than: int) -> Callable[[], bool]:
    return lambda: len(feed.rows()) > more_than


def test_a_service_that_is_killed_and_loses_its_checkpoint_has_each_row_once(tmp_path) -> None:
    """Files arrive all the time: some before each start, some while it runs."""
    chance = random.Random(SEED)
    feed, job = service_of(tmp_path)
    feed.put(0, 1)
    losses = {KILLS // 2, KILLS - 1} if KILLS > 3 else {1}
    for number in range(KILLS):
        with running(job) as service:
            wait_until(committed(feed, len(feed.rows())), timeout_s=90)
            for _ in range(10):
                feed.put(number, number)
            try:
                service.wait(4 * chance.random())
            except subprocess.TimeoutExpired:
                os.killpg(service.pid, signal.SIGKILL)
            service.communicate()
        if number in losses:
            shutil.rmtree(feed.checkpoint_dir)
        feed.put(number)
    with running(job) as service:
        wait_until(lambda: feed.ids() == feed.expected(), timeout_s=120)
        service.send_signal(signal.SIGTERM)
        report, code, log = ended(service)

    assert (code, report["status"]) == (0, "success"), log
    assert feed.ids() == feed.expected()
    again = dil("run", job, "-Dms.stream.trigger=available_now", "--json")
    assert (again.returncode, report_of(again)["status"]) == (0, "nothing_due")
    epochs = {
        each["newSourceState"]["value"]["stream"]["epoch"]
        for each in feed.blocks()
        if "stream" in each["newSourceState"]["value"]
    }
    assert len(epochs) == 1 + len(losses)


@pytest.mark.long
def test_a_stream_of_a_query_that_is_killed_and_loses_its_checkpoint_has_each_row_once(
    tmp_path,
) -> None:
    """Its input publishes all the time: some blocks before each start, some while it runs."""
    chance = random.Random(SEED)
    feed = StreamFeed(tmp_path)
    job, runs = copy_of(feed), 0
    losses = {KILLS // 2, KILLS - 1} if KILLS > 3 else {1}

    def publish(times: int) -> None:
        nonlocal runs
        for _ in range(times):
            feed.put(runs, runs)
            runs += 1
            assert feed.stream(at=runs).exit_code == 0

    for number in range(KILLS):
        publish(2)
        with running(job) as service:
            before = copied(feed).total()
            wait_until(lambda before=before: copied(feed).total() > before, timeout_s=90)
            publish(3)
            try:
                service.wait(3 * chance.random())
            except subprocess.TimeoutExpired:
                os.killpg(service.pid, signal.SIGKILL)
            service.communicate()
        if number in losses:
            shutil.rmtree(tmp_path / "copies" / "_checkpoint" / "copy")
    publish(1)
    expected = Counter(each for each in feed.put_ids if each % 2 == 0)
    with running(job) as service:
        wait_until(lambda: copied(feed) == expected, timeout_s=120)
        service.send_signal(signal.SIGTERM)
        report, code, log = ended(service)

    assert (code, report["status"]) == (0, "success"), log
    assert log.count("starting Spark") == 1
    assert copied(feed) == expected
    again = dil("run", job, "-Dms.stream.trigger=available_now", "--json")
    assert (again.returncode, report_of(again)["status"]) == (0, "nothing_due")
    assert dil("state", "verify", job).returncode == 0
    shown = json.loads(dil("state", "log", job, "--json").stdout)
    events = [each["event"] for each in shown if each["event"]["kind"] == "ExecuteQuery"]
    assert len({each["stream"]["epoch"] for each in events}) == 1 + len(losses)


def test_of_two_drivers_of_one_stream_the_second_goes_on_where_the_first_was_killed(
    tmp_path,
) -> None:
    feed, job = service_of(tmp_path)
    for _ in range(6):
        feed.put(0, 0)
    with running(job) as first:
        wait_until(committed(feed, 0), timeout_s=90)
        refused = dil("run", job, "--json")
        with started("run", job, "--json", "--wait-lease", "60") as second:
            for _ in range(6):
                feed.put(1, 1)
            before = len(feed.rows())
            wait_until(committed(feed, before), timeout_s=90)
            os.killpg(first.pid, signal.SIGKILL)
            feed.put(2)
            wait_until(lambda: feed.ids() == feed.expected(), timeout_s=120)
            second.send_signal(signal.SIGTERM)
            report, code, log = ended(second)
        first.communicate()

    assert refused.returncode == 3, refused.stderr
    assert (code, report["status"]) == (0, "success"), log
    assert feed.ids() == feed.expected()
    streams = [event["newSourceState"]["value"]["stream"] for event in feed.blocks()]
    assert len({each["epoch"] for each in streams}) == 1
    assert [each["batchId"] for each in streams] == list(range(len(streams)))


@pytest.mark.parametrize("number", some_long([signal.SIGINT, signal.SIGTERM], signal.SIGTERM))
def test_the_first_signal_ends_a_service_between_two_micro_batches(tmp_path, number) -> None:
    feed, job = service_of(tmp_path)
    feed.put(0)
    with running(job) as service:
        wait_until(committed(feed, 0), timeout_s=90)
        os.killpg(service.pid, number)  # as a terminal does it
        report, code, log = ended(service)

    assert (code, report["status"], report["interrupted"]) == (0, "success", False), log
    assert any("stopped by a signal" in note for note in report["notes"])
    assert "Traceback" not in log
    assert feed.ids() == feed.expected()


def test_a_second_signal_cuts_the_micro_batch_and_the_next_run_reads_the_rest(tmp_path) -> None:
    with HttpServer(Dataset.generate(16, units=("a", "b"), step_ms=DAY_MS // 4)) as source:
        source.faults.append(Fault("slow", delay_s=1.0))
        job = write_job(
            tmp_path,
            source.url,
            ms__stream__mode="ingest",
            ms__stream__max__files="4",
            taskexecutor__threadpool__size="1",
        )
        with started("run", job, "--now", NOW, "--json") as stream:
            wait_until(lambda: len(complete_units(tmp_path)) >= 2, timeout_s=90)
            # Two of one kind might reach the process as one.
            stream.send_signal(signal.SIGINT)
            stream.send_signal(signal.SIGTERM)
            report, code, _log = ended(stream)
        assert (report["status"], report["interrupted"]) == ("failed", True)
        assert code in {130, 143}

        source.faults.clear()
        last = dil("run", job, "--now", NOW, "--json")
        assert last.returncode == 0, last.stderr
    assert published_ids(visible_files(tmp_path)) == Counter(
        (unit, number) for unit in ("a", "b") for number in range(16)
    )
