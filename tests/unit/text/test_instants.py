"""Texts of watermark ends: vectors of rules P3 to P5."""

from datetime import datetime

import pytest

from dil.text.instants import Instant, InstantError, parse_instant

LA = "America/Los_Angeles"


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


NOW = ms("2021-03-15T10:42:33.999-07:00")


def parse(text: str, *, now: int = NOW, zone: str = LA, end: bool = True) -> Instant:
    return parse_instant(text, now_ms=now, zone=zone, end=end)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P0D", "2021-03-15T00:00-07:00"),
        ("P1D", "2021-03-14T00:00-08:00"),
        ("P30D", "2021-02-13T00:00-08:00"),
        ("P0DT7H", "2021-03-15T03:00-07:00"),
        ("P1DT2H", "2021-03-14T08:00-07:00"),
        ("P1DT10H", "2021-03-13T23:00-08:00"),
        ("P0DT0H5M", "2021-03-15T10:37-07:00"),
        ("P1DT5M", "2021-03-14T10:37-07:00"),
        ("P0DT0H0M", "2021-03-15T10:42-07:00"),
        ("-", "2021-03-15T10:42-07:00"),
    ],
)
def test_a_duration_is_cut_by_its_form_then_days_are_taken_off_the_calendar(
    text: str, expected: str
) -> None:
    assert parse(text) == Instant(ms(expected), LA)


@pytest.mark.parametrize(
    ("text", "expected", "zone"),
    [
        ("P0D.UTC", "2021-03-15T00:00+00:00", "UTC"),
        ("P1DT1H.Europe/Paris", "2021-03-14T17:00+01:00", "Europe/Paris"),
        ("P0D.+05:30", "2021-03-15T00:00+05:30", "+05:30"),
        ("P0DT0H.Asia/Kolkata", "2021-03-15T23:00+05:30", "Asia/Kolkata"),
        ("P0D.PST", "2021-03-15T00:00-07:00", LA),
    ],
)
def test_a_zone_after_a_duration_changes_cut_and_subtraction(
    text: str, expected: str, zone: str
) -> None:
    assert parse(text) == Instant(ms(expected), zone)


def test_days_before_an_hour_that_exists_twice_take_the_earlier_one() -> None:
    now = ms("2021-11-08T01:02:28-08:00")

    assert parse("P1DT0H", now=now).ms == ms("2021-11-07T01:00-07:00")


def test_now_in_the_second_of_two_equal_hours_stays_there() -> None:
    now = ms("2021-11-07T01:30:30-08:00")

    assert parse("-", now=now).ms == ms("2021-11-07T01:30-08:00")


def test_midnight_that_does_not_exist_moves_forward_by_the_gap() -> None:
    now = ms("2018-11-04T12:00-02:00")

    assert parse("P0D.America/Sao_Paulo", now=now).ms == ms("2018-11-04T01:00-02:00")
    assert parse("P1D.America/Sao_Paulo", now=now).ms == ms("2018-11-03T00:00-03:00")


@pytest.mark.parametrize(
    ("text", "expected", "zone"),
    [
        ("2017-01-01", 1483257600000, LA),
        ("2019-01-01", 1546329600000, LA),
        ("2021-11-07 01:30:00", 1636273800000, LA),
        ("2021-07-01 00:00:00PST", ms("2021-07-01T00:00-07:00"), LA),
        ("2021-01-01T00:00:00EDT", ms("2021-01-01T00:00-05:00"), "America/New_York"),
        ("2020-01-01 00:00:00+0100", 1577833200000, "+01:00"),
        ("2020-01-01T00:00:00-05:30", ms("2020-01-01T00:00-05:30"), "-05:30"),
        ("2020-01-01T00:00:00+00:00", 1577836800000, "UTC"),
        ("2020-01-01T00:00:00Z", 1577836800000, "UTC"),
        ("2020-01-01 00:00:00UT", 1577836800000, "UTC"),
        ("2020-01-01 00:00:00.5GMT", 1577836800500, "UTC"),
        ("2020-01-01T00:00:00.123999America/Los_Angeles", 1577865600123, LA),
        ("2020-01-01 00:00:00.12", 1577865600120, LA),
        ("1969-12-31 23:59:59.999Z", -1, "UTC"),
    ],
)
def test_written_times_keep_their_zone_and_whole_milliseconds(
    text: str, expected: int, zone: str
) -> None:
    assert parse(text, end=False) == Instant(expected, zone)


def test_the_default_zone_applies_only_where_none_is_written() -> None:
    assert parse("2020-01-01", zone="Europe/Paris").ms == ms("2020-01-01T00:00+01:00")
    assert parse("2020-01-01 00:00:00Z", zone="Europe/Paris").zone == "UTC"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 2020-01-01",
        "2020-01-01 ",
        "2020-01-01\n",
        "2020-1-1",
        "2020-01-01Z",
        "2020-01-01 00:00",
        "2020-01-01  00:00:00",
        "2020-01-01 00:00:00 UTC",
        "2020-01-01 00:00:00.",
        "2020-01-01 00:00:00.1234567",
        "2020-02-30",
        "2020-01-01 24:00:00",
        "2020-01-01 00:00:60",
        "0000-01-01",
        "2020-01-01 00:00:00+1",
        "2020-01-01 00:00:00+24:00",
        "2020-01-01 00:00:00Mars/Olympus",
        "2020-01-01 00:00:00America",
        "2020-01-01 00:00:00../UTC",
        "2020-01-01 00:00:00posixrules",
        "٢٠٢٠-01-01",
        "P",
        "PT5H",
        "P1DT",
        "P1D5M",
        "P1DT5M2H",
        "P0DT24H",
        "P0DT0H60M",
        "P-1D",
        "P1W",
        "p1d",
        "P1D.",
        "P1D.Nowhere",
        "P1DT.UTC",
        "P800000D",
        "P999999999999D",
        "now",
    ],
)
def test_anything_else_is_refused_and_never_cut_to_a_date(text: str) -> None:
    with pytest.raises(InstantError):
        parse(text)


def test_a_time_in_a_gap_is_refused_with_the_gap_and_what_to_write() -> None:
    with pytest.raises(InstantError) as caught:
        parse("2021-03-14 02:30:00")

    assert "from 2021-03-14 02:00:00 to 2021-03-14 03:00:00" in str(caught.value)
    assert parse("2021-03-14 03:00:00").ms == ms("2021-03-14T03:00-07:00")


def test_a_skipped_day_is_refused_as_a_gap() -> None:
    with pytest.raises(InstantError, match="2011-12-31 00:00:00"):
        parse("2011-12-30 12:00:00Pacific/Apia")


def test_a_hyphen_is_allowed_only_as_end() -> None:
    with pytest.raises(InstantError):
        parse("-", end=False)
