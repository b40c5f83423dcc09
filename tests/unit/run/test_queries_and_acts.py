"""Runs of derived datasets after an operator's act on their input: forget, and its undo."""

from __future__ import annotations

from collections import Counter

import pytest

from dil.cli.main import main
from dil.errors import StateError
from dil.operator.compaction import CompactionRequest, compact
from dil.run.process import real_clock
from tests.derived import Lake


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def test_files_that_an_undo_brought_back_are_the_same_rows_and_none_is_read_again(lake):
    every = lake.derive("every", "SELECT * FROM orders", ms__query__input__max__blocks="1")
    lake.feed(1, 2)
    lake.feed(3)
    while lake.run(every).status == "success":
        pass
    orders = str(lake.orders)
    assert main(["state", "forget", orders, "--all", "--withdraw-files", "--yes"]) == 0
    assert lake.run(every).rows == 0  # the block that names the act
    with pytest.raises(StateError, match="takes rows away that were read before"):
        lake.run(every)
    assert main(["state", "undo", orders, "--yes"]) == 0
    lake.now = max(lake.now, real_clock() + 60_000)
    lake.feed(4)
    while lake.run(every).status == "success":
        pass

    assert lake.ids("orders") == lake.ids("every") == Counter([1, 2, 3, 4])
    assert lake.verify(every).problems == ()


def test_rows_that_a_run_read_again_after_they_went_are_not_those_of_before(lake):
    every = lake.derive("every", "SELECT * FROM orders")
    lake.feed(1, 2)
    lake.run(every)
    orders = str(lake.orders)
    assert main(["state", "forget", orders, "--all", "--withdraw-files", "--yes"]) == 0
    lake.now = max(lake.now, real_clock() + 60_000)
    assert lake.run(lake.orders).rows == 2

    with pytest.raises(StateError, match="takes rows away that were read before \\(files: 1\\)"):
        lake.run(every)


def test_a_slice_that_ends_between_an_act_and_its_files_passes_a_compaction_over(lake):
    every = lake.derive("every", "SELECT * FROM orders", ms__query__input__max__blocks="1")
    lake.feed(1)
    lake.feed(2)
    while lake.run(every).status == "success":
        pass
    lake.now += 60_000
    assert compact(lake.job(lake.orders), CompactionRequest(clock=lambda: lake.now)).removed
    lake.feed(3)
    while lake.run(every).status == "success":
        pass

    assert lake.ids("every") == Counter([1, 2, 3])
