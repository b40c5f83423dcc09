"""Rows traced back to files and work units, across jobs."""

from __future__ import annotations

import json

import pytest

from dil import config
from dil.cli.main import main
from dil.errors import ConfigError, StateError
from dil.operator.lineage import Tracer, trace_lines
from tests.derived import Lake

BIG = "SELECT id, amount FROM orders WHERE amount >= 50"


@pytest.fixture
def lake(tmp_path):
    """Return a chain of three datasets, of two rounds."""
    lake = Lake(tmp_path)
    big = lake.derive("big", BIG)
    third = lake.derive("third", "SELECT id, amount * 2 AS twice FROM big", "big")
    for start in (0, 10):
        lake.feed(*range(start, start + 10))
        lake.run(big)
        lake.run(third)
    return lake


def tracer(lake, name):
    job = lake.job(lake.folder / f"{name}.conf")
    return Tracer(job, lambda: lake.now, lambda path: config.load(path, environ={}).job)


def files_of_source(block):
    """Return the input files that a trace leads to."""
    found = {unit.signature.partition('"file":"')[2].rstrip('"}]') for unit in block.units}
    for each in block.inputs:
        for above in each.blocks:
            found |= files_of_source(above)
    return {name.rpartition("/")[2] for name in found}


def test_a_row_leads_to_its_own_row_in_each_input_where_the_column_is_there(lake):
    (block,) = tracer(lake, "third").row("id=12")

    assert (block.dataset, block.files[0].first) == ("third", 7)
    (big,) = block.inputs[0].blocks
    assert block.inputs[0].is_narrowed
    assert (big.dataset, big.files[0].first, big.files[0].last) == ("big", 7, 7)
    (root,) = big.inputs[0].blocks
    assert (root.dataset, root.files[0].first) == ("orders", 12)
    assert files_of_source(block) == {"0002.json"}
    assert root.units[0].requests == 1
    assert root.units[0].run_id == root.run_id


def test_rows_between_those_that_have_the_value_are_not_named(lake):
    lake.derive("odd", "SELECT id % 2 AS odd, id % 4 < 2 AS low FROM orders")
    lake.run(lake.folder / "odd.conf")

    found = tracer(lake, "odd").row("odd=1")

    files = [file for block in found for file in block.files]
    assert [(file.first, file.last) for file in files] == [(at, at) for at in range(1, 20, 2)]


def test_an_offset_leads_to_all_that_the_query_had(lake):
    (block,) = tracer(lake, "third").row("3")

    assert block.sequence == 3
    assert not block.inputs[0].is_narrowed
    assert files_of_source(block) == {"0001.json"}


def test_the_newest_rows_are_shown_unless_a_block_is_named(lake):
    (newest,) = tracer(lake, "big").block(None)
    assert files_of_source(newest) == {"0002.json"}
    (first,) = tracer(lake, "big").block(3)
    assert files_of_source(first) == {"0001.json"}


def test_a_full_query_leads_to_all_blocks_of_its_input(lake):
    lake.derive("total", "SELECT count(*) AS id FROM orders", ms__query__mode="full")
    lake.run(lake.folder / "total.conf")

    (block,) = tracer(lake, "total").row("0")

    assert files_of_source(block) == {"0001.json", "0002.json"}


def test_what_is_not_there_is_said(lake):
    with pytest.raises(ConfigError, match="third has no such column"):
        tracer(lake, "third").row("amount=1")
    with pytest.raises(ConfigError, match="the dataset has no such row"):
        tracer(lake, "third").row("id=99")
    with pytest.raises(ConfigError, match="an offset, such as 17, or column=value"):
        tracer(lake, "third").row("id")
    with pytest.raises(StateError, match="its last offset is 14"):
        tracer(lake, "third").row("99")
    with pytest.raises(ConfigError, match="this block published no rows"):
        tracer(lake, "third").block(1)
    with pytest.raises(ConfigError, match="has no such block, the newest is"):
        tracer(lake, "third").block(99)


def test_a_column_of_lists_or_records_is_no_column_to_look_rows_up_by(lake):
    lake.derive("nested", "SELECT id, [id] AS ids, {'a': id} AS record FROM orders")
    lake.run(lake.folder / "nested.conf")

    for column in ("ids", "record"):
        with pytest.raises(ConfigError, match=f"names {column}, a column of .*plain") as error:
            tracer(lake, "nested").row(f"{column}=1")
        assert "Name one of id, or an offset." in str(error.value)


def test_the_command_prints_both_forms(lake, capsys):
    path = str(lake.folder / "third.conf")
    assert main(["lineage", path, "--row", "id=12"]) == 0
    text = capsys.readouterr().out
    assert text.splitlines() == list(trace_lines(tracer(lake, "third").row("id=12")[0]))
    assert "from big, rows with that value:" in text
    assert ".parquet, offset 12\n" in text

    assert main(["lineage", path, "--row", "id=12", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    root = found["blocks"][0]["inputs"][0]["blocks"][0]["inputs"][0]["blocks"][0]
    assert root["dataset"] == "orders"
    assert root["files"][0]["offsets"] == {"first": 12, "last": 12}
    assert "0002.json" in root["work_units"][0]["signature"]
