"""``dil plan`` of a derived dataset: what a run would take of its inputs, and what it waits for."""

from __future__ import annotations

import json

import pytest

from dil.cli.main import main
from tests.derived import Lake

BIG = "SELECT id, amount FROM orders WHERE amount >= 50"


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def planned(path, capsys, *flags):
    code = main(["plan", str(path), *flags])
    return code, capsys.readouterr().out


def test_plan_shows_the_blocks_rows_and_offsets_of_each_input(lake, capsys):
    big = lake.derive("big", BIG)
    lake.feed(*range(10))
    lake.run(big)
    lake.feed(*range(10, 13))
    lake.feed(13)

    code, text = planned(big, capsys)

    assert code == 0
    assert "Due: the query over 4 rows." in text
    assert "orders as orders: blocks 4 to 5, 4 rows, offsets 10 to 13" in text
    code, text = planned(big, capsys, "--json")
    found = json.loads(text)
    assert len(found["work_units"]) == 1
    assert found["query"] == {
        "mode": "append",
        "runs": True,
        "rows": 4,
        "inputs": [
            {
                "dataset": "orders",
                "as": "orders",
                "job": str(lake.orders),
                "blocks": {"after": 3, "last": 5},
                "offsets": {"after": 9, "last": 13},
                "new_rows": 4,
                "rows": 4,
            }
        ],
        "waits": [],
    }
    before = lake.blocks(big)
    assert lake.run(big).rows == 4
    assert len(lake.blocks(big)) == len(before) + 1


def test_plan_says_what_a_run_waits_for_and_waits_never(lake, capsys):
    big = lake.derive("big", BIG, ms__query__wait="PT1H")

    code, text = planned(big, capsys)
    assert code == 0
    assert "Nothing is due." in text
    assert f"waits for: orders has published no rows yet (dil run {lake.orders})" in text
    assert "A run waits 3600 s for that, at most (ms.query.wait)." in text
    assert json.loads(planned(big, capsys, "--json")[1])["work_units"] == []


def test_plan_of_everything_again_shows_new_rows_and_all_that_are_read(lake, capsys):
    big = lake.derive("big", BIG, ms__query__mode="full")
    lake.feed(*range(10))
    lake.run(big)
    lake.feed(*range(10, 13))

    _, text = planned(big, capsys)

    assert "a query over all rows, which replaces the dataset" in text
    assert "block 4, 3 rows, offsets 10 to 12; read: 13 rows" in text


def test_flags_of_work_units_are_refused(lake, capsys):
    assert main(["plan", str(lake.derive("big", BIG)), "--signatures"]) == 2
    assert "--signatures has no meaning for a job with ms.query.inputs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        (["preview"], "`dil plan JOB.conf`"),
        (["check"], "`dil validate JOB.conf` checks the job"),
        (["state", "gaps"], "shows the new rows of each input"),
        (["backfill", "--from", "2024-01-01", "--to", "2024-01-02"], "-D ms.query.mode=full"),
    ],
)
def test_commands_about_a_source_are_refused_and_say_what_to_use(lake, capsys, command, instead):
    big = lake.derive("big", BIG)
    lake.feed(*range(10))
    lake.run(big)
    at = 2 if command[0] == "state" else 1

    assert main([*command[:at], str(big), *command[at:]]) == 2
    said = capsys.readouterr().err
    assert "ms.query.inputs is set: big reads datasets" in " ".join(said.split())
    assert instead in said


def test_prune_says_nothing_of_work_units_that_are_due(lake, capsys):
    big = lake.derive("big", BIG, ms__retention='{"state.store": "P1D", "log": "P1D"}')
    for start in range(3):
        lake.feed(start)
        lake.run(big)

    assert main(["state", "prune", str(big)]) == 0
    said = capsys.readouterr().out
    assert "2 rows of old runs to be deleted" in said
    assert "the job takes the new rows of its inputs, as `dil plan JOB.conf` shows" in said
