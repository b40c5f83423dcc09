"""``dil state show`` of a derived dataset: how far each input was read."""

from __future__ import annotations

import json

import pytest

from dil.cli.main import main
from tests.derived import Lake


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def shown(path, capsys, *flags):
    assert main(["state", "show", str(path), *flags]) == 0
    return capsys.readouterr().out


def test_it_shows_the_offset_and_block_up_to_which_each_input_is_read(lake, capsys):
    big = lake.derive("big", "SELECT id, amount FROM orders WHERE amount >= 50")
    lake.feed(*range(10))
    lake.run(big)
    before = lake.blocks(big)[-1]["sequenceNumber"]
    lake.feed(10, 11)
    lake.run(big)
    last = lake.blocks(lake.orders)[-1]["hash"]

    text = shown(big, capsys)

    assert text.splitlines()[-2:] == [
        "read up to offset  block         input",
        f"               11  {last[:12]}  orders",
    ]
    assert "work unit" not in text
    found = json.loads(shown(big, capsys, "--json"))
    assert found["inputs"] == [{"dataset": "orders", "offset": 11, "block": last}]
    earlier = json.loads(shown(big, capsys, "--json", "--as-of", str(before)))
    assert [each["offset"] for each in earlier["inputs"]] == [9]


def test_before_the_first_run_no_input_is_read(lake, capsys):
    big = lake.derive("big", "SELECT id, amount FROM orders")

    assert shown(big, capsys).splitlines()[1:] == [
        "  head  none: no run has committed yet",
        "  no input is read yet",
    ]
    assert json.loads(shown(big, capsys, "--json"))["inputs"] == []


def test_an_input_whose_blocks_brought_no_row_is_read_up_to_its_block(lake, capsys):
    kept = lake.derive("kept", "SELECT id, amount FROM orders WHERE amount < 0")
    again = lake.derive("again", "SELECT id, amount FROM kept", "kept")
    lake.feed(1)
    lake.run(kept)
    lake.run(again)
    last = lake.blocks(kept)[-1]["hash"]

    assert shown(again, capsys).splitlines()[-1] == f"       no row yet  {last[:12]}  kept"
