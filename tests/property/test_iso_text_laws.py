"""A text of ISO 8601 becomes a value that says all of it, or none."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.conversion.iso_texts import word_of_texts
from dil.conversion.values import Values
from dil.model.job import ConversionSpec, OutputFormat

MANY = settings(max_examples=300, deadline=None)
FORMATS = st.sampled_from(OutputFormat)
DAYS = st.dates(dt.date(1, 1, 2), dt.date(9999, 12, 30))
CLOCKS = st.builds("{:02}:{:02}:{:02}".format, *(st.integers(0, top) for top in (23, 59, 59)))
FRACTIONS = st.just("") | st.text("0123456789", min_size=1, max_size=12)
OFFSETS = st.sampled_from(["", "Z", "+00", "+05:30", "-0330", "+14:00", "-12"])
INSTANT, TIME = pa.timestamp("us", "UTC"), pa.time64("us")


def converted(text: str, word: str, target: pa.DataType, output: OutputFormat) -> int | None:
    """Return the value as the integer that its type holds: days, or microseconds."""
    array, _ = Values(ConversionSpec(), output, run_now=0).convert(
        pa.array([text]), word, target, ()
    )
    is_day = pa.types.is_date(target)
    return array.cast(pa.int32() if is_day else pa.int64())[0].as_py()


def micros_of(clock: str, fraction: str) -> Decimal:
    """Return the exact time of day, by another way of counting than that of the code."""
    hours, minutes, seconds = map(int, clock.split(":"))
    exact = Decimal((hours * 60 + minutes) * 60 + seconds) + Decimal(f"0.{fraction or 0}")
    return exact * 1_000_000


def offset_minutes(offset: str) -> int:
    digits = offset.strip("Z+-").replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return -minutes if offset.startswith("-") else minutes


def held(exact: Decimal, output: OutputFormat) -> int | None:
    """Return the value if the type of the output format holds it whole: Avro has milliseconds."""
    step = 1000 if output is OutputFormat.AVRO else 1
    return int(exact) if exact % step == 0 else None


@MANY
@given(DAYS, st.sampled_from("T "), CLOCKS, FRACTIONS, OFFSETS, FORMATS)
def test_an_instant_is_the_whole_text_or_nothing(
    day: dt.date, between: str, clock: str, fraction: str, offset: str, output: OutputFormat
) -> None:
    text = f"{day}{between}{clock}{'.' * bool(fraction)}{fraction}{offset}"
    days = (day - dt.date(1970, 1, 1)).days * 86_400_000_000
    exact = days + micros_of(clock, fraction) - offset_minutes(offset) * 60_000_000
    assert converted(text, "timestamp", INSTANT, output) == held(exact, output)


@MANY
@given(CLOCKS, FRACTIONS)
def test_a_time_is_the_whole_text_or_nothing(clock: str, fraction: str) -> None:
    text = f"{clock}{'.' * bool(fraction)}{fraction}"
    exact = held(micros_of(clock, fraction), OutputFormat.PARQUET)
    assert converted(text, "time", TIME, OutputFormat.PARQUET) == exact


@MANY
@given(DAYS, CLOCKS, FRACTIONS, OFFSETS)
def test_a_date_has_no_time_but_midnight(
    day: dt.date, clock: str, fraction: str, offset: str
) -> None:
    text = f"{day}T{clock}{'.' * bool(fraction)}{fraction}{offset}"
    exact = micros_of(clock, fraction) - offset_minutes(offset) * 60_000_000
    days, rest = divmod(exact, 86_400_000_000)
    if rest < 0:
        days, rest = days - 1, rest + 86_400_000_000
    wanted = None if rest else (day - dt.date(1970, 1, 1)).days + int(days)
    assert converted(text, "date", pa.date32(), OutputFormat.PARQUET) == wanted


@MANY
@given(st.datetimes(timezones=st.just(dt.UTC)))
def test_what_is_read_prints_as_the_text_again(moment: dt.datetime) -> None:
    text = moment.isoformat()
    micros = converted(text, "timestamp", INSTANT, OutputFormat.PARQUET)
    assert micros is not None
    read = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)
    assert read.isoformat() == text


@MANY
@given(DAYS, CLOCKS, FRACTIONS, OFFSETS, FORMATS)
def test_texts_are_proposed_as_timestamps_exactly_where_their_column_reads_them(
    day: dt.date, clock: str, fraction: str, offset: str, output: OutputFormat
) -> None:
    text = f"{day}T{clock}{'.' * bool(fraction)}{fraction}{offset}"
    digits = 3 if output is OutputFormat.AVRO else 6
    is_read = converted(text, "timestamp", INSTANT, output) is not None
    assert word_of_texts(pa.array([None, text]), digits) == ("timestamp" if is_read else "")


@MANY
@given(DAYS, st.sampled_from(["", "x", "2024-02-30", "2024-03-05T01:02", "20240305"]))
def test_one_text_that_is_no_date_makes_the_column_a_text(day: dt.date, other: str) -> None:
    assert word_of_texts(pa.array([str(day), None]), 6) == "date"
    assert word_of_texts(pa.array([str(day), other]), 6) == ""
    assert word_of_texts(pa.array([None], pa.string()), 6) == ""
