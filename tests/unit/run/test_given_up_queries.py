"""Publishes of derived datasets that are given up: the next run takes the same rows again."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from dil.cli.main import main
from dil.run.process import real_clock
from dil.state.store.sql_store import SqlStateStore
from dil.storage.local import LocalFilesystem
from tests.derived import Lake
from tests.killed import KilledError, killed


@pytest.fixture
def lake(tmp_path):
    lake = Lake(tmp_path)
    lake.every = lake.derive("every", "SELECT * FROM orders")
    lake.feed(1, 2)
    lake.run(lake.every)
    lake.feed(3)
    return lake


def break_off(lake, patched, name):
    """Kill a run of the derived dataset at a step of its publish."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patched, name, killed)
        with pytest.raises(KilledError):
            lake.run(lake.every)


def damage_intent(lake):
    (path,) = (lake.folder / "state").rglob("*.db")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE intent SET payload = 'damaged'")


def require_each_once(lake):
    lake.now = max(lake.now, real_clock() + 60_000)
    lake.run(lake.every)
    lake.feed(4)
    lake.run(lake.every)
    assert lake.ids("every") == Counter([1, 2, 3, 4])
    assert lake.verify(lake.every).problems == ()


@pytest.mark.parametrize("is_damaged", [False, True])
def test_rows_of_an_abandoned_publish_are_taken_again(lake, is_damaged):
    break_off(lake, LocalFilesystem, "move")
    if is_damaged:
        damage_intent(lake)

    assert main(["runs", "abandon", str(lake.every), "--yes"]) == 0

    require_each_once(lake)


def test_a_publish_that_lost_a_file_is_given_up_as_a_whole(lake, capsys):
    break_off(lake, LocalFilesystem, "move")
    (staged,) = (lake.folder / "lake" / "_staging" / "every").rglob("part-*.parquet")
    staged.unlink()

    assert main(["runs", "finish", "--without-lost", str(lake.every), "--yes"]) == 0
    assert "finished" in capsys.readouterr().out

    require_each_once(lake)


def test_visible_rows_whose_place_in_the_inputs_is_unknown_are_not_given_up(lake, capsys):
    break_off(lake, SqlStateStore, "commit")
    damage_intent(lake)

    assert main(["runs", "abandon", str(lake.every), "--yes"]) == 1

    assert "DIL-COMMIT-UNKNOWN" in capsys.readouterr().err
    assert lake.ids("every") == Counter([1, 2, 3])
