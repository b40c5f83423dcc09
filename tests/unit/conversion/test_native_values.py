"""Columns that come in types of their own: brought to declared types exactly, or null."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from dil.conversion.values import Values
from dil.model.job import ConversionSpec, OutputFormat
from dil.types.fitting import fit_leaf

MIDNIGHT = dt.datetime(2020, 2, 29)  # noqa: DTZ001 - a time without a zone
NOON = dt.datetime(2020, 2, 29, 12)  # noqa: DTZ001 - a time without a zone


def converted(array: pa.Array, target: pa.DataType, zone: str = "UTC") -> list[object]:
    values = Values(ConversionSpec(zone=zone), OutputFormat.PARQUET, run_now=0)
    return values.convert(array, "", target, ())[0].to_pylist()


def test_a_time_is_a_date_only_at_midnight():
    array = pa.array([MIDNIGHT, NOON, None], pa.timestamp("us"))
    assert converted(array, pa.date32()) == [dt.date(2020, 2, 29), None, None]


def test_a_time_with_a_date_is_no_time_of_a_day():
    assert converted(pa.array([NOON], pa.timestamp("us")), pa.time64("us")) == [None]


@pytest.mark.parametrize("data_type", [pa.int32(), pa.string()])
def test_only_0_and_1_are_booleans(data_type):
    array = pa.array([0, 1, 2, None], pa.int32()).cast(data_type)
    assert converted(array, pa.bool_()) == [False, True, None, None]


def test_a_time_that_the_clocks_of_a_zone_skipped_is_none():
    skipped, twice = dt.datetime(2021, 3, 14, 2, 30), dt.datetime(2021, 11, 7, 1, 30)  # noqa: DTZ001
    array = pa.array([skipped, twice], pa.timestamp("us"))
    target = pa.timestamp("us", tz="UTC")
    assert converted(array, target, "America/Los_Angeles") == [
        None, dt.datetime(2021, 11, 7, 8, 30, tzinfo=dt.UTC)
    ]  # fmt: skip


def test_a_text_of_too_many_digits_is_no_decimal():
    target = pa.decimal128(38, 18)
    texts = pa.array(["1.5", "12345678901234567890123456789012345678"])
    assert fit_leaf(texts, target, declared=True).to_pylist() == [Decimal("1.5"), None]


@pytest.mark.parametrize("output", [OutputFormat.PARQUET, OutputFormat.AVRO])
def test_the_word_iso_takes_whole_texts_of_iso_8601_beside_other_patterns(output):
    spec = ConversionSpec(
        date_formats=("iso",), time_formats=("iso",), timestamp_formats=("dd.MM.yyyy", "iso"),
        zone="Europe/Berlin",
    )  # fmt: skip
    values = Values(spec, output, run_now=0)
    texts = pa.array(
        ["2024-07-01", "2024-07-01T10:00:00", "2024-07-01T10:00:00.123456Z", "01.07.2024",
         "2024-07-01T23:30:00-05:00", "2024-07-01 and more", "2024-13-01", None]
    )  # fmt: skip
    stamps, _ = values.convert(texts, "timestamp", pa.timestamp("us", "UTC"), ())
    digits = "123" if output is OutputFormat.AVRO else "123456"
    assert [each and each.isoformat() for each in stamps.to_pylist()] == [
        "2024-06-30T22:00:00+00:00", "2024-07-01T08:00:00+00:00",
        f"2024-07-01T10:00:00.{digits:<06}+00:00", "2024-06-30T22:00:00+00:00",
        "2024-07-02T04:30:00+00:00", None, None, None,
    ]  # fmt: skip
    days, reason = values.convert(texts, "date", pa.date32(), ())
    assert [each and each.isoformat() for each in days.to_pylist()] == [
        "2024-07-01", "2024-07-01", "2024-07-01", None, "2024-07-02", None, None, None,
    ]  # fmt: skip
    assert "iso" in reason.text
    clocks = pa.array(["08:30", "08:30:15.25", "8:30", "08:30Z", "24:61"])
    times, _ = values.convert(clocks, "time", pa.time64("us"), ())
    assert [each and each.isoformat() for each in times.to_pylist()] == [
        "08:30:00", "08:30:15.250000", None, None, None,
    ]  # fmt: skip
