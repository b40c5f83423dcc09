"""Which staged work a new run takes over (rule C29)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from dil.model.dataset import RunRecord
from dil.model.job import PublishingSpec
from dil.publishing.recovery import (
    AdoptableWork,
    ReusePolicy,
    finished_units,
    staged_work,
    unfinished_units,
)
from dil.publishing.staged import StagedPlan, write_result
from dil.storage import LocalFilesystem
from tests.unit.publishing.published import report, result, unit

files = LocalFilesystem()
ANY_AGE = ReusePolicy(grace_ms=0, due_after=0)


def test_exactly_the_same_work_unit_is_taken_over() -> None:
    made = report(unit(), attempts=3)

    taken = AdoptableWork([result(unit(), made)], {"d1"}, ANY_AGE).take(unit())

    assert taken == replace(made, adopted=True)


@pytest.mark.parametrize(
    "other",
    [
        unit(1),
        unit(0, low=unit(0).low + 1),
        structs.replace(unit(0), high=unit(0).high + 1),
    ],
)
def test_another_window_is_not_taken_over(other) -> None:
    assert AdoptableWork([result(unit(), report(unit()))], {"d1"}, ANY_AGE).take(other) is None


def test_work_under_another_configuration_is_not_taken_over() -> None:
    assert (
        AdoptableWork([result(unit(), report(unit()), digest="d2")], {"d1"}, ANY_AGE).take(unit())
        is None
    )


def test_a_reading_again_is_never_an_older_one() -> None:
    again = structs.replace(unit(), last_high=unit().high)

    assert AdoptableWork([result(unit(), report(unit()))], {"d1"}, ANY_AGE).take(again) is None


@pytest.mark.parametrize(
    ("grace_ms", "due_after", "is_taken"),
    [
        (0, unit().high + 5, True),
        (1, unit().high + 5, False),
        (1, unit().high, False),
        (1, unit().high - 1, True),
    ],
)
def test_an_older_reading_is_taken_over_where_corrections_are_not_lost(
    grace_ms: int, due_after: int, *, is_taken: bool
) -> None:
    rule = ReusePolicy(grace_ms, due_after)

    taken = AdoptableWork([result(unit(), report(unit()))], {"d1"}, rule).take(unit())

    assert (taken is not None) is is_taken


def test_of_two_runs_the_later_one_counts() -> None:
    early, late = report(unit(), attempts=1), report(unit(), attempts=2)

    taken = AdoptableWork([result(unit(), early), result(unit(), late)], {"d1"}, ANY_AGE).take(
        unit()
    )

    assert taken is not None
    assert taken.attempts == 2


def test_the_staged_work_of_a_run_is_found_below_its_folder(tmp_path: Path) -> None:
    made = result(unit(), report(unit()))
    write_result(files, str(tmp_path / "r1" / unit().hash / "1-aa"), made)
    run = RunRecord("r1", "orders", 0, 0, "full", "d1", str(tmp_path / "r1"), "running")

    assert staged_work(files, run) == (made,)
    assert staged_work(files, replace(run, staging_dir=str(tmp_path / "r2"))) == ()
    (one,) = finished_units(
        [made], StagedPlan((unit(),)), PublishingSpec(str(tmp_path), "orders"), files
    )
    assert (one.work_unit, one.report) == (made.work_unit, made.report)


def test_results_come_in_the_order_of_their_plan(tmp_path: Path) -> None:
    units = [unit(number) for number in range(5)]
    by_hash = sorted(units, key=lambda each: each.hash)
    assert by_hash != units

    results = [result(each, report(each)) for each in by_hash]
    found = finished_units(
        results, StagedPlan(tuple(units)), PublishingSpec(str(tmp_path), "orders"), files
    )

    assert [each.work_unit for each in found] == units


# What a run that published still owes


def test_what_was_read_before_and_not_finished_is_owed_as_failed() -> None:
    again = structs.replace(unit(1), last_high=unit(1).low + 5)
    plan = StagedPlan((unit(0), again, structs.replace(unit(2), last_high=unit(2).high)))

    found = unfinished_units(plan, {unit(0).signature, unit(2).signature}, "it was stopped")

    (failed,) = found.failed
    assert failed.work_unit == again
    assert failed.report.failure is not None
    assert (failed.report.failure.error, failed.report.attempts) == ("it was stopped", 0)
    assert found.low == unit(1).partition.low


def test_what_was_never_read_is_owed_without_a_record() -> None:
    found = unfinished_units(StagedPlan((unit(0), unit(1))), {unit(0).signature}, "it was stopped")

    assert (found.failed, found.low) == ((), unit(1).partition.low)


def test_what_was_left_out_of_the_plan_holds_the_watermark_as_well() -> None:
    plan = StagedPlan((unit(0), unit(5)), left_low=unit(3).low)

    assert unfinished_units(plan, {unit(0).signature}, "").low == unit(3).low
    assert unfinished_units(plan, {unit(0).signature, unit(5).signature}, "").low == unit(3).low


def test_a_plan_that_was_carried_out_owes_nothing() -> None:
    found = unfinished_units(StagedPlan((unit(0),)), {unit(0).signature}, "")

    assert (found.failed, found.low) == ((), None)
