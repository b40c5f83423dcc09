"""Derived datasets whose input deletes files while they are planned or read."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from dil.errors import QueryError, StateError
from dil.execution.executor import Watch
from dil.execution.queries.query import Query, QueryResult
from dil.model.task import RunContext
from dil.publishing.publisher import Publisher
from dil.run.queries.slices import plan_slices
from dil.testing.in_process import InProcessExecutor
from tests.derived import Lake, Readings
from tests.killed import KilledError, killed

BIG = "SELECT id, amount FROM orders WHERE amount >= 50"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def compact_and_be_killed(lake: Lake, patch: pytest.MonkeyPatch) -> None:
    """Put the files of the root together; the process is killed before its block is recorded."""
    with patch.context() as inner:
        inner.setattr(Publisher, "append_block", killed)
        with pytest.raises(KilledError):
            lake.compact(lake.orders)


@pytest.mark.parametrize("mode", ["append", "full"])
def test_an_input_whose_publish_was_killed_is_waited_for_and_is_no_failure(
    lake: Lake, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = lake.derive("big", BIG, ms__query__mode=mode)
    lake.feed(*range(5))
    lake.feed(*range(5, 10))
    compact_and_be_killed(lake, monkeypatch)

    report = lake.run(big, executor=None)  # which would start Spark

    assert (report.status, report.exit_code) == ("nothing_due", 0)
    assert f"dil run {lake.orders}" in report.notes[0]
    lake.run(lake.orders)
    assert lake.run(big).rows == 5
    assert lake.ids("big") == Counter(range(5, 10))


def test_windows_wait_for_an_input_whose_publish_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Readings(tmp_path)
    job = lake.job(lake.windows("half_hours"))
    lake.put(0, 5, 29)
    lake.put(31, 45)
    compact_and_be_killed(lake, monkeypatch)

    found = plan_slices(job, job.query, lambda: lake.now)

    assert (found.step, found.runs) == (None, False)
    assert f"dil run {lake.orders}" in found.waits[0]
    lake.run(lake.orders)
    assert plan_slices(job, job.query, lambda: lake.now).runs


def test_an_input_that_is_being_published_is_read_as_long_as_its_files_exist(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = lake.derive("big", BIG)
    lake.feed(*range(10))
    lake.add(*range(10, 20))
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "append_block", killed)
        with pytest.raises(KilledError):
            lake.run(lake.orders)

    assert lake.run(big).rows == 5
    lake.run(lake.orders)
    assert lake.run(big).rows == 10


def test_a_query_whose_files_an_input_replaced_meanwhile_is_not_to_blame(lake: Lake) -> None:
    class AsSpark(InProcessExecutor):
        """Spark gives only the text of an error of its tasks."""

        def query(self, run: RunContext, query: Query, watch: Watch) -> QueryResult:
            lake.compact(lake.orders)
            try:
                return super().query(run, query, watch)
            except StateError as error:
                raise QueryError(f"the query failed: {error.message}", "Correct it.") from error

    big = lake.derive("big", BIG)
    lake.feed(*range(5))
    lake.feed(*range(5, 10))

    report = lake.run(big, executor=AsSpark())

    (failure,) = report.failures
    assert (report.exit_code, failure.code) == (1, StateError.code)
    assert lake.run(big).rows == 5
    assert lake.ids("big") == Counter(range(5, 10))


def test_a_wrong_query_is_to_blame_also_if_the_state_of_an_input_went_meanwhile(lake: Lake) -> None:
    class Wrong(InProcessExecutor):
        def query(self, run: RunContext, query: Query, watch: Watch) -> QueryResult:
            shutil.rmtree(lake.folder / "state")
            raise QueryError("wrong", "Correct it.")

    big = lake.derive("big", BIG, state__store__dir=str(lake.folder / "own"))
    lake.feed(*range(5))

    (failure,) = lake.run(big, executor=Wrong()).failures
    assert failure.code == QueryError.code
