"""How work units are shared out among tasks."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dil import config
from dil.execution.shares import lanes_of, local_slots, overlaps, share_out
from dil.model.work_unit import WorkUnit
from tests.jobs import write_job
from tests.unit.task.scripted import UnitTask, work_unit

UNITS = [work_unit()] * 5_000
PACED = [work_unit(not_before=1)] * 5_000
COUNTS = st.integers(0, 5_000)
FEW = st.integers(1, 20)
SECONDS = st.none() | st.floats(0.001, 1000)


@given(COUNTS, FEW, FEW, SECONDS)
def test_every_work_unit_goes_to_one_task_in_its_turn(
    count: int, slots: int, lanes: int, seconds: float | None
) -> None:
    units = list(range(count))

    shares = list(share_out(_numbered(count), slots, lanes, seconds))

    assert [unit.low for share in shares for unit in share] == units


@given(st.integers(1, 5_000), FEW, FEW, SECONDS)
def test_no_task_has_more_than_its_slot_s_part_and_all_but_the_last_fill_their_lanes(
    count: int, slots: int, lanes: int, seconds: float | None
) -> None:
    sizes = [len(share) for share in share_out(UNITS[:count], slots, lanes, seconds)]

    assert max(sizes) <= max(lanes, -(-count // (3 * slots)))
    assert all(size >= lanes for size in sizes[:-1])
    assert sizes == sorted(sizes, reverse=True)


def test_work_units_that_take_long_have_a_lane_for_themselves() -> None:
    assert {len(share) for share in share_out(UNITS[:1000], 2, 5, 60.0)} == {5}


def test_work_units_that_wait_for_their_time_begin_in_its_order() -> None:
    assert {len(share) for share in share_out(PACED[:1000], 2, 5)} == {5}


def test_small_work_units_need_few_tasks() -> None:
    assert len(list(share_out(UNITS, 2, 5))) < 60


def test_http_overlaps_in_a_process_for_each_core(tmp_path, monkeypatch) -> None:
    task = UnitTask(tmp_path)
    monkeypatch.setattr("dil.execution.shares.cores", lambda: 2)
    job = task.job()
    http = config.load(write_job(task.folder / "http", "http://x"), environ={}).job

    assert (overlaps(http), overlaps(job)) == (True, False)
    assert [local_slots(http, units) for units in (1, 2, 3, 4, 100)] == [1, 2, 3, 2, 2]
    assert [lanes_of(http, units, 2) for units in (1, 2, 4, 100)] == [1, 1, 2, 5]
    assert (local_slots(job, 100), lanes_of(job, 100, 2)) == (10, 1)


def _numbered(count: int) -> list[WorkUnit]:
    return [msgspec.structs.replace(UNITS[0], low=number) for number in range(count)]
