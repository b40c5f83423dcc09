"""Cron expressions: what is read, and when it fires (rules T3, T4 and T7)."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from dil.text.cron import CronError, Level, first_instant, parse_cron
from dil.text.zones import find_zone, to_local

DAY_MS = 86_400_000


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def by_clock(cron: str, zone: str, low: str, high: str) -> list[str]:
    found = parse_cron(cron).by_clock(find_zone(zone), ms(low), ms(high))
    return [to_local(at, UTC).strftime("%d %H:%M") for at in found]


def by_date(cron: str, zone: str, low: str, high: str) -> list[str]:
    found = parse_cron(cron).by_date(find_zone(zone), ms(low), ms(high))
    return [f"{to_local(at, UTC):%d %H:%M}" for at, _ in found]


@pytest.mark.parametrize(
    ("word", "fields"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@Weekly", "0 0 * * sun"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 jan *"),
        ("@annually", "0 0 1 1 *"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * JAN-mar Mon-FRI", "0 0 * 1,2,3 1-5"),
        ("*/15 0-6/2 * * *", "0,15,30,45 0,2,4,6 * * *"),
        ("5/20 0 * * *", "5,25,45 0 * * *"),
        ("  10\t0  * * 5-7 ", "10 0 * * 0,5,6"),
    ],
)
def test_words_names_steps_and_both_sundays_are_read(word: str, fields: str) -> None:
    assert parse_cron(word) == parse_cron(fields)


@pytest.mark.parametrize(
    ("cron", "level"),
    [
        ("*/15 * * * *", Level.MINUTE),
        ("0,30 6 1 1 *", Level.MINUTE),
        ("10 * * * *", Level.HOUR),
        ("0 9,17 1 1 *", Level.HOUR),
        ("10 0 * * *", Level.DAY),
        ("0 6 * * 1-5", Level.DAY),
        ("0 6 1 * 1", Level.DAY),
        ("0 6 1 * */2", Level.DAY),
        ("0 6 1 * 0-6", Level.DAY),
        ("0 0 1,15 * *", Level.DAY),
        ("30 2 1 * *", Level.MONTH),
        ("15 0 1 1,4,7,10 *", Level.MONTH),
        ("0 0 29 2 *", Level.YEAR),
    ],
)
def test_the_level_is_the_finest_field_with_more_than_one_value(cron: str, level: Level) -> None:
    assert parse_cron(cron).level is level


def test_a_date_matches_either_day_field_where_both_are_restricted() -> None:
    either = parse_cron("0 0 13 * fri")
    both = parse_cron("0 0 */13 * fri")

    # 2024-09-13 is a Friday; the 20th is one too, 2024-10-13 is a Sunday.
    assert [either.matches(date(2024, 9, day)) for day in (13, 20, 21)] == [True, True, False]
    assert either.matches(date(2024, 10, 13))
    assert not both.matches(date(2024, 9, 13))
    assert both.matches(date(2024, 11, 1))


@pytest.mark.parametrize(
    ("cron", "told"),
    [
        ("", "0 fields"),
        ("10 0 * *", "4 fields"),
        ("0 10 0 * * *", "6 fields"),
        ("60 0 * * *", 'the minute "60"; allowed is 0 to 59'),
        ("0 24 * * *", 'the hour "24"'),
        ("0 0 0 * *", 'the day-of-month "0"'),
        ("0 0 1 13 *", 'the month "13"'),
        ("0 0 * * 8", 'the day-of-week "8"'),
        ("0 0 * * sat-sun", 'the day-of-week "sat-sun"'),
        ("0 22-2 * * *", 'the hour "22-2"'),
        ("*/0 * * * *", 'the minute "*/0"'),
        ("1, * * * *", 'the minute "1,"'),
        ("0 0 ? * *", 'the field "?"'),
        ("0 0 * * fri#2", 'the field "fri#2"'),
        ("0 0 L * *", "L or LW"),
        ("0 0 LW * *", "L or LW"),
        ("0 0 * * 5L", "L or LW"),
        ("0 0 30 2 *", "never fires"),
        ("0 0 31 4,6,9,11 *", "never fires"),
        ("@reboot", "unknown word"),
        ("@every 5m", "unknown word"),
    ],
)
def test_what_cannot_be_read_or_never_fires_is_refused_with_the_reason(
    cron: str, told: str
) -> None:
    with pytest.raises(CronError) as caught:
        parse_cron(cron)
    assert told in str(caught.value)


def test_an_impossible_day_of_the_month_is_no_error_where_weekdays_fire_as_well() -> None:
    assert parse_cron("0 0 30 2 mon").matches(date(2024, 2, 5))


def test_a_wall_time_that_occurs_twice_fires_twice_within_a_day() -> None:
    found = by_clock("10 * * * *", "America/Los_Angeles", "2018-11-04T07:30", "2018-11-04T10:30")

    assert found == ["04 08:10", "04 09:10", "04 10:10"]
    two = by_clock("10 1,2 * * *", "America/Los_Angeles", "2018-11-04T00:00", "2018-11-05T00:00")
    assert two == ["04 08:10", "04 09:10", "04 10:10"]


def test_a_wall_time_in_a_gap_does_not_fire_within_a_day() -> None:
    found = by_clock(
        "30 1,2,3 * * *", "America/Los_Angeles", "2018-03-11T00:00", "2018-03-12T00:00"
    )

    assert found == ["11 09:30", "11 10:30"]


def test_half_an_hour_of_daylight_saving_time_repeats_half_an_hour() -> None:
    found = by_clock(
        "*/20 1,2 * * *", "Australia/Lord_Howe", "2024-04-06T14:00", "2024-04-06T16:30"
    )

    # 02:00 at +11 becomes 01:30 at +10:30, so only 01:40 occurs twice.
    assert found == [
        "06 14:00",
        "06 14:20",
        "06 14:40",
        "06 15:10",
        "06 15:30",
        "06 15:50",
        "06 16:10",
    ]


def test_a_daily_fire_in_an_overlap_is_the_first_and_in_a_gap_the_instant_after_it() -> None:
    overlap = by_date("30 1 * * *", "America/Los_Angeles", "2018-11-04T00:00", "2018-11-05T00:00")
    gap = by_date("30 2 * * *", "America/Los_Angeles", "2018-03-11T00:00", "2018-03-12T00:00")

    assert overlap == ["04 08:30"]
    assert gap == ["11 10:00"]


def test_a_skipped_day_fires_when_the_next_one_begins() -> None:
    found = by_date("10 5 * * *", "Pacific/Apia", "2011-12-29T00:00", "2011-12-31T00:00")

    # 30 December 2011 did not take place in Samoa; the 31st began at 10:00 UTC on the 30th.
    assert found == ["29 15:10", "30 10:00", "30 15:10"]


def test_stretches_end_before_their_high() -> None:
    assert by_clock("0 * * * *", "UTC", "2024-01-01T01:00", "2024-01-01T03:00") == [
        "01 01:00",
        "01 02:00",
    ]
    assert by_date("0 0 * * *", "UTC", "2024-01-01T00:00", "2024-01-02T00:00") == ["01 00:00"]
    assert by_clock("0 * * * *", "UTC", "2024-01-01T01:00", "2024-01-01T01:00") == []


def test_the_first_instant_of_a_local_time_is_that_after_a_gap() -> None:
    berlin = find_zone("Europe/Berlin")

    assert first_instant(datetime.fromisoformat("2024-03-31T02:15"), berlin) == ms(
        "2024-03-31T01:00"
    )
    assert first_instant(datetime.fromisoformat("2024-10-27T02:15"), berlin) == ms(
        "2024-10-27T00:15"
    )
    assert first_instant(datetime.fromisoformat("2024-05-01"), berlin) == ms("2024-04-30T22:00")
