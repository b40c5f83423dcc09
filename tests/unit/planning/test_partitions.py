"""Partitions: vectors of rules P8 to P12 and P33."""

from dataclasses import replace
from datetime import datetime

import pytest

from dil.errors import ConfigError
from dil.model.job import PlanningSpec
from dil.planning.partitions import partition, partition_from, shape

LA = "America/Los_Angeles"
NOW = round(datetime.fromisoformat("2020-02-21T10:42:33-08:00").timestamp() * 1000)
DAY = 86_400_000
# In 2024 clocks skipped the hour after midnight in Cairo on 26 April, in Santiago on 8 September.
OCTOBER = round(datetime.fromisoformat("2024-10-26T12:00:00Z").timestamp() * 1000)


def la(text: str) -> int:
    from zoneinfo import ZoneInfo

    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(LA)).timestamp() * 1000)


def cut(kind: str, start: str, end: str, **others: object) -> list[tuple[int, int]]:
    spec = replace(PlanningSpec(partition=kind, start=start, end=end), **others)
    found = partition(spec, now_ms=NOW)
    return [(found[index].low, found[index].high) for index in range(len(found))]


def test_hourly_partitions_are_elapsed_hours_with_a_partial_one_at_the_end() -> None:
    found = cut("hourly", "2019-01-01T01:00:00Z", "2019-01-01T04:05:06Z")

    assert [low for low, _ in found] == [1546304400000, 1546308000000, 1546311600000, 1546315200000]
    assert found[-1][1] == 1546315506000


def test_weekly_partitions_keep_the_rest_as_partial() -> None:
    assert cut("weekly", "2019-01-01T00:00:00Z", "2019-01-10T00:00:00Z") == [
        (1546300800000, 1546905600000),
        (1546905600000, 1547078400000),
    ]


def test_monthly_until_now_has_thirteen_full_months_and_a_partial_one() -> None:
    found = cut("monthly", "2019-01-01", "-")

    assert len(found) == 14
    assert found[0] == (la("2019-01-01"), la("2019-02-01"))
    assert found[-1] == (la("2020-02-01"), la("2020-02-21 10:42:00"))


def test_weekly_from_a_monday_ends_with_the_current_week() -> None:
    found = cut("weekly", "2020-01-06", "2020-02-21")

    assert len(found) == 7
    assert found[-1] == (la("2020-02-17"), la("2020-02-21"))


def test_no_partitioning_is_one_partition_whether_partial_or_not() -> None:
    expected = [(la("2020-01-01"), la("2020-02-21"))]

    assert cut("none", "2020-01-01", "P0D") == expected
    assert cut("none", "2020-01-01", "P0D", partial=False) == expected


@pytest.mark.parametrize("kind", ["hourly", "daily", "weekly", "monthly", "yearly"])
def test_a_range_shorter_than_one_step_without_partial_has_no_partition(kind: str) -> None:
    assert cut(kind, "2020-01-01", "2020-01-01 00:59:59", partial=False) == []


def test_a_step_that_ends_exactly_at_the_end_is_full() -> None:
    assert len(cut("daily", "2020-01-01", "2020-01-04", partial=False)) == 3


@pytest.mark.parametrize("end", ["2020-01-01", "2019-12-31"])
def test_from_not_before_to_gives_nothing(end: str) -> None:
    assert cut("daily", "2020-01-01", end) == []


def test_month_ends_are_clipped_each_on_their_own() -> None:
    found = cut("monthly", "2020-01-31", "2020-05-31")

    assert [low for low, _ in found] == [
        la("2020-01-31"), la("2020-02-29"), la("2020-03-31"), la("2020-04-30"),
    ]  # fmt: skip


def test_years_from_a_leap_day_come_back_to_it() -> None:
    found = cut("yearly", "2020-02-29", "2024-03-01")

    assert [low for low, _ in found] == [
        la("2020-02-29"), la("2021-02-28"), la("2022-02-28"), la("2023-02-28"), la("2024-02-29"),
    ]  # fmt: skip


def test_days_around_clock_changes_have_23_and_25_hours() -> None:
    assert cut("daily", "2021-03-14", "2021-03-15")[0][1] - la("2021-03-14") == 82_800_000
    assert cut("daily", "2021-11-07", "2021-11-08")[0][1] - la("2021-11-07") == 90_000_000
    assert len(cut("hourly", "2021-03-14", "2021-03-15")) == 23
    assert len(cut("hourly", "2021-11-07", "2021-11-08")) == 25


def test_a_boundary_in_a_gap_moves_forward_and_the_next_ones_do_not() -> None:
    found = cut("weekly", "2021-03-07 02:30:00", "2021-03-28 02:30:00")

    assert [low for low, _ in found] == [
        la("2021-03-07 02:30"), la("2021-03-14 03:30"), la("2021-03-21 02:30"),
    ]  # fmt: skip


@pytest.mark.parametrize("zone", ["Africa/Cairo", "America/Santiago"])
def test_a_midnight_in_a_gap_moves_the_start_of_a_duration_and_no_other_boundary(zone: str) -> None:
    days = PlanningSpec(partition="daily", start="P200D", end="P0D", zone=zone)
    known = {*partition(days, now_ms=OCTOBER).starts}

    for ago in range(1, 200):
        found = partition(replace(days, start=f"P{ago}D"), now_ms=OCTOBER)
        assert len(found) == ago
        assert known.issuperset(found.starts), ago


@pytest.mark.parametrize(
    "cut",
    [
        PlanningSpec(start="2024-04-01", partition="daily"),
        PlanningSpec(start="2024-04-01 01:00:00", partition="daily"),
        PlanningSpec(start="2024-04-05", partition="weekly"),
        PlanningSpec(start="2024-03-26", partition="monthly"),
        PlanningSpec(start="P183D", partition="daily"),
        PlanningSpec(
            start="2024-01-01 07:00:00",
            composite=(("monthly", "2024-01-01", "2024-04-01"), ("daily", "2024-04-01", "-")),
        ),
    ],
    ids=lambda spec: f"{spec.partition} {spec.start}",
)
def test_the_end_of_a_partition_is_found_by_its_start_also_in_a_gap(cut: PlanningSpec) -> None:
    spec = replace(cut, end="P0D", zone="Africa/Cairo")
    found = partition(spec, now_ms=OCTOBER)

    ends = [partition_from(spec, low, OCTOBER, now_ms=OCTOBER) for low in found.starts[:-1]]

    assert ends == [*found.ends[:-1]]


def test_a_boundary_in_an_overlap_is_the_earlier_time() -> None:
    found = cut("daily", "2021-11-06 01:30:00", "2021-11-08 01:30:00")

    assert found[0][1] == 1636273800000


def test_a_start_in_the_second_of_two_equal_hours_is_kept() -> None:
    start = 1636273800000 + 3_600_000  # 01:30 for the second time
    now = start + 30 * DAY

    found = partition(PlanningSpec(partition="daily", start="P30DT0H0M.UTC", end="-"), now_ms=now)

    assert found.starts[0] == start


def test_a_day_that_a_zone_skips_has_no_partition() -> None:
    found = cut("daily", "2011-12-29 00:00:00Pacific/Apia", "2012-01-01 00:00:00Pacific/Apia")

    assert [high - low for low, high in found] == [DAY, DAY]


def test_partitions_are_cut_in_the_zone_of_from() -> None:
    found = partition(
        PlanningSpec(partition="daily", start="2021-03-13 00:00:00+05:30", end="2021-03-16"),
        now_ms=NOW,
    )

    assert found.zone == "+05:30"
    assert found.starts[1] - found.starts[0] == DAY


def test_boundaries_beyond_the_calendar_end_at_to() -> None:
    found = cut("yearly", "9998-06-01", "9999-12-31")

    assert len(found) == 2


COMPOSITE = (("monthly", "2015-01-01", "2022-01-01"), ("daily", "2022-01-01", "-"))


def composite(start: str, end: str, **others: object) -> list[tuple[int, int]]:
    return cut("none", start, end, composite=others.pop("composite", COMPOSITE), **others)


def test_composite_sub_ranges_are_clipped_to_the_watermark() -> None:
    spec = PlanningSpec(start="2021-11-15", end="2022-01-03", composite=COMPOSITE)

    found = partition(spec, now_ms=la("2022-06-01"))

    assert [*zip(found.starts, found.ends, strict=True)] == [
        (la("2021-11-15"), la("2021-12-15")),
        (la("2021-12-15"), la("2022-01-01")),
        (la("2022-01-01"), la("2022-01-02")),
        (la("2022-01-02"), la("2022-01-03")),
    ]


def test_composite_without_partial_drops_the_rest_of_each_sub_range() -> None:
    spec = PlanningSpec(start="2021-11-15", end="2022-01-03", composite=COMPOSITE, partial=False)

    found = partition(spec, now_ms=la("2022-06-01"))

    assert [*found.starts] == [la("2021-11-15"), la("2022-01-01"), la("2022-01-02")]


def test_composite_order_does_not_matter_and_gaps_stay_empty() -> None:
    found = composite(
        "2019-01-01",
        "2021-01-01",
        composite=(("daily", "2020-02-01", "-"), ("yearly", "2019-01-01", "2020-01-01")),
    )

    assert found[0] == (la("2019-01-01"), la("2020-01-01"))
    assert found[1][0] == la("2020-02-01")
    assert found[-1] == (la("2020-02-21"), NOW)


def test_composite_parts_that_do_not_meet_the_watermark_give_nothing() -> None:
    assert composite("2000-01-01", "2001-01-01") == []


@pytest.mark.parametrize(
    "sub_ranges",
    [
        (("monthly", "2015-01-01", "2020-02-02"), ("daily", "2020-01-01", "-")),
        (("daily", "2020-01-01", "2019-01-01"),),
        (("daily", "2030-01-01", "-"),),
        (("daily", "P10D", "-"),),
        (("daily", "2020-01-01", "P1D"),),
        (("fortnightly", "2020-01-01", "-"),),
        (("daily", "2020-01-32", "-"),),
        (("daily", "-", "2020-01-01"),),
    ],
)
def test_invalid_composites_are_configuration_errors(
    sub_ranges: tuple[tuple[str, str, str], ...],
) -> None:
    with pytest.raises(ConfigError) as caught:
        composite("2015-01-01", "-", composite=sub_ranges)

    assert caught.value.problems[0].key == "ms.work.unit.partition"


@pytest.mark.parametrize(
    ("others", "key"),
    [
        ({"partition": "fortnightly"}, "ms.work.unit.partition"),
        ({"start": "-"}, "ms.watermark"),
        ({"end": "2021-03-14 02:30:00"}, "ms.watermark"),
    ],
)
def test_texts_that_cannot_be_understood_are_configuration_errors(
    others: dict[str, str], key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        partition(replace(PlanningSpec(), **others), now_ms=NOW)

    assert caught.value.problems[0].key == key


def test_words_may_be_in_any_letter_case() -> None:
    assert len(cut("DAILY", "2020-01-01", "2020-01-03")) == 2


def test_the_shape_changes_with_from_zone_and_type_only() -> None:
    spec = PlanningSpec(start="P30D", partition="daily")

    assert shape(spec) == shape(replace(spec, end="2020-01-01", limit=3, grace_ms=DAY))
    changes = [
        {"start": "P31D"},
        {"zone": "UTC"},
        {"partition": "weekly"},
        {"composite": COMPOSITE},
    ]
    assert len({shape(spec), *(shape(replace(spec, **change)) for change in changes)}) == 5


def test_the_job_zone_is_no_part_of_the_shape_where_from_names_its_own() -> None:
    spec = PlanningSpec(start="2020-01-01 00:00:00Z")

    assert shape(spec) == shape(replace(spec, zone="Europe/Paris"))
