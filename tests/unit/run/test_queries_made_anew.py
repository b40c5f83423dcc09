"""Derived datasets that a run makes anew from the whole of their inputs."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest

from dil import config
from dil.errors import StateError
from dil.operator.replaying import ReplayOutcome
from dil.run.job_run import run_job
from tests.derived import Lake, Readings

BIG = "SELECT id, amount FROM orders WHERE amount >= 50"


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def test_a_compaction_of_read_rows_with_others_is_refused_and_full_is_the_way_out(lake):
    every = lake.derive("every", "SELECT * FROM orders", ms__query__input__max__blocks="4")
    lake.feed(1, 2)
    lake.run(every)
    lake.feed(3)
    lake.feed(4)
    lake.compact(lake.orders)

    with pytest.raises(StateError, match="merges rows that were read before") as error:
        lake.run(every)
    given = {"ms.query.mode": "full", "ms.publish.mode": "replace"}
    assert all(f"-D {key}={value}" in error.value.fix for key, value in given.items())
    job = config.load(every, overrides=given, environ={}).job
    assert run_job(job, lake.options()).exit_code == 0
    lake.feed(5)
    lake.run(every)

    assert lake.ids("every") == Counter([1, 2, 3, 4, 5])
    assert lake.verify(every).problems == ()


def test_the_printed_command_makes_a_dataset_anew_whose_rows_are_judged(lake):
    """Its late rows are among the others then; later rows are judged as before."""
    every = lake.derive(
        "every",
        "SELECT id, amount FROM orders",
        ms__query__input__max__blocks="4",
        ms__event__column="amount",
        ms__event__watermark="bounded",
        ms__event__delay="PT0S",
        ms__late__action="side_table",
    )
    lake.feed(5, 6)
    lake.run(every)
    lake.feed(4)
    lake.feed(7)
    lake.compact(lake.orders)
    with pytest.raises(StateError) as error:
        lake.run(every)

    assert lake.run_as_printed(every, error.value.fix).exit_code == 0
    assert (lake.ids("every"), lake.ids("every_late")) == (Counter([4, 5, 6, 7]), Counter())
    lake.feed(3, 8)
    lake.run(every)
    assert (lake.ids("every"), lake.ids("every_late")) == (Counter([4, 5, 6, 7, 8]), Counter([3]))
    assert lake.verify(every).problems == ()


def test_a_merged_dataset_that_is_made_anew_has_one_row_of_each_key(lake):
    """The input has all versions of a row, of which a merge leaves the newest."""
    made = lake.derive(
        "made",
        "SELECT id, amount, CASE WHEN amount = 0 THEN 1 ELSE 0 END AS gone FROM orders",
        ms__publish__mode="merge",
        extract__primary__key__fields="id",
        ms__merge__op__field="gone",
        ms__merge__op__deletes="1",
    )
    lake.feed(1, 2, 3)
    for row in ({"id": 1, "amount": 99}, {"id": 2, "amount": 0}):
        lake.put_rows([row])
        lake.run(lake.orders)
    lake.run(made)
    anew = "dil run JOB.conf -D ms.query.mode=full -D ms.publish.mode=replace ()"

    assert lake.run_as_printed(made, anew).exit_code == 0
    assert lake.ids("made") == Counter([1, 3])
    lake.feed(3, 4)
    lake.run(made)
    assert lake.ids("made") == Counter([1, 3, 4])
    assert lake.verify(made).problems == ()


def test_a_dataset_that_is_made_anew_keeps_its_watermark(tmp_path):
    """Rows that are not late may still come; a reader would have closed their windows."""
    readings = Readings(tmp_path)
    made = readings.derive(
        "made",
        "SELECT * FROM orders",
        ms__event__column="at",
        ms__event__watermark="bounded",
        ms__event__delay="PT2H",
    )
    readings.put(0, 100)
    readings.run(made)
    anew = "dil run JOB.conf -D ms.query.mode=full -D ms.publish.mode=replace ()"

    assert readings.run_as_printed(made, anew).rows == 2
    readings.put(70)
    readings.run(made)
    found = [event["newWatermark"] for event in readings.data(made)]
    assert found == ["2023-12-31T13:40:00.000Z"] * 3
    readings.put(300)
    readings.run(made)
    assert readings.data(made)[-1]["newWatermark"] == "2023-12-31T17:00:00.000Z"
    assert readings.verify(made).problems == ()


@pytest.mark.parametrize("before", ["append", "full"])
def test_full_makes_everything_anew_for_a_changed_query_without_news(lake, before):
    made = lake.derive("made", BIG, ms__query__mode=before)
    lake.feed(*range(10))
    lake.run(made)
    lake.derive("made", "SELECT id, amount FROM orders WHERE id < 3", ms__query__mode="full")

    assert lake.run(made).rows == 3
    assert lake.ids("made") == Counter(range(3))
    assert lake.run(made).status == "nothing_due"
    assert lake.verify(made).problems == ()
    found = lake.replayed(made, first=4)
    assert {each.outcome for each in found} == {ReplayOutcome.SAME}


def test_a_changed_query_of_full_that_still_gives_no_row_is_due_once(lake):
    made = lake.derive("made", "SELECT id FROM orders WHERE id < 0", ms__query__mode="full")
    lake.feed(1)
    lake.run(made)
    lake.derive("made", "SELECT id FROM orders WHERE id < -1", ms__query__mode="full")

    assert lake.run(made).exit_code == 0
    assert lake.run(made).status == "nothing_due"
    assert lake.verify(made).problems == ()


def test_the_ways_out_of_an_older_state_are_those_of_a_derived_job(lake):
    made = lake.derive("made", BIG, state__store__dir=str(lake.folder / "own"))
    lake.feed(*range(10))
    lake.run(made)
    shutil.rmtree(lake.folder / "own")

    with pytest.raises(StateError, match="its state knows of no publish") as error:
        lake.run(made)
    assert "-D ms.query.mode=full -D ms.publish.mode=replace" in error.value.fix
    given = {"ms.query.mode": "full", "ms.publish.mode": "replace"}
    job = config.load(made, overrides=given, environ={}).job
    assert run_job(job, lake.options()).exit_code == 0
    assert lake.ids("made") == Counter(range(5, 10))


def test_no_run_makes_windows_anew_whose_state_is_lost(tmp_path):
    """A replace by the windows that close now would lose the ones that were emitted before."""
    readings = Readings(tmp_path)
    own = {"state__store__dir": str(tmp_path / "own")}
    path = readings.derive("made", "SELECT id FROM orders", **own)
    readings.put(0, 100)
    readings.run(path)
    shutil.rmtree(tmp_path / "own")
    readings.windows("made", **own)

    with pytest.raises(StateError, match="its state knows of no publish") as error:
        readings.run(path)
    assert "give the job another job.name and table" in error.value.fix
    assert "-D" not in error.value.fix
