"""How far back a run reads where its grace period is measured, is the longest, or is a probe's."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import msgspec
import pytest

from dil.model.grace import GraceMeasure, GraceMode, GraceSpec, ProbeRest
from dil.model.interval import DAY_MS
from dil.model.job import PlanningSpec
from dil.model.work_unit import Plan
from dil.planning import BareHistory, SavedPlan, plan
from dil.planning.grace import plan_by_measure
from dil.planning.plan_file import decode_plan, encode_plan

START = 1577836800000  # 2020-01-01T00:00Z
NOW = START + 60 * DAY_MS
SPEC = PlanningSpec(
    start="2020-01-01 00:00:00Z",
    end="2020-03-01 00:00:00Z",
    partition="daily",
    zone="UTC",
    grace_ms=2 * DAY_MS,
)
# All days but the last one are read.
HISTORY = BareHistory(
    {
        f"[watermark.datetime.{START + day * DAY_MS}, watermark.unit.{{}}]": START
        + (day + 1) * DAY_MS
        for day in range(59)
    }
)


def made(grace: GraceSpec, measure: GraceMeasure | None = None, **changes: object) -> Plan:
    spec = replace(SPEC, grace=grace, **changes)  # type: ignore[arg-type]
    return plan_by_measure(
        spec, measure or GraceMeasure(), lambda each: plan(each, now_ms=NOW, history=HISTORY)
    )


def days_back(found: Plan) -> int:
    return len(found.work_units) - 1


@pytest.mark.parametrize(
    ("measure", "days", "why"),
    [
        (None, 2, "as configured, because too few rows are measured yet"),
        (GraceMeasure(None, 5), 2, "as configured"),
        (
            GraceMeasure(None, 5, rows=7, commits=2, least_rows=10_000, least_commits=7),
            2,
            "too few rows are measured yet: 7 of 10,000 new rows, in 2 of 7 commits",
        ),
        (GraceMeasure(0, 5), 0, "grace period P0D: measured, 99.9 % of new rows"),
        (GraceMeasure(5 * DAY_MS, 12), 5, "grace period P5D: measured"),
        (GraceMeasure(5 * DAY_MS, 13), 31, "a probe, one run in 14"),
        (GraceMeasure(None, 20), 31, "a probe"),
    ],
)
def test_a_measured_grace_period_reads_back_by_the_measure_and_every_14th_run_probes(
    measure: GraceMeasure | None, days: int, why: str
) -> None:
    found = made(GraceSpec(GraceMode.AUTO), measure)

    assert (days_back(found), found.grace_ms) == (days, days * DAY_MS)
    assert why in str(found.grace_why)


def test_what_is_read_back_is_what_the_same_configured_grace_period_reads() -> None:
    measured = made(GraceSpec(GraceMode.AUTO), GraceMeasure(3 * DAY_MS, 1))
    configured = made(GraceSpec(), grace_ms=3 * DAY_MS)

    assert replace(measured, grace_why=msgspec.UNSET) == configured


def test_there_are_no_probes_where_none_are_wanted() -> None:
    found = made(GraceSpec(GraceMode.AUTO, probe_every=0), GraceMeasure(DAY_MS, 1000))

    assert days_back(found) == 1


def test_the_longest_grace_period_needs_no_measure() -> None:
    found = made(GraceSpec(GraceMode.MAX, high_ms=9 * DAY_MS), GraceMeasure(DAY_MS, 0))

    assert days_back(found) == 9
    assert found.grace_why == "grace period P9D: ms.grace.mode=max"


@pytest.mark.parametrize("changes", [{"backfill": True}, {"ignore_history": True}])
def test_a_run_that_reads_everything_anew_has_no_grace_period_to_explain(
    changes: dict[str, bool],
) -> None:
    found = made(GraceSpec(GraceMode.AUTO), **changes)

    assert found.grace_why is msgspec.UNSET


@pytest.mark.parametrize(
    ("share", "text"), [(Fraction(1), "100 %"), (Fraction(9995, 10_000), "99.95 %")]
)
def test_the_share_is_shown_as_it_is(share: Fraction, text: str) -> None:
    assert text in str(made(GraceSpec(GraceMode.AUTO, share), GraceMeasure(0)).grace_why)


def test_a_configured_grace_period_adds_nothing_to_a_plan_in_a_file() -> None:
    for found, is_there in (
        (made(GraceSpec()), False),
        (made(GraceSpec(GraceMode.AUTO), GraceMeasure(0)), True),
    ):
        written = encode_plan(SavedPlan("job", "digest", backfill=False, head=None, plan=found))
        assert (b"grace_why" in written) is is_there
        assert decode_plan(written, "plan").plan.grace_why == found.grace_why


def cut_off(limit: int, units: tuple[str, ...] = ("{}",)) -> list[list[tuple[int, str]]]:
    """Return what the runs of a probe of five days read, by day and unit, until nothing is left."""
    grace = GraceSpec(mode=GraceMode.AUTO, high_ms=5 * DAY_MS, probe_every=14)
    spec = replace(SPEC, grace=grace, limit=limit, units=units, unit_name="shop")
    history = BareHistory(
        {
            f"[watermark.datetime.{START + day * DAY_MS}, watermark.shop.{unit}]": START
            + (day + 1) * DAY_MS
            for day in range(60)
            for unit in units
        }
    )
    rest, runs = None, []
    while not runs or rest is not None:
        found = plan_by_measure(
            spec,
            GraceMeasure(runs_since_probe=13, rest=rest),
            lambda each: plan(each, now_ms=NOW, history=history),
        )
        read = [(unit.partition.low, unit.unit_json) for unit in found.work_units]
        runs.append([((low - START) // DAY_MS, unit) for low, unit in read])
        rest = None
        if found.left_low is not None:
            last = [
                each.unit_key for each in found.work_units if each.partition.low == found.left_low
            ]
            rest = ProbeRest(found.left_low, last[-1] if last else "")
        assert len(runs) < 20
    return runs


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7, 15])
@pytest.mark.parametrize("units", [("{}",), ('{"s":1}', '{"s":2}', '{"s":3}')])
def test_a_probe_that_is_cut_off_goes_on_with_the_rest(limit: int, units: tuple[str, ...]) -> None:
    whole = [(day, unit) for day in range(55, 60) for unit in units]
    runs = cut_off(limit, units)
    assert [each for run in runs for each in run] == whole
    assert {len(run) for run in runs[:-1]} <= {limit}


def test_a_rest_is_read_by_the_next_probe_alone_and_forgotten_where_it_is_too_old() -> None:
    rest, auto = ProbeRest(NOW - 3 * DAY_MS), GraceSpec(mode=GraceMode.AUTO)
    found = made(auto, GraceMeasure(5 * DAY_MS, 13, rest=rest))
    assert (days_back(found), found.grace_ms) == (2, 2 * DAY_MS)
    assert "the rest of a probe" in str(found.grace_why)
    assert days_back(made(auto, GraceMeasure(DAY_MS, 3, rest=rest))) == 1
    assert days_back(made(auto, GraceMeasure(0, 13, rest=ProbeRest(NOW - 50 * DAY_MS)))) == 31
