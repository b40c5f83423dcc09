"""Kill -9 between any two steps of a publish to a table, then run again: the table is as if not.

Tasks run in the driver's process, as in test_kill_matrix.py; what is killed here are the steps of
publishing, because all others are the same for plain files.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.jobs import SCHEMA, write_job
from tests.marks import all_long_but
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS, START_MS, Dataset, late_rows
from tests.table_readers import FORMATS, files_of, ids, listed_files, rows_of
from tests.torture.kills import KillServer, restore, spread, steps

TABLE_SERVER = Path(__file__).parents[1] / "torture" / "table_kill_server.py"
FIRST = int(datetime(2020, 1, 3, tzinfo=UTC).timestamp() * 1000)
SECOND = int(datetime(2020, 1, 5, tzinfo=UTC).timestamp() * 1000)
STEP_MS = 120 * 60_000
PER_DAY = DAY_MS // STEP_MS
# The short form kills at this many steps of each path; the long form (make torture) at all.
KILLS = int(os.environ.get("DIL_KILLS", "3"))
PUBLISHING = ("table_", "delta", "iceberg", "publisher", "manifest", "destination")

WIDER = [*SCHEMA, {"columnName": "extra", "isNullable": True, "dataType": {"type": "string"}}]


@dataclass(frozen=True)
class Way:
    """A way to publish; ``then`` are the properties that change after the first run."""

    settings: dict[str, str] = field(default_factory=dict)
    then: dict[str, str] = field(default_factory=dict)
    is_first: bool = False
    rereads: bool = False


PATHS = {
    "a new table": Way(is_first=True),
    "append, with a new column": Way(then={"ms__output__schema": json.dumps(WIDER)}),
    "replace": Way({"ms__publish__mode": "replace"}, rereads=True),
    "window replace, in partitions": Way(
        {
            "ms__publish__mode": "window_replace",
            "ms__grace__period__days": "2",
            "ms__table__partition__fields": "unit",
        },
        rereads=True,
    ),
}


@pytest.fixture(scope="module")
def kills():
    with KillServer(TABLE_SERVER) as server:
        yield server


def publishing_steps(events) -> list[int]:
    chosen = {
        number
        for name, number in steps(events).items()
        if f"publishing/{name.partition('publishing/')[2]}".startswith(
            tuple(f"publishing/{module}" for module in PUBLISHING)
        )
    }
    return sorted(chosen)


@pytest.mark.parametrize(
    ("kind", "path"),
    all_long_but(
        itertools.product(FORMATS, PATHS),
        ("delta", "a new table"),
        ("iceberg", "append, with a new column"),
    ),
)
def test_a_publish_killed_at_any_step_is_finished_by_the_next_run(kind, path, tmp_path, kills):
    chosen = PATHS[path]
    settings = {"ms__table__format": kind, **chosen.settings}
    base, live = tmp_path / "before", tmp_path / "job"
    with HttpServer(Dataset.generate(5 * PER_DAY, units=("a", "b"), step_ms=STEP_MS)) as source:
        job = write_job(live, source.url, **settings)
        if not chosen.is_first:
            assert kills.run(job, FIRST)["exit"] == 0
            assert ids(rows_of(kind, live)) == source.dataset.ids(FIRST)
            write_job(live, source.url, **settings, **chosen.then)
        if chosen.rereads:
            source.dataset.extend(late_rows(START_MS + DAY_MS, count=3))
        shutil.copytree(live, base)

        whole = kills.run(job, SECOND)
        assert whole["exit"] == 0
        expected = source.dataset.ids(SECOND)
        assert ids(rows_of(kind, live)) == expected

        numbers = publishing_steps(whole["events"])
        assert len(numbers) > 20
        for at in spread(numbers, KILLS):
            restore(base, live)
            assert kills.run(job, SECOND, at)["killed"], f"step {at} was never reached"
            step = f"killed at {at}: {whole['events'][at]}"
            assert kills.run(job, SECOND)["exit"] == 0, step
            found = ids(rows_of(kind, live))
            assert found - expected == Counter(), f"doubled, {step}"
            assert expected - found == Counter(), f"lost, {step}"
            assert listed_files(live) == files_of(kind, live), step
