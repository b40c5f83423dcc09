"""A run's budget, its quota and its totals; and a coordinator that waits."""

from __future__ import annotations

import pytest

from dil.coordination.services import RequestLimits, RunServices, SharedTotals, TaskCoordinator
from dil.errors import AuthenticationError, QuotaError
from tests.unit.coordination.clocks import Clock


def coordinator(limits: RequestLimits) -> tuple[TaskCoordinator, RunServices, Clock]:
    clock = Clock()
    run_services = RunServices(limits, clock=clock)
    return TaskCoordinator(run_services, clock.sleep), run_services, clock


def test_a_permit_waits_for_its_slot_and_tells_how_long():
    task, _, clock = coordinator(RequestLimits(interval_s=2.0))

    assert [task.permit() for _ in range(3)] == [0.0, 2.0, 2.0]
    assert clock.slept == [2.0, 2.0]


def test_a_long_wait_is_cut_into_pieces_so_that_news_are_heard():
    task, _, clock = coordinator(RequestLimits(interval_s=70.0))
    task.permit()

    assert task.permit() == 70.0
    assert clock.slept == [30.0, 30.0, 10.0]


def test_who_waits_hears_that_the_quota_is_spent():
    clock = Clock()
    run_services = RunServices(RequestLimits(interval_s=3600.0), clock=clock)

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        run_services.quota_spent("402 from the source")

    task = TaskCoordinator(run_services, sleep)
    task.permit()

    with pytest.raises(QuotaError, match="402 from the source"):
        task.permit()
    assert clock.slept == [30.0]


def test_the_budget_is_spent_after_so_many_requests_and_not_before():
    task, run_services, _ = coordinator(RequestLimits(most_requests=3))
    for _ in range(3):
        task.permit()
    assert run_services.spent() == ""

    with pytest.raises(QuotaError, match=r"3 requests .* ms.http.requests.max"):
        task.permit()
    assert "ms.http.requests.max" in run_services.spent()


def test_waiting_for_a_slot_costs_the_budget_one_request():
    task, run_services, _ = coordinator(RequestLimits(interval_s=100.0, most_requests=2))

    assert [task.permit(), task.permit()] == [0.0, 100.0]
    assert run_services.granted == 2


def test_the_first_reason_of_a_spent_quota_counts():
    task, run_services, _ = coordinator(RequestLimits())
    run_services.quota_spent("first")
    run_services.quota_spent("second")

    assert run_services.spent() == "first"
    with pytest.raises(QuotaError, match="first"):
        task.permit()


def test_slowing_down_holds_all_back():
    task, _, _ = coordinator(RequestLimits())
    task.slow_down(5)

    assert task.permit() == 5.0


def test_what_tasks_tell_adds_up():
    task, run_services, _ = coordinator(RequestLimits())
    task.progress(requests=1, rows=10, size=100)
    task.progress(requests=2, rows=20, size=200)

    assert run_services.totals == SharedTotals(3, 30, 300)


def test_a_token_of_a_job_without_a_source_is_refused_in_words():
    task, _, _ = coordinator(RequestLimits())

    with pytest.raises(AuthenticationError, match="no source of tokens"):
        task.credential()
