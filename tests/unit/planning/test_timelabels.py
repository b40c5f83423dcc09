"""Timelabels: worked examples (rule T6), and which label a work unit has (rule T11)."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.errors import PlanningError
from dil.model.interval import Interval
from dil.model.timelabels import EarlierSchedule, LabelUnit, TimelabelSpec
from dil.planning.timelabels import timelabels
from dil.text.windows import label_text, windows_of
from dil.text.zones import to_local

LA = "America/Los_Angeles"
DAY_MS = 86_400_000
NOW = 1_600_000_000_000


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def told(at: int) -> str:
    return to_local(at, UTC).strftime("%Y-%m-%d %H:%M")


def span(low: str, high: str) -> Interval:
    return Interval(ms(low), ms(high))


EXAMPLES = [
    ("10 * * * *", "UTC", "2018-03-05T09:10", "2018-03-05 08:00", "2018-03-05 09:00"),
    ("10 0 * * *", "UTC", "2018-01-02T00:10", "2018-01-01 00:00", "2018-01-02 00:00"),
    ("10 0 * * *", "UTC", "2018-01-03T00:10", "2018-01-02 00:00", "2018-01-03 00:00"),
    ("*/15 * * * *", "UTC", "2018-03-05T09:15", "2018-03-05 09:00", "2018-03-05 09:15"),
    ("5-59/15 * * * *", "UTC", "2018-03-05T09:20", "2018-03-05 09:05", "2018-03-05 09:20"),
    ("10 */6 * * *", "UTC", "2018-03-05T00:10", "2018-03-04 18:00", "2018-03-05 00:00"),
    ("30 2 * * 1", "UTC", "2018-03-12T02:30", "2018-03-05 00:00", "2018-03-12 00:00"),
    ("30 2 1 * *", "UTC", "2018-03-01T02:30", "2018-02-01 00:00", "2018-03-01 00:00"),
    ("0 6 * * 1-5", "UTC", "2018-03-05T06:00", "2018-03-02 00:00", "2018-03-05 00:00"),
    ("0 6 * * 1-5", "UTC", "2018-03-06T06:00", "2018-03-05 00:00", "2018-03-06 00:00"),
    ("0 9,17 * * *", "UTC", "2018-03-05T09:00", "2018-03-04 17:00", "2018-03-05 09:00"),
    ("0 9,17 * * *", "UTC", "2018-03-05T17:00", "2018-03-05 09:00", "2018-03-05 17:00"),
    ("15 3 1,15 * *", "UTC", "2018-03-15T03:15", "2018-03-01 00:00", "2018-03-15 00:00"),
    ("15 0 1 1,4,7,10 *", "UTC", "2018-04-01T00:15", "2018-01-01 00:00", "2018-04-01 00:00"),
    ("10 0 * * *", LA, "2018-03-12T07:10", "2018-03-11 08:00", "2018-03-12 07:00"),
    ("10 0 * * *", LA, "2018-11-05T08:10", "2018-11-04 07:00", "2018-11-05 08:00"),
    ("30 2 * * *", LA, "2018-03-11T10:00", "2018-03-10 08:00", "2018-03-11 08:00"),
    ("10 * * * *", LA, "2018-11-04T09:10", "2018-11-04 08:00", "2018-11-04 09:00"),
    ("10 * * * *", "Asia/Kolkata", "2018-03-05T08:40", "2018-03-05 07:30", "2018-03-05 08:30"),
    ("0 0 * * *", "Asia/Kathmandu", "2018-03-04T18:15", "2018-03-03 18:15", "2018-03-04 18:15"),
    ("0 0 29 2 *", "UTC", "2024-02-29T00:00", "2020-01-01 00:00", "2024-01-01 00:00"),
]


@pytest.mark.parametrize(("cron", "zone", "fire", "low", "high"), EXAMPLES)
def test_a_run_loads_the_window_that_ended_before_its_fire(
    cron: str, zone: str, fire: str, low: str, high: str
) -> None:
    windows = windows_of(TimelabelSpec(schedule=cron, zone=zone))

    found = windows.of_run(ms(fire))
    assert (told(found.low), told(found.high)) == (low, high)
    assert windows.of_run(ms(fire) + 59_999) == found
    assert windows.of_run(ms(fire) - 1).high == found.low


@pytest.mark.parametrize(("cron", "zone", "fire", "low", "high"), EXAMPLES)
def test_a_work_unit_inside_a_window_has_its_label(
    cron: str, zone: str, fire: str, low: str, high: str
) -> None:
    label_of = timelabels(TimelabelSpec(schedule=cron, zone=zone), NOW)
    label = low.translate(str.maketrans("", "", "- :")) + "00"

    whole = span(low, high)
    assert label_of(whole) == label
    assert label_of(Interval(whole.low, whole.low + 1)) == label
    assert label_of(Interval(whole.high - 1, whole.high)) == label
    assert label_of(Interval(whole.low - 1, whole.low)) < label
    assert label_of(Interval(whole.high, whole.high + 1)) > label


@pytest.mark.parametrize("schedule", ["10 0 * * *", "@daily", "59 23 * * *"])
def test_the_start_delay_of_a_schedule_does_not_move_its_windows(schedule: str) -> None:
    label_of = timelabels(TimelabelSpec(schedule=schedule), NOW)

    assert label_of(span("2018-01-01", "2018-01-02")) == "20180101000000"


def test_a_work_unit_that_touches_several_windows_has_the_label_of_the_last() -> None:
    label_of = timelabels(TimelabelSpec(schedule="10 0 * * *"), NOW)

    assert label_of(span("2019-01-01", "2020-02-21T10:42")) == "20200221000000"
    assert label_of(span("2020-02-20T08:00", "2020-02-21T08:00")) == "20200221000000"


def test_a_partial_partition_has_the_label_that_the_whole_one_will_have() -> None:
    label_of = timelabels(TimelabelSpec(schedule="30 2 1 * *"), NOW)

    assert label_of(span("2020-02-01", "2020-02-21")) == label_of(span("2020-02-01", "2020-03-01"))


def test_an_interval_counts_from_the_epoch() -> None:
    spec = TimelabelSpec(every_ms=90 * 60_000)
    label_of = timelabels(spec, NOW)

    assert label_of(span("1970-01-01T01:30", "1970-01-01T03:00")) == "19700101013000"
    assert label_of(span("1969-12-31T23:00", "1970-01-01T00:00")) == "19691231223000"
    assert windows_of(spec).of_run(ms("1970-01-02T01:29")) == span("1970-01-01T22:30", "1970-01-02")


@pytest.mark.parametrize(
    ("unit", "zone", "label"),
    [
        (LabelUnit.MINUTE, "UTC", "20180311110700"),
        (LabelUnit.HOUR, "UTC", "20180311110000"),
        (LabelUnit.HOUR, "Asia/Kolkata", "20180311103000"),
        (LabelUnit.DAY, "UTC", "20180311000000"),
        (LabelUnit.DAY, LA, "20180311080000"),
        (LabelUnit.MONTH, "UTC", "20180301000000"),
        (LabelUnit.MONTH, LA, "20180301080000"),
    ],
)
def test_a_unit_labels_by_the_start_of_the_work_unit(
    unit: LabelUnit, zone: str, label: str
) -> None:
    label_of = timelabels(TimelabelSpec(unit=unit, zone=zone), NOW)

    assert label_of(span("2018-03-11T11:07:30", "2018-05-01")) == label


def test_work_units_without_a_time_have_the_label_of_the_runs_window() -> None:
    spec = TimelabelSpec(schedule="10 0 * * *", is_dated=False)
    everything = span("2019-01-01", "2020-02-21")

    assert timelabels(spec, ms("2020-02-21T00:09"))(everything) == "20200219000000"
    assert timelabels(spec, ms("2020-02-21T00:10"))(everything) == "20200220000000"
    daily = TimelabelSpec(unit=LabelUnit.DAY, is_dated=False)
    assert timelabels(daily, ms("2020-02-21T13:00"))(everything) == "20200220000000"


def test_a_midnight_that_clocks_jump_over_starts_its_day_an_hour_later() -> None:
    label_of = timelabels(TimelabelSpec(schedule="0 3 * * *", zone="America/Sao_Paulo"), NOW)

    # 2018-11-04 began at 01:00 there, which is 03:00 UTC.
    assert label_of(span("2018-11-04T03:00", "2018-11-05T02:00")) == "20181104030000"
    assert label_of(span("2018-11-03T03:00", "2018-11-04T03:00")) == "20181103030000"


def test_a_day_that_a_zone_skips_has_no_window_of_its_own() -> None:
    windows = windows_of(TimelabelSpec(schedule="10 5 * * *", zone="Pacific/Apia"))

    before = windows.at(ms("2011-12-30T09:59"))
    assert before == span("2011-12-29T10:00", "2011-12-30T10:00")
    assert windows.at(before.high) == span("2011-12-30T10:00", "2011-12-31T10:00")
    assert windows.of_run(ms("2011-12-30T10:00")) == before
    assert windows.of_run(ms("2011-12-30T15:10")) == before


def test_windows_are_found_far_from_the_last_one_asked_for() -> None:
    windows = windows_of(TimelabelSpec(schedule="0 0 29 2 *"))

    assert windows.at(ms("1900-06-01")) == span("1896-01-01", "1904-01-01")
    assert windows.at(ms("2019-06-01")) == span("2016-01-01", "2020-01-01")
    assert windows.at(ms("1902-06-01")) == span("1896-01-01", "1904-01-01")


def test_a_schedule_whose_fires_are_years_apart_has_its_windows() -> None:
    windows = windows_of(TimelabelSpec(schedule="*/30 0 29 2 */7"))

    # A 29 February that is a Sunday.
    assert windows.at(ms("2010-01-01")) == span("2004-02-29T00:30", "2032-02-29")


def test_outside_of_the_calendar_there_is_no_label() -> None:
    label_of = timelabels(TimelabelSpec(schedule="@daily", zone=LA), NOW)

    for at in (-(10**15), 10**15):
        with pytest.raises(PlanningError, match="2 to 9998"):
            label_of(Interval(at, at + 1))


def test_labels_pickle_with_the_plan_that_holds_them() -> None:
    for spec in (TimelabelSpec(schedule="@daily", zone=LA), TimelabelSpec(every_ms=60_000)):
        label_of = timelabels(spec, NOW)
        day = span("2018-03-11T08:00", "2018-03-12T07:00")

        assert pickle.loads(pickle.dumps(label_of))(day) == label_of(day)


@pytest.mark.parametrize(
    ("at", "label"),
    [("2018-03-05T08:00", "20180305080000"), ("0999-12-31T23:59", "09991231235900")],
)
def test_labels_have_fourteen_digits(at: str, label: str) -> None:
    assert label_text(ms(at)) == label


SCHEDULES = (
    {"schedule": "10 * * * *"},
    {"schedule": "*/15 * * * *"},
    {"schedule": "30 2 * * 1"},
    {"schedule": "10 0 * * *", "zone": "America/Los_Angeles"},
    {"schedule": "15 3 1,15 * *"},
    {"every_ms": 90 * 60_000},
    {"unit": LabelUnit.MONTH},
)


@given(
    first=st.sampled_from(SCHEDULES),
    changes=st.lists(
        st.tuples(st.sampled_from(SCHEDULES), st.integers(1, 40 * 24)), min_size=1, max_size=4
    ),
    start=st.integers(1_500_000_000, 1_600_000_000),
)
def test_windows_are_contiguous_across_changes_of_the_schedule_and_pauses(first, changes, start):
    """After a change the first window begins at the end of the last one, which had its label."""
    spec, ms = TimelabelSpec(**first), start * 1000
    begin, registered = ms, []
    for then, hours in changes:
        window = windows_of(spec).at(ms)
        registered.append(window)
        until = window.high
        last = EarlierSchedule(spec.schedule, spec.every_ms, spec.unit, spec.zone, until)
        spec = TimelabelSpec(**then, earlier=(*spec.earlier, last))
        assert windows_of(spec).at(until).low == until
        ms = until + hours * 3_600_000
    windows = windows_of(spec)
    assert [windows.at(each.low) for each in registered] == registered
    assert [windows.at(each.high - 1) for each in registered] == registered
    window, seen = windows.at(begin), 0
    while window.low < ms and seen < 500:
        after = windows.at(window.high)
        assert after.low == window.high
        assert not after.is_empty
        window, seen = after, seen + 1
    run = windows.of_run(ms)
    assert run == windows.at(run.low)
    assert run.high <= max(ms, spec.earlier[-1].until)
