"""Kill -9 between any two statements of a run that loads tables of timelabels, then run again."""

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
from tests.timeseries import (
    KINDS,
    LabelWarehouse,
    label_warehouse,
    labels_of,
    require_whole,
    rows_of,
    rows_of_the_source,
)
from tests.torture.kills import KillServer, restore, spread
from tests.warehouses import kept_copy

FIRST = int(datetime(2020, 1, 4, tzinfo=UTC).timestamp() * 1000)
SECOND = int(datetime(2020, 1, 6, tzinfo=UTC).timestamp() * 1000)
STEP_MS = 40 * 60_000
PER_DAY = DAY_MS // STEP_MS
# The short form kills at this many statements of each path; the long form (make torture) at all.
KILLS = int(os.environ.get("DIL_KILLS", "2"))
STATEMENTS = ("begin", "change", "load", "rows", "commit", "rollback")

PATHS = {
    "tables": {},
    "compacted": {"ms__timeseries__max__partitions": "2"},
}


@pytest.fixture
def warehouse(request, tmp_path):
    (tmp_path / "job").mkdir()
    with label_warehouse(request.param, tmp_path / "job", request) as made:
        yield made


def statements(events: list[str]) -> list[int]:
    """Return the numbers of the calls of a database's connection, and of their returns."""
    return [
        number
        for number, event in enumerate(events)
        if "publishing/warehouse/" in event
        and "_Connection." in event
        and event.rpartition(".")[2] in STATEMENTS
    ]


@pytest.mark.parametrize(
    ("warehouse", "path"),
    all_long_but(
        [(kind, path) for path in PATHS for kind in KINDS],
        ("sqlite", "tables"),
    ),
    indirect=["warehouse"],
)  # fmt: skip
def test_a_run_killed_at_any_statement_and_run_again_has_the_labels_of_the_source(
    path: str, warehouse: LabelWarehouse, kills: KillServer, tmp_path: Path, request
) -> None:
    base, live = tmp_path / "before", tmp_path / "job"
    settings = {
        "ms__warehouse__url": warehouse.url,
        "ms__warehouse__table__kind": "timeseries",
        "ms__timelabel__schedule": "10 0 * * *",
        "ms__timeseries__physical": warehouse.physical,
        "ms__grace__period__days": "2",
        **PATHS[path],
    }
    with HttpServer(Dataset.generate(6 * PER_DAY, units=("a", "b"), step_ms=STEP_MS)) as source:
        job = write_job(live, source.url, **settings)
        assert kills.run(job, FIRST)["exit"] == 0
        assert rows_of(warehouse) == rows_of_the_source(source, START_MS, FIRST)
        source.dataset.extend(late_rows(START_MS + 2 * DAY_MS))
        shutil.copytree(live, base)
        put_back = kept_copy(warehouse, request)

        whole = kills.run(job, SECOND)
        assert whole["exit"] == 0
        expected, labels = rows_of(warehouse), labels_of(warehouse)
        assert expected == rows_of_the_source(source, START_MS, SECOND)
        require_whole(warehouse)

        chosen = statements(whole["events"])
        for at in spread(chosen, KILLS):
            restore(base, live)
            put_back()
            assert kills.run(job, SECOND, at)["killed"], f"statement {at} was never reached"
            step = f"killed at {at}: {whole['events'][at]}"
            assert kills.run(job, SECOND)["exit"] == 0, step
            found = rows_of(warehouse)
            assert found - expected == Counter(), f"doubled, {step}"
            assert expected - found == Counter(), f"lost, {step}"
            assert labels_of(warehouse) == labels, step
            require_whole(warehouse)
