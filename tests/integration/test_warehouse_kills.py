"""Kill -9 between any two steps of a run that loads a database, then run again."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.jobs import write_job
from tests.marks import all_long_but
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS, START_MS, Dataset, late_rows
from tests.torture.kills import KillServer, restore, spread, steps
from tests.warehouses import ENGINES, Warehouse, kept_copy, new_warehouse

FIRST = int(datetime(2020, 1, 4, tzinfo=UTC).timestamp() * 1000)
SECOND = int(datetime(2020, 1, 6, tzinfo=UTC).timestamp() * 1000)
STEP_MS = 40 * 60_000
PER_DAY = DAY_MS // STEP_MS
# The short form kills at this many steps of every other path; the long form (make torture) at all.
SHORT = 2
KILLS = int(os.environ.get("DIL_KILLS", SHORT))

PATHS = {
    "insert": {"ms__warehouse__operation": "insert"},
    "replace": {"ms__warehouse__operation": "replace"},
    "window replace": {"ms__publish__mode": "window_replace", "ms__grace__period__days": "2"},
    "upsert": {
        "ms__warehouse__operation": "upsert",
        "extract__primary__key__fields": "unit,id",
        "extract__delta__fields": "updated_ms",
        "ms__grace__period__days": "2",
    },
}
CASES = [
    (engine, path)
    for row, engine in enumerate(ENGINES)
    for column, path in enumerate(PATHS)
    if KILLS > SHORT or (row + column) % 2 == 0
]


@pytest.fixture
def warehouse(request, tmp_path):
    (tmp_path / "job").mkdir()
    with new_warehouse(request.param, tmp_path / "job", request) as made:
        yield made


def loaded_ids(warehouse: Warehouse) -> Counter:
    return Counter(warehouse.rows(f"SELECT unit, id FROM {warehouse.prefix}orders"))


@pytest.mark.parametrize(
    ("warehouse", "path"),
    all_long_but(CASES, ("postgresql", "insert"), ("mysql", "upsert"), ("sqlite", "upsert")),
    indirect=["warehouse"],
)
def test_a_run_killed_at_any_step_and_run_again_loads_exactly_the_source(
    path: str, warehouse: Warehouse, kills: KillServer, tmp_path: Path, request
) -> None:
    base, live = tmp_path / "before", tmp_path / "job"
    with HttpServer(Dataset.generate(6 * PER_DAY, units=("a", "b"), step_ms=STEP_MS)) as source:
        job = write_job(live, source.url, ms__warehouse__url=warehouse.url, **PATHS[path])
        assert kills.run(job, FIRST)["exit"] == 0
        assert loaded_ids(warehouse) == source.dataset.ids(FIRST)
        if path != "insert":
            source.dataset.extend(late_rows(START_MS + 2 * DAY_MS))
        shutil.copytree(live, base)
        put_back = kept_copy(warehouse, request)

        whole = kills.run(job, SECOND)
        assert whole["exit"] == 0
        expected = source.dataset.ids(SECOND)
        assert loaded_ids(warehouse) == expected

        chosen = sorted(set(steps(whole["events"]).values()))
        # Most steps are of planning and state; those of publishing are where they may go wrong.
        chosen = [at for at in chosen if " publishing/" in whole["events"][at]]
        for at in spread(chosen, KILLS):
            restore(base, live)
            put_back()
            assert kills.run(job, SECOND, at)["killed"], f"step {at} was never reached"
            step = f"killed at {at}: {whole['events'][at]}"
            assert kills.run(job, SECOND)["exit"] == 0, step
            found = loaded_ids(warehouse)
            assert found - expected == Counter(), f"doubled, {step}"
            assert expected - found == Counter(), f"lost, {step}"
            runs = warehouse.rows(f"SELECT run_id FROM {warehouse.prefix}dil_commit")
            assert len(runs) == len(set(runs)), f"recorded twice, {step}"
