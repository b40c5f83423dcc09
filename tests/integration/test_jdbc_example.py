"""The example of conf/examples/database, as its own script makes its database."""

from __future__ import annotations

import runpy
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dil import config
from dil.model.report import RunReport
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from tests.jobs import visible_files
from tests.stories import executor

FOLDER = Path(__file__).parents[2] / "conf/examples/database"
DAY = 86_400_000
NOON = 1_714_780_800_000 + DAY // 2  # 2024-05-04T12:00:00Z


def run(folder: Path, now: int, run_id: str) -> RunReport:
    moved = {
        "ms.source.uri": f"jdbc:duckdb:{folder}/orders.duckdb",
        "data.publisher.final.dir": str(folder / "lake"),
        "state.store.dir": str(folder / "state"),
    }
    job = config.load(FOLDER / "orders.conf", environ={}, overrides=moved).job
    options = RunOptions(now_ms=now, clock=lambda: now, executor=executor(), run_id=run_id)
    return run_job(job, options)


def test_the_example_reads_each_order_once(tmp_path: Path) -> None:
    runpy.run_path(str(FOLDER / "make_database.py"))["make"](tmp_path / "orders.duckdb")
    assert run(tmp_path, NOON - DAY, "run-1").rows == 2000
    assert run(tmp_path, NOON, "run-2").rows == 1000
    assert run(tmp_path, NOON, "run-3").rows == 0
    table = pa.concat_tables([pq.read_table(path) for path in visible_files(tmp_path)])
    assert sorted(table.column("id").to_pylist()) == list(range(3000))
    assert table.schema.field("amount").type == pa.decimal128(12, 2)
    assert table.schema.field("updated").type == pa.timestamp("us", tz="UTC")
