"""Kill -9 between any two steps of a publish to a table in a bucket, then run again.

What is killed are the steps of publishing and of the bucket's filesystem; test_table_kills.py is
about all ways to publish.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.s3_places import Bucket, use
from tests.integration.s3_tables import BucketTable
from tests.jobs import write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset, generated_row
from tests.servers.s3 import MotoServer
from tests.stories import STEP_MS, day, ids_of
from tests.table_readers import FORMATS
from tests.torture.kills import KillServer, restore, steps

pytestmark = pytest.mark.long

SERVER = Path(__file__).parents[1] / "torture" / "compact_kill_server.py"
# The short form kills at this many steps of each path; the long form (make torture) at all.
KILLS = int(os.environ.get("DIL_KILLS", "2"))
PUBLISHING = ("table_", "delta", "iceberg", "publisher", "manifest", "destination")
APPEND = {"ms__publish__mode": "append"}
WINDOW = {"ms__publish__mode": "window_replace", "ms__grace__period__days": "2"}
PATHS = {"append to delta": ("delta", APPEND), "window replace in iceberg": ("iceberg", WINDOW)}


@pytest.fixture(scope="module")
def moto():
    with MotoServer() as server, pytest.MonkeyPatch.context() as patch:
        use(server.url, patch)
        yield server


@pytest.fixture(scope="module")
def kills(moto):
    with KillServer(SERVER) as server:
        yield server


def chosen(events, *modules):
    """Return the steps at which to kill: of all of these modules, or some evenly spread.

    The first is left out of those: nothing happened by then.
    """
    numbers = sorted(
        {n for name, n in steps(events).items() if name.split()[-1].startswith(modules)}
    )
    assert len(numbers) > 20
    every = max(1, len(numbers) // KILLS)
    return numbers[every // 2 :: every]


@pytest.mark.parametrize("path", PATHS)
def test_a_publish_killed_at_any_step_is_finished_by_the_next_run(path, tmp_path, moto, kills):
    kind, mode = PATHS[path]
    bucket, here, backup = Bucket(moto), tmp_path / "job", tmp_path / "before"
    place = f"{bucket.uri}/lake"
    table = BucketTable(kind, bucket, here, moto.url)
    with HttpServer(Dataset.generate(12, units=("a", "b"), step_ms=STEP_MS)) as source:
        job = write_job(
            here, source.url, ms__table__format=kind, data__publisher__final__dir=place,
            **mode,
        )  # fmt: skip
        assert kills.run(job, day(1))["exit"] == 0
        expected = ids_of("a", "b", days=range(2))
        if mode is not APPEND:
            source.dataset.extend([generated_row("a", 100_000, day(0) + 1000)])
            expected["a", 100_000] = 1
        objects = bucket.objects()
        shutil.copytree(here, backup)
        whole = kills.run(job, day(2))
        assert whole["exit"] == 0
        assert table.ids() == expected

        modules = tuple(f"publishing/{each}" for each in PUBLISHING)
        for at in chosen(whole["events"], *modules, "storage/s3/filesystem"):
            bucket.restore(objects)
            restore(backup, here)
            assert kills.run(job, day(2), at)["killed"], f"step {at} was never reached"
            step = f"killed at {at}: {whole['events'][at]}"
            assert kills.run(job, day(2))["exit"] == 0, step
            found = table.ids()
            assert found - expected == Counter(), f"doubled, {step}"
            assert expected - found == Counter(), f"lost, {step}"
            assert table.listed() == table.files(), step


@pytest.mark.parametrize("kind", FORMATS)
def test_a_compaction_killed_at_any_step_and_run_again_keeps_every_row(kind, tmp_path, moto, kills):
    bucket, here, backup = Bucket(moto), tmp_path / "job", tmp_path / "before"
    place = f"{bucket.uri}/lake"
    table = BucketTable(kind, bucket, here, moto.url)
    with HttpServer(Dataset.generate(12, units=("a", "b"), step_ms=STEP_MS)) as source:
        job = write_job(
            here, source.url, ms__table__format=kind, data__publisher__final__dir=place,
            ms__publish__mode="append",
        )  # fmt: skip
        assert kills.run(job, day(2))["exit"] == 0
        expected = ids_of("a", "b", days=range(2))
        order = {"job": str(job), "compact": {"target": 1 << 20, "vacuum": 0}}
        objects = bucket.objects()
        shutil.copytree(here, backup)
        whole = kills.order(**order, at=-1)
        assert whole["exit"] == 0
        assert (table.ids(), table.stored()) == (expected, table.files())

        for at in chosen(whole["events"], "compaction", "publishing/"):
            bucket.restore(objects)
            restore(backup, here)
            assert kills.order(**order, at=at)["killed"], f"step {at} was never reached"
            step = f"killed at {at}: {whole['events'][at]}"
            assert table.ids() == expected, step
            assert kills.order(**order, at=-1)["exit"] == 0, step
            assert table.ids() == expected, step
            assert table.listed() == table.files(), step
            assert table.stored() == table.files(), step
