"""Kill -9 between any two steps of a compaction: no row is lost, none is there twice."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.jobs import manifest_files, published_ids, visible_files, write_job
from tests.marks import some_long
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS, Dataset
from tests.table_readers import files_of, ids, rows_of
from tests.torture.kills import KillServer, restore, spread, steps

SERVER = Path(__file__).parents[1] / "torture" / "compact_kill_server.py"
FIRST = int(datetime(2020, 1, 4, tzinfo=UTC).timestamp() * 1000)
SECOND = int(datetime(2020, 1, 6, tzinfo=UTC).timestamp() * 1000)
THIRD = int(datetime(2020, 1, 7, tzinfo=UTC).timestamp() * 1000)
STEP_MS = 240 * 60_000
PER_DAY = DAY_MS // STEP_MS
# The short form kills at this many steps of each path; the long form (make torture) at all.
KILLS = int(os.environ.get("DIL_KILLS", "3"))
PATHS = {
    "files": ("files", {}),
    "files apart": ("files", {"ms__table__partition__fields": "unit"}),
    "shared files": ("files", {"ms__output__file__per__work__unit": "false"}),
    "windows": ("files", {"ms__publish__mode": "window_replace"}),
    "delta": ("delta", {"ms__publish__mode": "append"}),
    "iceberg": ("iceberg", {"ms__publish__mode": "append", "ms__table__partition__fields": "unit"}),
}


@pytest.fixture(scope="module")
def kills():
    with KillServer(SERVER) as server:
        yield server


def source_ids(days: int) -> Counter:
    return Counter((unit, number) for unit in "ab" for number in range(days * PER_DAY))


class Job:
    """A job of one path, whose dataset is looked at past ``dil``."""

    def __init__(self, path, folder, url):
        self.kind, settings = PATHS[path]
        self.folder = folder
        self.staging = folder / "lake" / "_staging"
        self.is_apart = self.kind == "files" and "ms__table__partition__fields" in settings
        self.file = write_job(folder, url, ms__table__format=self.kind, **settings)
        vacuum = None if self.kind == "files" else 0
        self.compaction = {
            "job": str(self.file),
            "compact": {"target": 20_000, "vacuum": vacuum},
        }

    def rows(self) -> Counter:
        if self.is_apart:
            found: Counter = Counter()
            for file in self.files():
                unit = file.parent.name.removeprefix("unit=")
                table = pq.ParquetFile(file).read(["id"])
                found.update((unit, number) for number in table["id"].to_pylist())
            return found
        if self.kind == "files":
            return published_ids(self.files())
        return ids(rows_of(self.kind, self.folder))

    def files(self) -> list[Path]:
        if self.kind == "files":
            return visible_files(self.folder)
        return files_of(self.kind, self.folder)

    def listed(self) -> list[Path]:
        return [Path(str(file).replace("%3D", "=")) for file in manifest_files(self.folder)]


@pytest.mark.parametrize("path", some_long(PATHS, "files apart", "windows", "delta"))
def test_a_compaction_killed_at_any_step_keeps_every_row_once(path, tmp_path, kills):
    base, live = tmp_path / "before", tmp_path / "job"
    with HttpServer(Dataset.generate(7 * PER_DAY, units=("a", "b"), step_ms=STEP_MS)) as source:
        job = Job(path, live, source.url)
        for now in (FIRST, SECOND):
            assert kills.run(job.file, now)["exit"] == 0
        assert job.rows() == source_ids(5)
        before = len(job.files())
        shutil.copytree(live, base)

        whole = kills.order(**job.compaction, at=-1)
        assert whole["exit"] == 0
        assert job.rows() == source_ids(5)
        after = len(job.files())
        assert after < before

        chosen = sorted(set(steps(whole["events"]).values()))
        assert len(chosen) > 50
        for number, at in enumerate(spread(chosen, KILLS)):
            restore(base, live)
            assert kills.order(**job.compaction, at=at)["killed"], f"step {at} was never reached"
            step = f"killed at {at}: {whole['events'][at]}"
            # The next compaction finishes it, or the next run.
            is_run = number % 2 == 0
            again = {"job": str(job.file), "now": THIRD} if is_run else job.compaction
            assert kills.order(**again, at=-1)["exit"] == 0, step
            assert job.rows() == source_ids(6 if is_run else 5), step
            assert job.listed() == job.files(), step
            assert [path for path in job.staging.rglob("*") if path.is_file()] == [], step
            # Files that the killed one put in place may be small enough to be put together again.
            assert is_run or len(job.files()) <= after, step
