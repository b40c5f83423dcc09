"""Slots for requests: never more than the rate, never out of order, put off together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.coordination.pace import Pace, Ticket
from tests.unit.coordination.clocks import Clock


def test_the_first_request_goes_at_once_and_the_next_one_interval_later():
    pace = Pace(0.5, Clock())

    assert [pace.take().wait_s for _ in range(4)] == [0.0, 0.5, 1.0, 1.5]


def test_what_was_not_used_is_not_saved_up():
    clock = Clock()
    pace = Pace(0.5, clock)
    pace.take()
    clock.now += 60

    assert [pace.take().wait_s for _ in range(3)] == [0.0, 0.5, 1.0]


def test_without_a_rate_nobody_waits():
    pace = Pace(0.0, Clock())

    assert [pace.take().wait_s for _ in range(100)] == [0.0] * 100


def test_a_waited_for_slot_is_good_when_its_time_has_come():
    clock = Clock()
    pace = Pace(2.0, clock)
    pace.take()
    ticket = pace.take()
    clock.now += 1.5

    assert pace.again(ticket).wait_s == pytest.approx(0.5)
    clock.now += 0.5
    assert pace.again(ticket).wait_s == 0.0


def test_a_hold_puts_off_all_slots_that_were_handed_out():
    clock = Clock()
    pace = Pace(1.0, clock)
    tickets = [pace.take() for _ in range(3)]
    pace.hold(10)
    clock.now += 2

    again = [pace.again(ticket) for ticket in tickets]

    assert [ticket.wait_s for ticket in again] == [8.0, 9.0, 10.0]


def test_a_hold_that_is_shorter_than_the_interval_brings_no_slot_forward():
    pace = Pace(1.0, Clock())
    pace.take()
    pace.hold(0.5)

    assert pace.take().wait_s == 1.0


def test_a_hold_counts_where_there_is_no_rate():
    pace = Pace(0.0, Clock())
    pace.hold(7)

    assert pace.take().wait_s == 7.0


@pytest.mark.parametrize("seconds", [0, -5, 9.9])
def test_a_shorter_hold_than_the_one_that_is_on_changes_nothing(seconds):
    pace = Pace(1.0, Clock())
    pace.hold(10)
    ticket = pace.take()
    pace.hold(seconds)

    assert pace.again(ticket) == ticket
    assert ticket.wait_s == 10.0


# What a run may do: ask, let time pass, wait for an earlier slot again, be asked to slow down.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.just(0.0)),
        st.tuples(st.just("pass"), st.floats(0.001, 30.0)),
        st.tuples(st.just("again"), st.just(0.0)),
        st.tuples(st.just("hold"), st.floats(0.001, 60.0)),
    ),
    max_size=80,
)


class Run:
    """A run that takes steps, and the slots at which it sent."""

    def __init__(self, interval_s: float) -> None:
        self.clock = Clock(0.0)
        self.pace = Pace(interval_s, self.clock)
        self.waiting: list[Ticket] = []
        self.sent: list[float] = []

    def step(self, step: str, amount: float) -> None:
        match step:
            case "take":
                self._settle(self.pace.take())
            case "pass":
                self.clock.now += amount
            case "hold":
                self.pace.hold(amount)
            case "again":
                due, self.waiting = self.waiting, []
                for ticket in due:
                    self._settle(self.pace.again(ticket))

    def _settle(self, ticket: Ticket) -> None:
        if ticket.wait_s == 0:
            self.sent.append(ticket.slot)
        else:
            self.waiting.append(ticket)


@given(steps=STEPS, count=st.integers(1, 50), seconds=st.integers(1, 120))
def test_no_stretch_of_time_holds_more_requests_than_the_rate_and_one(steps, count, seconds):
    interval = seconds / count
    run = Run(interval)
    for step, amount in steps:
        run.step(step, amount)

    slots = sorted(run.sent)
    for first in range(len(slots)):
        for last in range(first, len(slots)):
            length = slots[last] - slots[first]
            assert last - first + 1 <= length / interval + 1 + 1e-6
