"""What a run plans of partitions whose timelabels are closed (rule T32)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dil.model.closed_labels import ClosedLabels
from dil.model.history import UnitRecord
from dil.model.interval import Interval
from dil.model.job import PlanningSpec
from dil.model.timelabels import AfterClose, LabelClosing, TimelabelSpec
from dil.model.work_unit import PlannedClosedLabels, WorkUnit
from dil.planning import BareHistory, plan
from tests.stories import day

CLOSED = ClosedLabels(stretches=(Interval(day(0), day(2)),))
FIRST, SECOND = "20200101000000", "20200102000000"


def planned(
    after: AfterClose,
    *,
    partition: str = "daily",
    column: str = "",
    closed: ClosedLabels = CLOSED,
    failed: Sequence[WorkUnit] = (),
):
    labels = TimelabelSpec(
        schedule="@daily", closing=LabelClosing.AUTO, after_close=after, column=column
    )
    spec = PlanningSpec(
        start="2020-01-01", end="2020-01-05", partition=partition, zone="UTC", timelabel=labels
    )
    known = {
        each.signature: UnitRecord(each.signature, each.low, None, failed=True) for each in failed
    }
    made = plan(spec, now_ms=day(10), history=BareHistory(known), closed_labels=closed)
    return made.work_units, made.books


def lows(units: Sequence[WorkUnit]) -> list[int]:
    return [unit.low for unit in units]


@pytest.mark.parametrize("column", ["", "at"])
@pytest.mark.parametrize(
    ("after", "days", "closed"),
    [
        (AfterClose.REJECT, [2, 3], PlannedClosedLabels(2, (FIRST, SECOND))),
        (AfterClose.REOPEN, [0, 1, 2, 3], PlannedClosedLabels(0, (), reopens=(FIRST, SECOND))),
        (AfterClose.SIDE_TABLE, [0, 1, 2, 3], PlannedClosedLabels(0, (), beside=(FIRST, SECOND))),
    ],
)
def test_closed_days_are_left_out_reopened_or_read_beside(after, days, closed, column):
    units, found = planned(after, column=column)
    assert (lows(units), found) == ([day(each) for each in days], closed)


def test_closed_days_that_failed_are_left_out_as_well():
    failed, _ = planned(AfterClose.REJECT, closed=ClosedLabels())
    units, closed = planned(AfterClose.REJECT, failed=failed)
    assert (lows(units), closed) == ([day(2), day(3)], PlannedClosedLabels(2, (FIRST, SECOND)))


def test_a_partition_with_an_open_label_is_read_where_a_column_gives_the_labels():
    """One partition of four days: two of them are closed, and rows of the others may come."""
    units, closed = planned(AfterClose.REJECT, partition="none", column="at")
    assert lows(units) == [day(0)]
    assert not closed
    units, closed = planned(AfterClose.REOPEN, partition="none", column="at")
    assert (lows(units), closed.reopens) == ([day(0)], (FIRST, SECOND))


def test_a_plan_without_closed_labels_says_nothing_of_them():
    later = ClosedLabels(stretches=(Interval(day(20), day(21)),))
    _, closed = planned(AfterClose.REJECT, closed=later)
    assert not closed
