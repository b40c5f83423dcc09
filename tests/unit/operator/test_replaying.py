"""Queries of derived datasets run again on their recorded slices; without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dil.cli.main import main
from dil.errors import ConfigError
from dil.operator.replaying import ReplayOutcome
from dil.publishing.layout import run_staging_dir
from dil.run.process import real_clock
from tests.derived import Lake

BIG = "SELECT id, amount FROM orders WHERE amount >= 50"


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def parts(lake, path):
    return [
        part["path"].removeprefix("file://")
        for event in lake.data(path)
        for part in (event["newData"] or {}).get("parts", ())
    ]


def test_every_block_gives_what_was_published_and_nothing_is_left_behind(lake):
    big = lake.derive("big", BIG)
    for start in range(0, 30, 10):
        lake.feed(*range(start, start + 10))
        lake.run(big)
    lake.feed()
    lake.run(big)
    before = lake.blocks(big)

    found = lake.replayed(big)

    assert [each.outcome for each in found] == [ReplayOutcome.SAME] * 4
    assert [each.sequence for each in lake.replayed(big, first=found[1].sequence)] == [
        each.sequence for each in found[1:]
    ]
    assert lake.blocks(big) == before
    assert list((lake.folder / "lake").rglob("*replay*")) == []


@pytest.mark.parametrize("amount", [70, 0], ids=["with other rows", "without rows"])
def test_an_input_file_that_was_changed_is_found(amount, lake):
    big = lake.derive("big", BIG)
    lake.feed(*range(10))
    lake.run(big)
    (path,) = parts(lake, lake.orders)
    table = pq.read_table(path)
    changed = [amount + (each == 6) for each in table["id"].to_pylist()]
    place = table.schema.get_field_index("amount")
    kind = table.schema.field(place)
    pq.write_table(table.set_column(place, kind, pa.array(changed, kind.type)), path)

    (found,) = lake.replayed(big)

    assert found.outcome is ReplayOutcome.DIFFERS
    assert found.problem.startswith(f"the query of block {found.sequence} gives other rows")


def test_an_input_file_that_is_gone_is_named(lake):
    big = lake.derive("big", BIG)
    lake.feed(*range(10))
    lake.run(big)
    (path,) = parts(lake, lake.orders)
    (lake.folder / path).unlink()

    (found,) = lake.replayed(big)

    assert found.outcome is ReplayOutcome.FAILED
    assert found.problem.startswith(f"the query of block {found.sequence} cannot be run again")
    assert f"{path} is gone" in found.why


def test_each_block_is_replayed_by_the_query_that_was_in_force(lake):
    big = lake.derive("big", BIG)
    lake.feed(*range(10))
    lake.run(big)
    lake.derive("big", "SELECT id, amount FROM orders WHERE id < 12")
    lake.feed(*range(10, 20))
    lake.run(big)

    assert [each.outcome for each in lake.replayed(big)] == [ReplayOutcome.SAME] * 2


def test_rows_without_a_hash_are_compared_one_by_one(lake):
    big = lake.derive("big", BIG, ms__query__logical__hash="false")
    lake.feed(*range(10))
    lake.run(big)

    assert [each.outcome for each in lake.replayed(big)] == [ReplayOutcome.SAME_ROWS]


def test_a_full_query_is_replayed_over_the_whole_input_of_its_time(lake):
    total = lake.derive(
        "total", "SELECT count(*) AS id, sum(amount) AS amount FROM orders", ms__query__mode="full"
    )
    lake.feed(*range(10))
    lake.run(total)
    lake.feed(*range(10, 12))
    lake.run(total)

    assert [each.outcome for each in lake.replayed(total)] == [ReplayOutcome.SAME] * 2


def test_a_new_full_query_without_rows_is_replayed_over_its_whole_input(lake):
    none = {"ms__query__mode": "full"}
    total = lake.derive("total", "SELECT * FROM orders WHERE amount > 1000", **none)
    lake.feed(*range(10))
    lake.run(total)
    total = lake.derive("total", "SELECT * FROM orders WHERE amount > 900", **none)
    lake.feed()
    lake.run(total)
    assert [each.outcome for each in lake.replayed(total)] == [ReplayOutcome.SAME] * 2

    (path,) = parts(lake, lake.orders)
    table = pq.read_table(path)
    place = table.schema.get_field_index("amount")
    field = table.schema.field(place)
    many = pa.array([950] * table.num_rows, field.type)
    pq.write_table(table.set_column(place, field, many), path)
    assert lake.replayed(total)[-1].outcome is ReplayOutcome.DIFFERS


def test_a_query_that_gave_a_row_for_an_input_without_rows_is_replayed(lake):
    sql = "SELECT count(*) AS id, count(*) AS amount FROM orders"
    total = lake.derive("total", sql, ms__query__mode="full", ms__query__logical__hash="false")
    lake.feed(1)
    lake.run(total)
    assert main(["state", "forget", str(lake.orders), "--all", "--withdraw-files", "--yes"]) == 0
    lake.now = max(lake.now, real_clock())
    assert lake.run(total).rows == 1

    assert lake.replayed(total)[-1].outcome is ReplayOutcome.SAME_ROWS


def test_rows_that_cannot_be_written_again_do_not_differ(lake):
    big = lake.derive("big", BIG)
    lake.feed(*range(10))
    lake.run(big)
    job = lake.job(big)
    staging = Path(run_staging_dir(job.publishing, job.name, "r")).parent
    staging.mkdir(parents=True, exist_ok=True)
    staging.rmdir()
    staging.write_text("in the way")

    (found,) = lake.replayed(big)

    assert found.outcome is ReplayOutcome.SKIPPED


def test_a_function_that_was_changed_is_not_replayed(lake):
    module = lake.folder / "replayed_queries.py"
    module.write_text("def big(inputs):\n    return inputs['orders'].slice(5)\n")
    big = lake.derive("big", "", ms__query__function="replayed_queries:big")
    lake.feed(*range(10))
    assert lake.run(big).rows == 5
    assert [each.outcome for each in lake.replayed(big)] == [ReplayOutcome.SAME]

    module.write_text("def big(inputs):\n    return inputs['orders']\n")
    (found,) = lake.replayed(big)
    assert found.outcome is ReplayOutcome.SKIPPED
    assert "has changed since" in found.why


def test_merged_rows_are_not_what_a_query_gave(lake):
    big = lake.derive("big", BIG, ms__publish__mode="merge", extract__primary__key__fields="id")
    with pytest.raises(ConfigError, match="merges the result with other rows"):
        lake.replayed(big)
