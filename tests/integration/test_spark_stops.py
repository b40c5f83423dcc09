"""Work units that Spark reads, where the run is stopped or something breaks on the driver.

All cases run in one process, on one Spark, one after the other; the tests look at what came of
them: ``python -m tests.integration.test_spark_stops FOLDER`` prints them as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from dil.errors import LeaseLostError, SourceError
from dil.execution.coordinated import CoordinatedRun
from dil.execution.frames import Frames
from dil.execution.job_monitor import SparkJobMonitor
from dil.execution.session import SparkSettings, spark_context
from dil.model.interval import Interval
from dil.model.task import Failure, RunContext, TaskReport
from dil.model.work_unit import Reason, WorkUnit
from dil.spi.connector import SparkRead, SparkReader
from tests.integration.dil_processes import printed_by
from tests.integration.jdbc_jobs import DatabaseJob
from tests.integration.local_jobs import NOW

pytestmark = pytest.mark.spark

SECRET = "not-yours"


class StoppedAtTheSchema(Frames):
    """Its run is stopped when Spark knows the columns of a work unit."""

    def __init__(self, context: Any, shared: CoordinatedRun, reader: SparkReader) -> None:
        self._knows_columns = threading.Event()
        super().__init__(context, shared, self._watch, reader)

    def _watch(self, _: Sequence[TaskReport]) -> Failure | None:
        return Failure(LeaseLostError.code, "lost") if self._knows_columns.is_set() else None

    def _frame(self, read: SparkRead) -> Any:
        frame = super()._frame(read)
        self._knows_columns.set()
        assert self._monitor.is_over.wait(60)
        return frame


def main(folder: Path) -> None:
    job = DatabaseJob(
        folder, "jdbc:db2://127.0.0.1:1/x", "select 1", ms__jdbc__reader="spark",
        source__conn__username="me", source__conn__password=SECRET,
        taskexecutor__threadpool__size="1",
    ).job()  # fmt: skip
    partition = Interval(NOW - 86_400_000, NOW)
    units = [
        WorkUnit(name, partition.low, partition.high, partition, "", "{}", Reason.NEW)
        for name in ("first", "second")
    ]
    text = folder / "rows.txt"
    text.write_text("a row\n")

    def run(name: str) -> CoordinatedRun:
        return CoordinatedRun(
            RunContext(job, name, NOW, full_extract=False, staging_dir=str(folder))
        )

    def rows(_: object) -> SparkRead:
        return SparkRead("text", str(text), {"path": str(text)})

    def told(frames: Frames) -> dict[str, Any]:
        execution = frames.execute(units)
        return {
            "failures": [[one.failure.code, one.failure.error, one.failure.fix]
                         for one in execution.reports if one.failure],
            "stopped": execution.stopped and [execution.stopped.code, execution.stopped.error],
        }  # fmt: skip

    def broken(name: str, error: BaseException) -> dict[str, Any]:
        def read(_: object) -> SparkRead:
            raise error

        return told(Frames(context, run(name), lambda _: None, SparkReader(read)))

    with spark_context(
        SparkSettings("stops", 2, os.environ, Path.home() / ".cache" / "dil", reads=True)
    ) as context:

        def begun(name: str) -> int:
            return len(context.statusTracker().getJobIdsForGroup(f"dil {name}"))

        found = {
            "schema": told(StoppedAtTheSchema(context, run("schema"), SparkReader(rows))),
            "cancelled": cancelled(context, run("cancelled")),
            "exit": broken("exit", SystemExit("of a plug-in")),
            "plug-in": broken("plug-in", RuntimeError(f"no {SECRET} here")),
            "advice": broken("advice", SourceError("no rows", f"Ask as {SECRET}.")),
        }
        found["begun"] = {name: begun(name) for name in ("schema", "cancelled")}
    print(json.dumps(found))


def cancelled(context: Any, shared: CoordinatedRun) -> str:
    """Return what becomes of a job that comes to Spark only when its group was cancelled."""
    monitor = SparkJobMonitor(context, shared, lambda _: None, tuple)
    monitor.join_group()
    with suppress(KeyboardInterrupt), monitor.looking():
        raise KeyboardInterrupt
    try:
        return str(context.parallelize([1], 1).collect())
    except Py4JJavaError as error:
        return str(error)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("stops")
    (outcomes,) = printed_by("tests.integration.test_spark_stops", str(folder))
    return dict(outcomes)


def test_a_stop_while_columns_are_asked_for_begins_no_job(found: dict[str, Any]) -> None:
    assert found["schema"] == {"failures": [], "stopped": ["DIL-LEASE-LOST", "lost"]}
    assert found["begun"]["schema"] == 0


def test_a_job_that_comes_behind_the_cancelling_does_not_run(found: dict[str, Any]) -> None:
    assert "cancelled" in found["cancelled"]


def test_a_thread_that_ends_tells_why_work_units_were_not_begun(found: dict[str, Any]) -> None:
    assert found["exit"]["failures"] == []
    code, error = found["exit"]["stopped"]
    assert code == "DIL-EXEC"
    assert "SystemExit: of a plug-in" in error


def test_what_breaks_on_the_driver_is_no_failure_of_spark(found: dict[str, Any]) -> None:
    for code, error, _ in found["plug-in"]["failures"]:
        assert (code, "RuntimeError: no *** here" in error) == ("DIL-PLUGIN", True)
    assert len(found["plug-in"]["failures"]) == 2


def test_no_secret_is_in_what_to_do_about_a_failure(found: dict[str, Any]) -> None:
    assert found["advice"]["failures"] == [["DIL-SRC", "no rows", "Ask as ***."]] * 2


if __name__ == "__main__":
    main(Path(sys.argv[1]))
