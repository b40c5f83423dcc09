"""When a run stops early because the rest would fail alike, and the executor without Spark."""

from __future__ import annotations

import pytest

from dil.model.task import Failure, TaskReport
from dil.task.early_stop import EarlyStop


def failed(code: str, text: str = "no") -> TaskReport:
    return TaskReport("s", 0, 1, 1, failure=Failure(code, text))


GOOD = TaskReport("s", 0, 1, 1)


@pytest.mark.parametrize("code", ["DIL-SRC-AUTH", "DIL-SRC-TRANSIENT"])
def test_three_refusals_and_nothing_else_end_the_hope(code: str) -> None:
    reports = [failed(code, f"number {number}") for number in range(3)]

    reason = EarlyStop().look(reports)

    assert reason is not None
    assert reason.code == code
    assert "number" in reason.error


@pytest.mark.parametrize("count", [0, 1, 2])
def test_less_evidence_is_not_enough(count: int) -> None:
    assert EarlyStop().look([failed("DIL-SRC-AUTH")] * count) is None


@pytest.mark.parametrize("position", range(4))
def test_one_success_anywhere_keeps_hope(position: int) -> None:
    reports = [failed("DIL-SRC-AUTH")] * 3
    reports.insert(position, GOOD)

    assert EarlyStop().look(reports) is None


@pytest.mark.parametrize("code", ["DIL-SRC", "DIL-SRC-CONTRACT", "DIL-WRITE", "DIL-PLUGIN"])
def test_failures_of_one_work_unit_say_nothing_about_the_others(code: str) -> None:
    assert EarlyStop().look([failed(code)] * 50) is None


@pytest.mark.parametrize("others", [[], [GOOD] * 5, [failed("DIL-SRC-AUTH"), GOOD]])
def test_a_spent_quota_ends_the_run_at_once_whatever_went_well(others: list[TaskReport]) -> None:
    reason = EarlyStop().look([*others, failed("DIL-QUOTA", "come back tomorrow")])

    assert reason is not None
    assert reason.code == "DIL-QUOTA"
    assert reason.error == "no further work unit was begun: come back tomorrow"


def test_refused_credentials_and_an_outage_are_two_things() -> None:
    assert EarlyStop().look([failed("DIL-SRC-AUTH"), failed("DIL-SRC-TRANSIENT")] * 2) is None


def test_an_unreachable_source_among_other_failures_is_not_hopeless() -> None:
    mixed = [failed("DIL-SRC-TRANSIENT"), failed("DIL-SRC-TRANSIENT"), failed("DIL-SRC")]

    assert EarlyStop().look(mixed) is None
