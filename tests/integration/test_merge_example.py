"""The job of conf/examples/merge, run in this process day by day and all at once."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dil import config
from dil.model.report import RunStatus
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from tests.jobs import ROOT, visible_files
from tests.stories import executor

EXAMPLE = ROOT / "conf" / "examples" / "merge" / "customers.conf"
DAY_MS = 86_400_000
SECOND_OF_MARCH_MS = 1_709_337_600_000


@pytest.mark.parametrize("days", [(1, 2, 3), (3,)])
def test_the_newest_state_of_each_customer_is_there_once(
    tmp_path: Path, days: tuple[int, ...]
) -> None:
    places = {"data.publisher.final.dir": tmp_path / "lake", "state.store.dir": tmp_path / "state"}
    job = config.load(EXAMPLE, overrides={k: str(v) for k, v in places.items()}, environ={}).job
    for day in days:
        now = SECOND_OF_MARCH_MS + (day - 1) * DAY_MS
        options = RunOptions(now, lambda now=now: now, executor=executor(), run_id=f"r{day}")
        assert run_job(job, options).status is RunStatus.SUCCESS

    table = pa.concat_tables(map(pq.read_table, visible_files(tmp_path)))
    assert sorted(zip(*(table[name].to_pylist() for name in ("id", "city")), strict=True)) == [
        (2, "Arlington"),
        (3, "Nuenen"),
        (4, "Los Angeles"),
    ]
