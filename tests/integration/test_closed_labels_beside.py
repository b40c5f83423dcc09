"""Rows that come for a closed timelabel are published beside the dataset, in the same commit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dil.execution.executor import Execution, Watch
from dil.model.task import RunContext
from dil.model.work_unit import PlannedClosedLabels, WorkUnit
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.run.plan_builder import plan_job
from tests.closing_days import ClosingDays, label
from tests.marks import some_long
from tests.servers.day_rows import DayRows
from tests.servers.rows import DAY_MS, START_MS
from tests.stories import executor
from tests.table_readers import delta_table
from tests.torture.kills import KillServer, restore, spread, steps

KILLS = int(os.environ.get("DIL_KILLS", "10"))
BESIDE = {"ms__late__after__close": ""}
BY_COLUMN = {**BESIDE, "ms__timelabel__column": "at", "ms__publish__layout": "timelabel"}


@pytest.fixture
def source() -> Iterator[DayRows]:
    with DayRows() as running:
        yield running


def forget(days: ClosingDays, number: int) -> None:
    """Make a day as if it had never been read, and keep what was published of it."""
    from dil.cli.main import main

    start = f"2020-01-{number + 1:02}"
    words = ["state", "forget", str(days.path), "--from", start, "--to", f"{start}T12:00:00Z"]
    assert main([*words, "--keep-files", "--yes"]) == 0


def at(day: int, hour: int = 1, *, id_: int) -> dict[str, int]:
    return {"id": id_, "at": START_MS + day * DAY_MS + hour * 3_600_000}


def instant(day: int) -> datetime:
    return datetime.fromtimestamp(START_MS / 1000 + day * 86_400, UTC)


def test_a_closed_label_that_is_read_again_stays_as_it_is_and_its_reading_is_beside(
    source, tmp_path: Path
):
    days = ClosingDays(tmp_path, source, **BESIDE)
    days.fill(0, 1)
    days.run(2)
    forget(days, 0)
    days.fill(0, 2, rows=4)
    plan = plan_job(days.job, now_ms=START_MS + 3 * DAY_MS).plan
    assert (plan.closed_labels, len(plan.work_units)) == (
        PlannedClosedLabels(beside=(label(0),)),
        2,
    )
    before = len(days.events())
    done = days.run(3)
    assert days.ids() == [0, 1, 2, 100, 101, 102, 200, 201, 202, 203]
    own = {"unit": "a", "_late_at": instant(3), "_watermark": None, "_timelabel": label(0)}
    assert days.beside() == [{"id": each, **own} for each in range(4)]
    assert days.events()[before:] == ["AddData", f"CloseBooks {label(2)}"]
    assert days.closed(4) == [0, 1, 2]
    assert any(note.startswith("CLOSED: 4 rows for 1 timelabel") for note in done.notes)
    assert days.problems() == ()
    assert days.run(3).units.planned == 0


def test_another_reading_takes_the_place_of_the_one_beside_and_reopening_of_both(
    source, tmp_path: Path
):
    from dil.cli.main import main

    labelled = {"ms__output__system__columns": "_timelabel"}
    days = ClosingDays(tmp_path, source, **BESIDE, **labelled)
    days.fill(0, 1)
    days.run(2)
    for rows in (4, 5):
        forget(days, 0)
        days.fill(0, rows=rows)
        days.run(2)
        found = [(row["id"], row["_timelabel"]) for row in days.beside()]
        assert found == [(each, label(0)) for each in range(rows)]
    assert main(["timelabels", "reopen", str(days.path), label(0), "--yes"]) == 0
    forget(days, 0)
    days.run(2)
    assert days.ids() == [0, 1, 2, 3, 4, 100, 101, 102]
    assert days.beside() == []
    assert days.closed(3) == [0, 1]
    assert days.problems() == ()


def test_rows_of_a_column_for_a_closed_label_are_beside_and_the_others_are_published(
    source, tmp_path: Path
):
    days = ClosingDays(tmp_path, source, **BY_COLUMN)
    source.days[START_MS] = [at(0, id_=0)]
    days.run(1)
    source.days[START_MS + DAY_MS] = [at(1, id_=100), at(0, id_=101)]
    days.run(2)
    assert days.ids() == [0, 100]
    assert [(row["id"], row["_timelabel"]) for row in days.beside()] == [(101, label(0))]
    assert days.closed(3) == [0, 1]
    assert days.problems() == ()


def test_what_was_published_of_a_label_before_it_was_closed_stays(source, tmp_path: Path):
    """The grace period reads the second day again, with a row of the first one in it."""
    days = ClosingDays(tmp_path, source, **BY_COLUMN, ms__grace__period__days="1")
    source.days[START_MS] = [at(0, id_=0)]
    source.days[START_MS + DAY_MS] = [at(1, id_=100), at(0, id_=101)]
    days.run(2)
    assert days.closed(4) == [0]
    assert days.ids() == [0, 100, 101]
    source.days[START_MS + DAY_MS] = [at(1, id_=100), at(1, id_=102), at(0, id_=101)]
    days.run(3)
    assert days.ids() == [0, 100, 101, 102]
    assert days.problems() == ()


def test_late_rows_are_flagged_and_those_of_closed_labels_are_beside_by_the_same_watermark(
    source, tmp_path: Path
):
    days = ClosingDays(
        tmp_path,
        source,
        **BY_COLUMN,
        ms__event__column="at",
        ms__event__watermark="bounded",
        ms__event__delay="PT1H",
        ms__late__action="flag",
    )
    source.days[START_MS] = [at(0, id_=0), at(0, 23, id_=1)]
    source.days[START_MS + DAY_MS] = [at(1, 5, id_=100)]
    days.run(2)
    assert days.closed(3) == [0]
    source.days[START_MS + 2 * DAY_MS] = [at(1, 2, id_=200), at(0, 22, id_=201), at(2, id_=202)]
    days.run(3)
    assert days.ids() == [0, 1, 100, 200, 202]
    [row] = days.beside()
    assert (row["id"], row["_late"], row["_watermark"]) == (
        201,
        True,
        datetime.fromtimestamp((START_MS + DAY_MS) / 1000 + 4 * 3600, UTC),
    )


class Crash(BaseException):
    """The driver is gone."""


class CrashingExecutor:
    """Runs the first work unit, then crashes."""

    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        executor().execute(run, units[:1], watch)
        raise Crash


@pytest.mark.parametrize("closes", [False, True])
def test_staged_work_is_adopted_only_where_the_same_labels_are_closed(
    source, tmp_path: Path, *, closes: bool
):
    from dil.cli.main import main

    days = ClosingDays(tmp_path, source, **BESIDE, ms__timelabel__close="manual")
    days.fill(0, 1)
    days.run(2)
    assert main(["timelabels", "close", str(days.path), label(1), "--yes"]) == 0
    forget(days, 0)
    forget(days, 1)
    days.fill(0, 1, rows=4)
    now = START_MS + 2 * DAY_MS
    options = RunOptions(now_ms=now, clock=lambda: now, executor=CrashingExecutor())
    with pytest.raises(Crash):
        run_job(days.job, options)
    if closes:
        close = ["timelabels", "close", str(days.path), label(0), "--force", "--yes"]
        assert main(close) == 0
    assert days.run(2).units.adopted == (0 if closes else 1)
    gone = [0, 1, 2, 3] if closes else []
    assert [row["id"] for row in days.beside()] == [*gone, 100, 101, 102, 103]
    assert days.ids() == [*range(3 if closes else 4), 100, 101, 102]
    assert days.problems() == ()


@pytest.mark.parametrize("table", some_long(["files", "delta"], "delta"))
def test_a_run_killed_anywhere_leaves_the_rows_beside_and_the_labels_of_a_whole_one(
    source, kills: KillServer, tmp_path: Path, table: str
):
    live, base = tmp_path / "job", tmp_path / "before"
    days = ClosingDays(live, source, **BESIDE, ms__table__format=table)
    days.fill(0, 1)
    assert kills.run(days.path, START_MS + 2 * DAY_MS)["exit"] == 0
    forget(days, 0)
    days.fill(0, 2, rows=4)
    shutil.copytree(live, base)

    def published() -> list[int]:
        if table == "delta":
            return sorted(delta_table(live, "shop.orders").to_pyarrow_table()["id"].to_pylist())
        return days.ids()

    def found() -> dict[str, object]:
        assert days.problems() == ()
        return {
            "rows": published(),
            "beside": days.beside(),
            "events": days.events(),
            "closed": days.closed(4),
        }

    third = START_MS + 3 * DAY_MS
    whole = kills.run(days.path, third)
    assert whole["exit"] == 0
    expected = found()
    assert [row["id"] for row in days.beside()] == [0, 1, 2, 3]
    assert expected["closed"] == [0, 1, 2]
    assert expected["rows"] == [0, 1, 2, 100, 101, 102, 200, 201, 202, 203]
    numbers = sorted(set(steps(whole["events"]).values()))
    for number in spread(numbers, KILLS):
        restore(base, live)
        assert kills.run(days.path, third, number)["killed"], f"step {number} was never reached"
        step = f"killed at {number}: {whole['events'][number]}"
        assert kills.run(days.path, third)["exit"] == 0, step
        assert found() == expected, step
