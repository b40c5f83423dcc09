"""Closed timelabels are few stretches of time, and know every window that is closed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dil.model.closed_labels import ClosedLabels, LabelWindow
from dil.model.interval import Interval

_SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=12)
_ACTS = st.lists(st.tuples(st.booleans(), st.integers(0, 11)), max_size=40)


def windows(sizes: list[int]) -> list[LabelWindow]:
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    return [
        LabelWindow(end - size, end, f"{end - size:014}")
        for size, end in zip(sizes, ends, strict=True)
    ]


@given(sizes=_SIZES, acts=_ACTS)
def test_closing_and_reopening_are_those_of_a_set_of_windows(sizes, acts):
    cut, labels, closed = windows(sizes), ClosedLabels(), set()
    for is_closing, number in acts:
        window = cut[number % len(cut)]
        if is_closing:
            labels, closed = labels.with_closed(window), closed | {window}
        elif window in closed:
            labels, closed = labels.with_reopened(window), closed - {window}
        assert {each for each in cut if labels.is_closed(each)} == closed
        assert labels.is_closed(Interval(0, cut[-1].high)) == (closed == set(cut))
        gaps = [
            (one.high, other.low)
            for one, other in zip(labels.stretches, labels.stretches[1:], strict=False)
        ]
        assert all(one < other for one, other in gaps), labels
        assert not set(labels.reopened) & {each.label for each in closed}
        assert ClosedLabels.of(labels.members()).stretches == tuple(labels.stretches)


def test_checking_begins_with_the_first_closed_window_where_its_start_was_not_kept():
    assert ClosedLabels().begins is None
    assert ClosedLabels(next_low=9, first_low=3).begins == 3
    assert ClosedLabels(next_low=9).begins == 9
    assert ClosedLabels(stretches=(Interval(2, 9),), next_low=9).begins == 2


def test_the_digest_changes_with_the_closed_stretches_alone():
    assert ClosedLabels().digest == ""
    one, two = ClosedLabels(stretches=(Interval(0, 9),)), ClosedLabels(stretches=(Interval(0, 8),))
    assert len({one.digest, two.digest, ""}) == 3
    assert replace(one, reopened={"x": 3}, next_low=9).digest == one.digest
