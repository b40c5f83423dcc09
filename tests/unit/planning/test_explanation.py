"""The arithmetic of windows, for people."""

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from dil.model.history import UnitRecord
from dil.model.interval import DAY_MS
from dil.model.job import PlanningSpec
from dil.model.work_unit import Skip
from dil.planning import BareHistory, plan
from dil.planning.explanation import arithmetic, period, skip_reason


def la(text: str) -> int:
    zone = ZoneInfo("America/Los_Angeles")
    return round(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


SPEC = PlanningSpec(start="2020-02-01", end="P0D", grace_ms=3 * DAY_MS)
SIGNATURE = f"[watermark.datetime.{la('2020-02-01')}, watermark.unit.{{}}]"


def explain(spec: PlanningSpec, history: dict[str, int | UnitRecord]) -> list[str]:
    made = plan(spec, now_ms=la("2020-02-22"), history=BareHistory(history))
    return arithmetic(made.work_units[0], made).split("\n")


def test_an_incremental_window_shows_its_whole_calculation() -> None:
    assert explain(SPEC, {SIGNATURE: la("2020-02-21")}) == [
        "partition 2020-02-01 00:00-08:00 to 2020-02-22 00:00-08:00, America/Los_Angeles",
        "last high 2020-02-21 00:00-08:00 + abstinent P0D - grace P3D"
        " = cutoff 2020-02-18 00:00-08:00",
        "low = max(start 2020-02-01 00:00-08:00, cutoff 2020-02-18 00:00-08:00)"
        " = 2020-02-18 00:00-08:00, high = end 2020-02-22 00:00-08:00",
        "due: the partition's end 2020-02-22 00:00-08:00 is after the cutoff"
        " 2020-02-18 00:00-08:00",
    ]


def test_a_window_that_the_units_newest_success_decides_names_the_overall_cutoff() -> None:
    daily = replace(SPEC, partition="daily")
    starts = [la(f"2020-02-{day}") for day in range(19, 22)]
    history: dict[str, int | UnitRecord] = {
        SIGNATURE.replace(str(la("2020-02-01")), str(start)): start + DAY_MS for start in starts
    }
    made = plan(daily, now_ms=la("2020-02-22"), history=BareHistory(history))

    lines = arithmetic(made.work_units[18], made).split("\n")
    assert lines[1:3] == [
        "last high 2020-02-20 00:00-08:00 + abstinent P0D - grace P3D"
        " = cutoff 2020-02-17 00:00-08:00",
        "newest high of the unit 2020-02-22 00:00-08:00 + abstinent P0D - grace P3D"
        " = overall cutoff 2020-02-19 00:00-08:00",
    ]
    assert lines[-1] == (
        "due: the partition's end 2020-02-20 00:00-08:00 is after the overall cutoff"
        " 2020-02-19 00:00-08:00"
    )


def test_a_replaced_window_says_why_it_starts_early() -> None:
    spec = replace(SPEC, read_from_partition_start=True)

    lines = explain(spec, {SIGNATURE: la("2020-02-21")})
    assert "low = start 2020-02-01 00:00-08:00, because the window is replaced as a whole" in lines


@pytest.mark.parametrize(
    ("changes", "history", "expected"),
    [
        ({}, {}, "no record: the whole partition is read"),
        ({}, {SIGNATURE: la("2020-02-01")}, "never succeeded: the whole partition is read"),
        (
            {"backfill": True},
            {},
            "backfill: history does not count, the whole partition is read",
        ),
        (
            {},
            {SIGNATURE: UnitRecord(SIGNATURE, la("2020-02-01"), la("2020-02-21"), failed=True)},
            "due: the last attempt failed, whatever the cutoff",
        ),
    ],
)
def test_the_last_line_tells_why_the_work_unit_is_due(
    changes: dict[str, bool], history: dict[str, int | UnitRecord], expected: str
) -> None:
    assert explain(replace(SPEC, **changes), history)[-1] == expected


def test_a_skip_names_the_cutoff_that_it_did_not_pass() -> None:
    spec = PlanningSpec(start="2020-02-01", end="P0D", abstinent_ms=DAY_MS)
    made = plan(
        spec,
        now_ms=la("2020-02-22"),
        history=BareHistory({SIGNATURE: la("2020-02-21")}),
        explain=True,
    )

    assert skip_reason(made.skips[0], made) == (
        "not due: end 2020-02-22 00:00-08:00 is not after its cutoff 2020-02-22 00:00-08:00"
    )


def test_a_skip_that_a_newer_success_of_its_unit_holds_back_says_so() -> None:
    daily = replace(SPEC, partition="daily", grace_ms=0)
    older, newer = (
        f"[watermark.datetime.{la(f'2020-02-{day}')}, watermark.unit.{{}}]" for day in (10, 20)
    )
    history: dict[str, int | UnitRecord] = {
        older: la("2020-02-10 12:00"), newer: la("2020-02-21")
    }  # fmt: skip
    made = plan(daily, now_ms=la("2020-02-22"), history=BareHistory(history), explain=True)

    assert skip_reason(made.skips[0], made) == (
        "not due: end 2020-02-11 00:00-08:00 is not after its unit's overall cutoff"
        " 2020-02-21 00:00-08:00"
    )
    assert made.skips[0].own_cutoff == la("2020-02-10 12:00")


def test_a_skip_without_cutoff_gives_its_own_reason() -> None:
    made = plan(SPEC, now_ms=la("2020-02-22"), history=BareHistory({}))
    skip = Skip("s", made.work_units[0].partition, "{}", None, None, "nothing to read")

    assert skip_reason(skip, made) == "not due: nothing to read"


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (0, "P0D"),
        (3 * DAY_MS, "P3D"),
        (DAY_MS + 3_600_000, "P1DT1H"),
        (90_000, "P0DT1M30S"),
        (1_500, "P0DT1.500S"),
        (500, "P0DT0.500S"),
    ],
)
def test_periods_are_iso_durations(ms: int, expected: str) -> None:
    assert period(ms) == expected
