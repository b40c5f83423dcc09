"""Kill -9 a task that has several work units, at any step, then let Spark run it again.

What is durable by then is whole, and is not read again; the rest is. No row is lost or doubled.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dil.publishing.staged import read_results
from dil.storage import LocalFilesystem
from tests.jobs import write_job
from tests.marks import some_long
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS, Dataset
from tests.torture.kills import GROUP_SERVER, KillServer, spread

# The short form kills at a few steps; the long form (make torture) at more.
KILLS = int(os.environ.get("DIL_KILLS", "6"))
DAYS = 6
PER_DAY = 4


def ids(files: list[str]) -> list[int]:
    """Return the ids in Parquet files."""
    return [row for file in files for row in pq.read_table(file)["id"].to_pylist()]


@pytest.mark.parametrize("lanes", some_long([1, 3], 1))
def test_a_task_that_is_killed_and_run_again_has_every_row_of_its_work_units_once(
    lanes: int, tmp_path: Path
) -> None:
    staging = tmp_path / "staging"
    dataset = Dataset.generate(DAYS * PER_DAY, units=("a",), step_ms=DAY_MS // PER_DAY)
    expected = {
        f"day {day}": list(range(day * PER_DAY, (day + 1) * PER_DAY)) for day in range(DAYS)
    }
    with HttpServer(dataset) as source, KillServer(GROUP_SERVER) as kills:
        order = {
            "job": str(write_job(tmp_path, source.url)),
            "days": DAYS,
            "lanes": lanes,
            "staging": str(staging),
            "is_repeated": False,
        }
        whole = kills.order(**order, at=-1)
        assert whole["failures"] == []
        assert {name: ids(files) for name, files in whole["files"].items()} == expected

        found_some = 0
        steps = spread(range(whole["events"]), KILLS)
        # Quick work units are durable at the end of the task: its last step is among them.
        for at in sorted({*steps, whole["events"] - 1}):
            shutil.rmtree(staging)
            kills.order(**order, at=at)
            durable = list(read_results(LocalFilesystem(), str(staging)))
            found_some += bool(durable)
            for result in durable:
                files = [file.path for file in result.report.files]
                assert ids(files) == expected[result.work_unit.signature], f"killed at {at}"
            source.settle()
            asked = len(source.requests)

            again = kills.order(**{**order, "is_repeated": True}, at=-1)

            assert again["failures"] == []
            assert {name: ids(files) for name, files in again["files"].items()} == expected
            assert len(source.requests) - asked == DAYS - len(durable), f"killed at {at}"
    assert found_some
