"""Kill -9 inside a work unit, then go on: every row once, no page read twice but the last.

Real processes walk sixty cursor pages of a real HTTP server; progress is kept after every page.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dil.publishing.staged import read_results
from dil.storage import LocalFilesystem
from tests.jobs import write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import START_MS, Dataset
from tests.torture.kills import PAGE_SERVER, KillServer

PAGES, PAGE_ROWS, STEP_MS = 60, 5, 60_000
HIGH = START_MS + PAGES * PAGE_ROWS * STEP_MS
KILLS = int(os.environ.get("DIL_KILLS", "20")) // 4


class Runs:
    """Runs of one work unit that follow each other; each may be killed at a call of its own."""

    def __init__(self, folder: Path, source: HttpServer, kills: KillServer) -> None:
        self._folder = folder / "lake"
        self._kills = kills
        self._source = source
        parameters = [
            {"name": "unit"},
            {"name": "cursor", "type": "session"},
            {"name": "limit", "type": "primitive", "value": PAGE_ROWS},
        ]
        self._job = write_job(
            folder,
            source.url,
            ms__parameters=json.dumps(parameters),
            ms__state__cursor__commit="page",
            ms__state__cursor__commit__seconds="0",
        )

    def begin(self) -> None:
        """Forget earlier runs, and what was asked of the source."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._source.state.log.clear()

    def staged(self, number: int) -> str:
        return str(self._folder / "_staging" / "orders" / f"r{number}")

    def run(self, number: int, at: int = -1) -> dict:
        """Run, and go on from what the runs before left."""
        return self._kills.order(
            job=str(self._job),
            low=START_MS,
            high=HIGH,
            staging=self.staged(number),
            run_id=f"r{number}",
            earlier=[self.staged(before) for before in range(number)],
            at=at,
        )

    def is_complete(self, number: int) -> bool:
        """Tell whether a killed run had come to its end; the next run adopts that."""
        return bool(list(read_results(LocalFilesystem(), self.staged(number))))

    def files(self, number: int) -> list[str]:
        (result,) = read_results(LocalFilesystem(), self.staged(number))
        return [file.path for file in result.report.files]

    @property
    def requests(self) -> int:
        return self._source.count("/records")


@pytest.fixture
def runs(tmp_path):
    rows = Dataset.generate(PAGES * PAGE_ROWS, units=("a",), step_ms=STEP_MS)
    with HttpServer(rows) as source, KillServer(PAGE_SERVER) as kills:
        yield Runs(tmp_path, source, kills)


def ids(files: list[str]) -> list[int]:
    return [number for file in files for number in pq.read_table(file)["id"].to_pylist()]


def test_a_work_unit_killed_at_any_call_goes_on_in_the_next_run(runs):
    runs.begin()
    whole = runs.run(0)
    assert (whole["failure"], runs.requests) == (None, PAGES)
    assert ids(whole["files"]) == list(range(PAGES * PAGE_ROWS))

    chance = random.Random(20260101)
    points = [*range(0, 40, 16), *chance.sample(range(whole["events"]), KILLS)]
    points += [whole["events"] - 1 - back for back in range(0, 60, 12)]
    for at in sorted(points):
        runs.begin()
        assert runs.run(0, at)["killed"], at
        if runs.is_complete(0):
            assert ids(runs.files(0)) == list(range(PAGES * PAGE_ROWS)), at
            continue
        report = runs.run(1)
        assert report["failure"] is None, at
        assert ids(report["files"]) == list(range(PAGES * PAGE_ROWS)), at
        assert PAGES <= runs.requests <= PAGES + 1, at


def test_a_work_unit_killed_again_and_again_comes_to_its_end(runs):
    runs.begin()
    calls = runs.run(0)["events"]
    for seed in range(max(1, KILLS // 8)):
        chance = random.Random(seed)
        runs.begin()
        number = 0
        # Later runs have less to do, so some of these kills come too late.
        while number < 12 and runs.run(number, chance.randrange(calls // 3))["killed"]:
            if runs.is_complete(number):
                break
            number += 1
        else:
            if number == 12:
                runs.run(number)
        files = runs.files(number)
        assert ids(files) == list(range(PAGES * PAGE_ROWS)), seed
        assert PAGES <= runs.requests <= PAGES + number + 1, seed


def test_a_work_unit_that_is_run_again_under_the_same_run_id_goes_on_too(runs):
    runs.begin()
    calls = runs.run(0)["events"]
    for at in (calls // 3, calls // 2, calls * 9 // 10):
        runs.begin()
        assert runs.run(0, at)["killed"]
        report = runs.run(0)
        assert ids(report["files"]) == list(range(PAGES * PAGE_ROWS)), at
        assert PAGES <= runs.requests <= PAGES + 1, at
