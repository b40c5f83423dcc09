"""Kill -9 at steps of a run that reopens and closes timelabels, then run again: all is the same.

So are the rows that it publishes beside a closed one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dil.model.destination import TableFormat
from dil.publishing.timeseries.registry import LabelState
from tests.closing_days import ClosingDays, label
from tests.marks import all_long_but, some_long
from tests.servers.day_rows import DayRows
from tests.servers.rows import DAY_MS, START_MS
from tests.table_readers import delta_table
from tests.timeseries import labels_of, registry, require_whole
from tests.torture.kills import KillServer, restore, spread, steps
from tests.warehouses import ENGINES, Warehouse, kept_copy, new_warehouse

THIRD = START_MS + 3 * DAY_MS
# The short form kills at this many steps of each destination; the long form (make torture) at all.
KILLS = int(os.environ.get("DIL_KILLS", "6"))
ROOMS = ("publishing/", "state/", "run/commit", "run/closed_labels", "run/recover")


@pytest.fixture
def source() -> Iterator[DayRows]:
    with DayRows() as running:
        yield running


@pytest.fixture
def place(request, tmp_path: Path) -> Iterator[tuple[Warehouse | None, dict[str, str]]]:
    (tmp_path / "job").mkdir()
    if request.param in {"files", "delta"}:
        yield None, {"ms__table__format": request.param}
        return
    with new_warehouse(request.param, tmp_path / "job", request) as made:
        yield (
            made,
            {
                "ms__warehouse__url": made.url,
                "ms__warehouse__table__kind": "timeseries",
                "ms__publish__mode": "",
            },
        )


def found_in(days: ClosingDays, warehouse: Warehouse | None) -> dict[str, object]:
    """Return rows, labels and chain, as readers and operators see them."""
    is_delta = days.job.publishing.table.format is TableFormat.DELTA
    rows: object = days.ids()
    if is_delta:
        rows = sorted(delta_table(days.folder, "shop.orders").to_pyarrow_table()["id"].to_pylist())
    labels: object = None
    if warehouse is not None:
        prefix = warehouse.prefix
        rows = sorted(warehouse.rows(f"SELECT _timelabel, id FROM {prefix}orders_view"))
        labels = labels_of(warehouse)
        if days.job.publishing.has_side_table:
            late = sorted(warehouse.rows(f"SELECT id FROM {prefix}orders_late"))
            assert late == [(row["id"],) for row in days.beside()]
        require_whole(warehouse, *["orders_late"] * days.job.publishing.has_side_table)
    assert days.problems() == ()
    closed = days.closed_labels()
    return {
        "rows": rows,
        "beside": days.beside(),
        "labels": labels,
        "events": days.events(),
        "closed": list(closed.stretches),
        "reopened": dict(closed.reopened),
    }


@pytest.mark.parametrize(
    "place", all_long_but(["files", "delta", "sqlite", "postgresql"], "sqlite"), indirect=True
)
def test_a_run_killed_while_it_closes_and_reopens_leaves_the_labels_of_a_whole_one(
    place, source, kills: KillServer, tmp_path: Path, request
):
    warehouse, settings = place
    live, base = tmp_path / "job", tmp_path / "before"
    settings = {**settings, "ms__late__after__close": "reopen"}
    days = ClosingDays(live, source, **settings)
    days.fill(0, 1, 2)
    assert kills.run(days.path, START_MS + 2 * DAY_MS)["exit"] == 0
    assert days.closed(3) == [0, 1]
    forget_first(days)
    days.fill(0, rows=4)
    shutil.copytree(live, base)
    put_back = kept_copy(warehouse, request) if warehouse else lambda: None

    whole = kills.run(days.path, THIRD)
    assert whole["exit"] == 0
    expected = found_in(days, warehouse)
    assert expected["events"][-4:] == [
        f"ReopenBooks {label(0)}",
        "AddData",
        f"CloseBooks {label(0)}",
        f"CloseBooks {label(2)}",
    ]
    if warehouse is not None:
        assert labels_of(warehouse) == {
            label(0): ("CLOSED", 4),
            label(1): ("CLOSED", 3),
            label(2): ("CLOSED", 3),
        }

    kill_and_repeat(kills, days, whole, warehouse, base, put_back, expected)


@pytest.mark.parametrize("is_alone", some_long([False, True], True))
@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_a_run_killed_while_it_publishes_beside_a_closed_label_leaves_the_rows_of_a_whole_one(
    place, source, kills: KillServer, tmp_path: Path, request, *, is_alone: bool
):
    """Rows for the closed label come alone, or with those of a day that is closed by the run."""
    warehouse, settings = place
    live, base = tmp_path / "job", tmp_path / "before"
    days = ClosingDays(live, source, **{**settings, "ms__late__after__close": "side_table"})
    days.fill(0, 1)
    assert kills.run(days.path, START_MS + 2 * DAY_MS)["exit"] == 0
    forget_first(days)
    days.fill(0, rows=4)
    if not is_alone:
        days.fill(2)
    shutil.copytree(live, base)
    put_back = kept_copy(warehouse, request)

    whole = kills.run(days.path, THIRD)
    assert whole["exit"] == 0
    expected = found_in(days, warehouse)
    assert [row["id"] for row in days.beside()] == [0, 1, 2, 3]
    assert expected["events"][-2:] == ["AddData", f"CloseBooks {label(2)}"]
    assert labels_of(warehouse) == {
        label(0): ("CLOSED", 3),
        label(1): ("CLOSED", 3),
        label(2): ("CLOSED", 0 if is_alone else 3),
    }
    kill_and_repeat(kills, days, whole, warehouse, base, put_back, expected)


def forget_first(days: ClosingDays) -> None:
    """Make the first day as if it had never been read, and keep its rows."""
    from dil.cli.main import main

    words = ["--from", "2020-01-01", "--to", "2020-01-01T12:00:00Z", "--keep-files", "--yes"]
    assert main(["state", "forget", str(days.path), *words]) == 0


def kill_and_repeat(
    kills: KillServer,
    days: ClosingDays,
    whole: Mapping[str, Any],
    warehouse: Warehouse | None,
    base: Path,
    put_back: Callable[[], None],
    expected: Mapping[str, object],
) -> None:
    """Kill a run at steps of it, run it again, and look whether all is as after a whole one."""
    numbers = steps(whole["events"])
    chosen = sorted({at for step, at in numbers.items() if any(room in step for room in ROOMS)})
    for at in spread(chosen, KILLS):
        restore(base, days.folder)
        put_back()
        assert kills.run(days.path, THIRD, at)["killed"], f"step {at} was never reached"
        step = f"killed at {at}: {whole['events'][at]}"
        assert kills.run(days.path, THIRD)["exit"] == 0, step
        assert found_in(days, warehouse) == expected, step


@pytest.mark.parametrize("place", some_long(ENGINES, "duckdb"), indirect=True)
def test_the_registry_says_when_a_label_was_closed_and_which_is_open_again(
    place, source, tmp_path: Path
):
    from dil.cli.main import main

    warehouse, settings = place
    days = ClosingDays(tmp_path / "job", source, **settings)
    days.fill(0, 1)
    days.run(2)
    prefix = warehouse.prefix
    at = warehouse.rows(f"SELECT closed_at FROM {prefix}timelabel_registry ORDER BY timelabel")
    assert at == [(START_MS + 2 * DAY_MS,)] * 2
    assert {state for _, state, _, _ in registry(warehouse)} == {LabelState.CLOSED}
    assert main(["timelabels", "reopen", str(days.path), label(0), "--yes"]) == 0
    assert [state for _, state, _, _ in registry(warehouse)] == ["REOPENED", "CLOSED"]
    assert days.closed(3) == [1]
    assert main(["state", "undo", str(days.path), "--yes"]) == 0
    assert [state for _, state, _, _ in registry(warehouse)] == ["CLOSED", "CLOSED"]


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_what_the_registry_could_not_be_told_is_made_up_for_by_the_next_run(
    place, source, tmp_path: Path, monkeypatch
):
    from dil.errors import WriteError

    warehouse, settings = place
    days = ClosingDays(tmp_path / "job", source, **settings)
    days.fill(0, 1)

    def refused(*_: object) -> None:
        raise WriteError("the database is away", "Start it.")

    monkeypatch.setattr("dil.publishing.closed_labels.mark_labels", refused)
    days.run(2)
    assert [state for _, state, _, _ in registry(warehouse)] == ["LOADED", "LOADED"]
    monkeypatch.undo()
    days.run(2)
    assert [state for _, state, _, _ in registry(warehouse)] == ["CLOSED", "CLOSED"]
