"""A chain of three datasets, from an HTTP source, through many commits of which some give rows."""

from __future__ import annotations

import json
import os
from collections import Counter

import pyarrow.parquet as pq
import pytest

from dil import config
from dil.cli.main import main
from dil.operator.lineage import Tracer
from dil.operator.replaying import ReplayOutcome, replay
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.run.queries.slices import input_chains, plan_slices
from dil.state import open_store
from dil.state.blocks.verification import verify_chain
from dil.testing.in_process import InProcessExecutor
from tests.jobs import write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import STEP_MS, day
from tests.unit.state.derived_store import counted_bodies

# make torture: DIL_COMMITS=500.
COMMITS = int(os.environ.get("DIL_COMMITS", "24"))
EVERY = COMMITS // 12 or 1
# Four rows of each unit come each day: one of them passes every so many days.
RARE = f"SELECT id, unit, amount FROM orders WHERE unit = 'a' AND id % {4 * EVERY} = 0"
_OUTPUT = {
    "extract.namespace": "shop",
    "ms.timezone": "UTC",
    "writer.output.format": "PARQUET",
    "writer.file.path.type": "namespace_table",
}


def derived(folder, name, source, sql, **changes):
    found = {
        "job.name": name,
        "extract.table.name": name,
        **_OUTPUT,
        "data.publisher.final.dir": str(folder / "lake"),
        "state.store.dir": str(folder / "state"),
        "ms.query.inputs": json.dumps([{"job": f"{source}.conf", "as": source}]),
        "ms.query.sql": sql,
        **{key.replace("__", "."): text for key, text in changes.items()},
    }
    path = folder / f"{name}.conf"
    path.write_text("".join(f"{key}={text}\n" for key, text in found.items()))
    return path


def job_of(path):
    return config.load(path, environ={}).job


def options(now):
    return RunOptions(now_ms=now, clock=lambda: now, executor=InProcessExecutor())


def files_of(folder, name):
    return sorted((folder / "lake" / "shop" / name).rglob("part-*.parquet"))


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """Run the three jobs each day."""
    folder = tmp_path_factory.mktemp("chain")
    with HttpServer(Dataset.generate(COMMITS * 4, units=("a", "b"), step_ms=STEP_MS)) as source:
        paths = [
            write_job(folder, source.url),
            derived(folder, "rare", "orders", RARE),
            derived(
                folder,
                "totals",
                "rare",
                "SELECT unit, count(*) AS rows FROM rare GROUP BY unit",
                ms__query__mode="full",
            ),
        ]
        jobs = [job_of(path) for path in paths]
        for number in range(1, COMMITS + 1):
            for job in jobs:
                assert run_job(job, options(day(number))).exit_code == 0
    return folder, jobs


def test_the_chain_holds_what_its_queries_make_of_the_source(chain):
    folder, _ = chain
    ids = Counter(
        number
        for file in files_of(folder, "rare")
        for number in pq.read_table(file)["id"].to_pylist()
    )
    assert ids == Counter(range(0, COMMITS * 4, 4 * EVERY))
    (total,) = files_of(folder, "totals")
    assert pq.read_table(total).to_pylist() == [{"unit": "a", "rows": len(ids)}]


def test_planning_reads_one_block_of_its_own_and_of_each_input(chain):
    _, jobs = chain
    with counted_bodies() as bodies:
        for job in jobs[1:]:
            assert plan_slices(job, job.query, lambda: day(COMMITS)).step is None
    # Totals also looks which query it had: of the mode full a changed one is due by itself.
    assert bodies == {"orders": 1, "rare": 2, "totals": 2}


def test_the_chains_are_sound_and_their_queries_give_the_same_again(chain):
    _, jobs = chain
    for job in jobs[1:]:
        with (
            open_store(job.state, job.name, clock=lambda: day(COMMITS)) as store,
            input_chains(job.query, lambda: day(COMMITS)) as inputs,
        ):
            assert verify_chain(store, chains=inputs).problems == ()
            found = list(replay(job, job.query, store, options(day(COMMITS))))
        assert [each for each in found if each.outcome is not ReplayOutcome.SAME] == []
        assert len(found) == COMMITS


def test_a_row_leads_to_the_requests_of_its_day(chain):
    _, jobs = chain
    tracer = Tracer(jobs[1], lambda: day(COMMITS), job_of)
    (block,) = tracer.row(f"id={4 * EVERY}")
    (root,) = block.inputs[0].blocks
    (unit,) = (each for each in root.units if '"unit":"a"' in each.signature)
    assert f"watermark.system.{day(EVERY)}" in unit.signature
    assert unit.requests == 1


def test_a_changed_row_of_the_output_is_found(chain, capsys):
    folder, _ = chain
    file = files_of(folder, "rare")[-1]
    before = file.read_bytes()
    table = pq.read_table(file)
    pq.write_table(table.set_column(0, "id", [[number + 1 for number in table["id"].to_pylist()]]),
                   file)  # fmt: skip
    try:
        assert main(["state", "verify", "--full", str(folder / "rare.conf")]) == 1
        assert "V20" in capsys.readouterr().out
    finally:
        file.write_bytes(before)
