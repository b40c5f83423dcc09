"""The plan, for machines and for people."""

import json
from dataclasses import replace

import pytest
from msgspec import structs

from dil.model.interval import Interval
from dil.model.job import PlanningSpec
from dil.model.work_unit import Plan, Reason, Skip, WorkUnit
from dil.observe.plan_view import plan_json, plan_text, summary_text, why_no_partition
from tests.jobs import bare_job

JOB = bare_job(planning=PlanningSpec(is_dated=True))
# 2024-03-09, 10 (the day without 02:00) and 11, midnight in Los Angeles.
DAYS = (1709971200000, 1710057600000, 1710140400000)


def work_unit(number: int, unit: str = "{}", reason: Reason = Reason.NEW) -> WorkUnit:
    low, high = DAYS[number], DAYS[number + 1]
    return WorkUnit(
        signature=f"[watermark.system.{low}, watermark.unit.{unit}]",
        low=low,
        high=high,
        partition=Interval(low, high),
        unit_name="unit",
        unit_json=unit,
        reason=reason,
    )


PLAN = Plan(
    now=1710144000123,
    zone="America/Los_Angeles",
    full_extract=False,
    cutoff=DAYS[0],
    work_units=(
        structs.replace(
            work_unit(0, reason=Reason.RETRY), low=DAYS[0] + 1000, last_high=DAYS[0] + 1000
        ),
        work_unit(1, '{"id":"[red]\\n"}'),
    ),
    skipped=3,
    left=2,
    left_low=DAYS[2],
)

PLAN_TEXT = """\
orders  plan at 2024-03-11 01:00:00.123-07:00, times in America/Los_Angeles, incremental
  cutoff 2024-03-09 00:00-08:00: partitions that end after it are due
  2 due (1 new, 1 retry), 3 not due (already done, or not yet), 2 more due beyond ms.work.unit.parallelism.max, left for later.

#  reason  from                       to (exclusive)          unit              why this window
1  retry   2024-03-09 00:00:01-08:00  2024-03-10 00:00-08:00  -                 high - low
                                                                                = 86399000 ms
2  new     2024-03-10 00:00-08:00     2024-03-11 00:00-07:00  {"id":"[red]\\n"}  high - low
                                                                                = 82800000 ms
"""  # noqa: E501


def arithmetic(unit: WorkUnit, _: Plan) -> str:
    return f"high - low\n= {unit.high - unit.low} ms"


def why(skip: Skip, _: Plan) -> str:
    return f"not due: {skip.why}"


def test_the_table_shows_dates_with_offsets_reasons_and_arithmetic() -> None:
    assert plan_text(PLAN, JOB, arithmetic=arithmetic, skip_reason=why) == PLAN_TEXT


@pytest.mark.parametrize(
    ("spec", "keeps_state", "words"),
    [
        (PlanningSpec(), True, "incremental"),
        (PlanningSpec(backfill=True), True, "backfill: reads its range again"),
        (PlanningSpec(ignore_history=True), True, "every run reads everything again"),
        (PlanningSpec(), False, "no state is kept, so every run reads everything"),
    ],
)
def test_the_head_says_whether_what_was_read_before_counts(
    spec: PlanningSpec, keeps_state: bool, words: str
) -> None:
    job = replace(JOB, planning=spec, state=replace(JOB.state, enabled=keeps_state))
    for full_extract in (True, False):
        text = summary_text(replace(PLAN, full_extract=full_extract), job)
        assert words in text.splitlines()[0]
        assert "full extract" not in text


def test_the_head_of_a_replace_of_one_run_says_nothing_about_other_runs() -> None:
    publishing = replace(JOB.publishing, replaces_once=True)
    job = replace(JOB, planning=PlanningSpec(ignore_history=True), publishing=publishing)
    head = summary_text(PLAN, job).splitlines()[0]
    assert head.endswith("this run reads everything in its range again and replaces the dataset")


def test_a_plan_with_nothing_due_has_no_table() -> None:
    nothing = replace(PLAN, work_units=(), left=0)

    assert plan_text(nothing, JOB, arithmetic=arithmetic, skip_reason=why).splitlines()[2:] == [
        "  Nothing is due, 3 not due (already done, or not yet)."
    ]


def test_an_empty_range_is_named_as_the_reason_that_nothing_is_due() -> None:
    empty = replace(PLAN, work_units=(), skipped=0, left=0, left_low=None, cutoff=None)
    job = replace(JOB, planning=PlanningSpec(start="2024-03-05", end="2024-03-05"))

    assert plan_text(empty, job, arithmetic=arithmetic, skip_reason=why).splitlines()[1:] == [
        "  Nothing is due: the range is empty, from 2024-03-05 is not before to 2024-03-05."
    ]


@pytest.mark.parametrize(
    "spec",
    [
        PlanningSpec(partition="monthly", partial=False),
        PlanningSpec(composite=(("monthly", "2017-01-01", "2018-01-01"),)),
    ],
)
def test_a_range_without_a_partition_is_not_called_empty(spec: PlanningSpec) -> None:
    assert why_no_partition(spec) != why_no_partition(PlanningSpec())


def test_columns_are_aligned_as_a_terminal_shows_them() -> None:
    # Two characters of two columns each; a letter and an accent that share one.
    wide = work_unit(0, '{"id":"\u6771\u4eac"}')
    accent = work_unit(1, '{"id":"e\u0301"}')

    _, first, second = plan_text(
        replace(PLAN, work_units=(wide, accent)), JOB, arithmetic=lambda *_: "why", skip_reason=why
    ).splitlines()[4:7]

    assert first.endswith('{"id":"\u6771\u4eac"}  why')
    assert second.endswith('{"id":"e\u0301"}     why')


def test_timelabels_have_a_column_only_where_there_are_some() -> None:
    labelled = replace(PLAN, work_units=(structs.replace(work_unit(0), timelabel="2024-03-09"),))

    assert "timelabel" in plan_text(labelled, JOB, arithmetic=arithmetic, skip_reason=why)
    assert "timelabel" not in plan_text(PLAN, JOB, arithmetic=arithmetic, skip_reason=why)


def test_what_a_run_leaves_out_is_named_with_how_to_have_it() -> None:
    missed = tuple(
        structs.replace(work_unit(0, unit), timelabel=label)
        for label in ("20240309080000", "20240310080000")
        for unit in ('{"id":1}', '{"id":2}')
    )
    leaving = replace(PLAN, skipped=10, missed=missed, before_first=3)

    _, _, due, skipped, older = summary_text(leaving, JOB).splitlines()
    shown = plan_json(leaving, JOB)

    assert "2 due (1 new, 1 retry), 3 not due" in due
    assert "2 timelabels, 20240309080000 20240310080000, 4 work units" in skipped
    assert "--from 2024-03-09T08:00:00Z --to 2024-03-10T08:00:00Z" in skipped
    assert "3 work units" in older
    assert shown["skipped_timelabels"] == ["20240309080000", "20240310080000"]
    assert (shown["before_first"], shown["skipped"]) == (3, 10)
    assert {"skipped_timelabels", "before_first"}.isdisjoint(plan_json(PLAN, JOB))


def test_a_long_plan_is_cut_and_says_so_unless_all_is_asked_for() -> None:
    long = replace(PLAN, work_units=tuple(work_unit(0, f'{{"id":{n}}}') for n in range(60)))

    short = plan_text(long, JOB, arithmetic=arithmetic, skip_reason=why)
    full = plan_text(long, JOB, arithmetic=arithmetic, skip_reason=why, everything=True)

    assert "... and 10 more work units; --all shows them" in short
    assert full.count('{"id":') == 60


def test_skips_are_explained_when_all_is_asked_for() -> None:
    skip = Skip("[s]", Interval(DAYS[0], DAYS[1]), "{}", DAYS[1], DAYS[1], "done\nbefore")

    text = plan_text(
        replace(PLAN, skips=(skip,)), JOB, arithmetic=arithmetic, skip_reason=why, everything=True
    )

    assert text.splitlines()[-1] == (
        "  2024-03-09 00:00-08:00 .. 2024-03-10 00:00-08:00  -  not due: done\\nbefore"
    )


def test_the_json_plan_keeps_the_contract() -> None:
    plan = plan_json(PLAN, JOB)

    assert json.loads(json.dumps(plan)) == plan
    assert plan.items() >= {"job": "orders", "now": PLAN.now, "cutoff": DAYS[0]}.items()
    assert plan.items() >= {"full_extract": False, "skipped": 3, "left": 2}.items()
    first = plan["work_units"][0]  # type: ignore[index]
    assert (
        first.items()
        >= {
            "signature": f"[watermark.system.{DAYS[0]}, watermark.unit.{{}}]",
            "low": DAYS[0] + 1000,
            "high": DAYS[1],
            "partition": {"low": DAYS[0], "high": DAYS[1]},
            "unit": {},
            "timelabel": None,
            "reason": "retry",
        }.items()
    )


def test_the_unit_keeps_the_order_of_its_members() -> None:
    plan = plan_json(replace(PLAN, work_units=(work_unit(0, '{"z":1,"a":2}'),)), JOB)

    assert list(plan["work_units"][0]["unit"]) == ["z", "a"]  # type: ignore[index]


@pytest.mark.parametrize("millis", [10**17, -(10**17)])
def test_an_instant_outside_the_calendar_is_shown_as_its_number(millis: int) -> None:
    strange = replace(PLAN, work_units=(structs.replace(work_unit(0), low=millis),))

    assert f"{millis} ms" in plan_text(strange, JOB, arithmetic=arithmetic, skip_reason=why)


def test_windows_that_nobody_asked_for_are_not_shown() -> None:
    undated = replace(JOB, planning=replace(JOB.planning, is_dated=False))

    shown = plan_text(PLAN, undated, arithmetic=arithmetic, skip_reason=why)

    assert "from" not in shown
    assert "2024-03-10" not in shown


def test_signatures_are_shown_where_they_are_asked_for() -> None:
    def text(**more: bool) -> str:
        return plan_text(PLAN, JOB, arithmetic=arithmetic, skip_reason=why, **more)

    assert PLAN.work_units[0].signature in text(signatures=True)
    assert PLAN.work_units[0].signature not in text()


def test_machines_are_given_times_of_the_calendar_too() -> None:
    members = plan_json(PLAN, JOB)

    assert (members["now"], members["now_iso"]) == (PLAN.now, "2024-03-11T08:00:00.123Z")
    assert members["work_units"][1]["low_iso"] == "2024-03-10T08:00:00Z"  # type: ignore[index]
