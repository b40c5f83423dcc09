from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.errors import ConversionError
from dil.model.arrow import raw_schema, type_word, typed_schema
from dil.model.job import OutputFormat
from dil.model.schema import ArrayType, Column, EnumType, MapType, Primitive, RecordType, Schema
from dil.text.joda import compile_pattern
from tests.unit.conversion.conversion_jobs import chain, convert, facts

UTC = dt.UTC
INSTANT = pa.timestamp("us", tz="UTC")


def column(word: str, name: str = "c", *, nullable: bool = True) -> Schema:
    return (Column(name, Primitive(word), nullable),)


def values(schema: Schema, texts: list[Any], **job: Any) -> list[Any]:
    name = schema[0].name
    return convert([{name: text} for text in texts], schema=schema, **job).column(name).to_pylist()


def test_jobs_that_take_turns_have_their_own_types() -> None:
    formats = [OutputFormat.PARQUET, OutputFormat.AVRO] * 2
    rows = [{"c": "08:30"}]
    found = [convert(rows, schema=column("time"), output_format=each)["c"].type for each in formats]
    assert found == [pa.time64("us"), INSTANT] * 2


def test_timestamps_are_parsed_in_the_jobs_zone_with_the_first_format_that_fits() -> None:
    formats = ["yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ssZ"]
    texts = ["2020-01-01 00:00:00", "2020-01-01T00:00:00+0100", None]
    found = values(column("timestamp"), texts, timestamp_formats=formats, zone="Asia/Kolkata")
    assert found == [
        dt.datetime(2019, 12, 31, 18, 30, tzinfo=UTC),
        dt.datetime(2019, 12, 31, 23, 0, tzinfo=UTC),
        None,
    ]


@pytest.mark.parametrize("word", ["date", "timestamp"])
def test_the_whole_text_must_fit_the_default_format(word: str) -> None:
    with pytest.raises(ConversionError) as caught:
        values(column(word), ["2020-01-01 00:00:00", "20200101"])
    assert caught.value.code == "DIL-CONVERT"
    assert 'column "c", row 2' in caught.value.message
    assert "20200101" not in caught.value.message
    assert '"99999999" (9 means a digit, a means a letter)' in caught.value.message
    assert caught.value.fix.startswith(f"Set converter.avro.{word}.format=yyyyMMdd. ")


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2024-03-05", 0),
        ("2024-03-05T01:02", 3_720_000_000),
        ("2024-03-05T01:02:03", 3_723_000_000),
        ("2024-03-05 01:02:03.5", 3_723_500_000),
        ("2024-03-05T01:02:03.123456", 3_723_123_456),
        ("2024-03-05T01:02:03.123456000Z", 3_723_123_456),
        ("2024-03-05T03:02:03+02", 3_723_000_000),
        ("2024-03-04T23:02:03.123-0200", 3_723_123_000),
        ("2024-03-05T01:02:03.123+00:00", 3_723_123_000),
    ],
)
@pytest.mark.parametrize("formats", ["yyyy-MM-dd HH:mm:ss", "dd/MM/yyyy"])
def test_a_whole_text_of_iso_8601_is_a_timestamp_beside_any_pattern(
    text: str, micros: int, formats: str
) -> None:
    wanted = dt.datetime(2024, 3, 5, tzinfo=UTC) + dt.timedelta(microseconds=micros)
    assert values(column("timestamp"), [text, None], timestamp_formats=[formats]) == [wanted, None]


@pytest.mark.parametrize(
    ("word", "text", "advice"),
    [
        (
            "timestamp",
            "2024-03-05T01:02:03.1234567Z",
            "timestamp.format=yyyy-MM-dd'T'HH:mm:ss.SSSSSSSZZ, which cuts the digits after the "
            "milliseconds, or declare the column as string. ",
        ),
        (
            "timestamp",
            "2024-03-05 01:02:03.123456789+00:00",
            "timestamp.format=yyyy-MM-dd HH:mm:ss.SSSSSSSSSZZ, which cuts the digits after the "
            "milliseconds, or declare the column as string. ",
        ),
        (
            "date",
            "2024-03-05T01:02:03Z",
            "date.format=yyyy-MM-dd'T'HH:mm:ssZZ, which cuts the time off, or declare the column "
            "as timestamp. ",
        ),
        (
            "time",
            "01:02:03.1234567",
            "time.format=HH:mm:ss.SSSSSSS, which cuts the digits after the milliseconds, or "
            "declare the column as string. ",
        ),
    ],
)
def test_a_text_of_which_the_type_would_lose_a_part_fails_with_the_pattern_that_allows_it(
    word: str, text: str, advice: str
) -> None:
    with pytest.raises(ConversionError) as caught:
        values(column(word), [text])
    assert caught.value.fix.startswith(f"Set converter.avro.{advice}")
    pattern = advice.partition("=")[2].partition(", which")[0]
    (read,) = values(column(word), [text], **{f"{word}_formats": [pattern]})
    cut = text[: text.index(".") + 4] if "." in text else text
    whole = dt.datetime.fromisoformat(cut if word != "time" else f"2024-03-05T{cut}")
    parts = {"date": whole.date(), "time": whole.time(), "timestamp": whole.replace(tzinfo=UTC)}
    assert read == parts[word]


def test_digits_that_avro_does_not_hold_are_not_cut() -> None:
    batch = convert(
        [{"c": "2024-03-05T01:02:03.123000Z"}],
        schema=column("timestamp"),
        output_format=OutputFormat.AVRO,
    )
    assert batch.column("c")[0].as_py() == dt.datetime(2024, 3, 5, 1, 2, 3, 123_000, tzinfo=UTC)
    with pytest.raises(ConversionError, match="does not fit"):
        convert(
            [{"c": "2024-03-05T01:02:03.123400Z"}],
            schema=column("timestamp"),
            output_format=OutputFormat.AVRO,
        )


def test_a_pattern_that_reads_no_text_says_why() -> None:
    with pytest.raises(ConversionError) as caught:
        values(column("date"), ["2020-W01"], date_formats=["xxxx-'W'ww"])
    assert compile_pattern("xxxx-'W'ww").unreadable in caught.value.message


@pytest.mark.parametrize("output", [OutputFormat.PARQUET, OutputFormat.AVRO])
def test_a_two_digit_year_has_the_century_that_the_runs_now_gives_it(output: OutputFormat) -> None:
    texts = ["01-JAN-39", "01-jan-40", "1-Jan-2040", "2040-01-01"]
    years = [
        each.year
        for word, formats in (("date", "date_formats"), ("timestamp", "timestamp_formats"))
        for each in values(
            column(word), texts, output_format=output, zone="UTC", **{formats: ["dd-MMM-yy"]}
        )
    ]
    assert years == [2039, 1940, 2040, 2040] * 2


def test_a_text_that_has_the_form_of_a_pattern_is_not_read_as_iso_8601() -> None:
    texts = ["2024-05-06", "2024-05-13"]
    assert values(column("date"), texts[:1], date_formats=["yyyy-dd-MM"]) == [dt.date(2024, 6, 5)]
    with pytest.raises(ConversionError, match="row 2"):
        values(column("date"), texts, date_formats=["yyyy-dd-MM"])


@pytest.mark.parametrize(
    ("pattern", "fits", "iso"),
    [
        # The Z is literal: such texts are in the job's zone, and others would be 8 hours off.
        ("yyyy-MM-dd'T'HH:mm:ss'Z'", "2024-03-05T01:02:03Z", "2024-03-05T01:02:03.5Z"),
        ("yyyy-MM-dd'T'HH:mm:ss'+00:00'", "2024-03-05T01:02:03+00:00", "2024-03-05T01:02:03Z"),
        ("yyyy-dd-MM HH:mm:ss", "2024-05-03 01:02:03", "2024-03-05T01:02:03"),
        ("YYYY-dd-MM HH:mm:ss", "2024-05-03 01:02:03", "2024-03-05T01:02:03"),
    ],
)
def test_iso_8601_is_not_read_where_a_pattern_takes_such_texts_for_something_else(
    pattern: str, fits: str, iso: str
) -> None:
    job = {"timestamp_formats": [pattern], "zone": "America/Los_Angeles"}
    assert values(column("timestamp"), [fits], **job) == [
        dt.datetime(2024, 3, 5, 9, 2, 3, tzinfo=UTC)
    ]
    with pytest.raises(ConversionError, match="row 2"):
        values(column("timestamp"), [fits, iso], **job)


def test_a_literal_z_is_the_jobs_zone_where_that_is_utc() -> None:
    texts = ["2024-03-05T01:02:03Z", "2024-03-05T01:02:03.5Z"]
    found = values(column("timestamp"), texts, timestamp_formats=["yyyy-MM-dd'T'HH:mm:ss'Z'"])
    assert [each.second + each.microsecond / 1e6 for each in found] == [3, 3.5]


def test_a_midnight_of_iso_8601_is_a_date_in_the_jobs_zone() -> None:
    texts = ["2018-11-04", "2018-11-04T00:00:00", "2018-11-04T00:00:00-05:00"]
    zone = "America/Sao_Paulo"  # where clocks went from 00:00 to 01:00 that day
    assert values(column("date"), texts[:2], zone=zone) == [dt.date(2018, 11, 4)] * 2
    assert values(column("date"), texts[2:], zone="America/Bogota") == [dt.date(2018, 11, 4)]
    with pytest.raises(ConversionError):
        values(column("date"), texts[2:], zone=zone)


def test_a_time_that_clocks_skip_is_no_timestamp() -> None:
    with pytest.raises(ConversionError):
        values(column("timestamp"), ["2024-03-10T02:30:00"], zone="America/Los_Angeles")


@pytest.mark.parametrize(("text", "expected"), [("08:30", 30_600), ("08:30:15.25", 30_615.25)])
def test_a_time_of_iso_8601_is_a_time_of_the_day(text: str, expected: float) -> None:
    when = dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(seconds=expected)
    assert values(column("time"), [text]) == [when.time()]
    batch = convert([{"c": text}], schema=column("time"), output_format=OutputFormat.AVRO)
    assert batch.column("c").to_pylist() == [when]


@pytest.mark.parametrize("text", ["2024-02-30T01:02:03Z", "2024-13-01"])
def test_a_text_of_iso_8601_that_is_no_date_is_the_sources_to_correct(text: str) -> None:
    with pytest.raises(ConversionError) as caught:
        values(column("timestamp"), [text])
    assert caught.value.fix.startswith("Correct the source")


def test_a_text_of_unknown_form_names_the_property_that_says_how_to_read_it() -> None:
    with pytest.raises(ConversionError) as caught:
        values(column("time"), ["half past ten"])
    assert caught.value.fix.startswith("Set converter.avro.time.format to the pattern")


def test_a_text_of_the_right_form_that_is_no_date_is_the_sources_to_correct() -> None:
    with pytest.raises(ConversionError) as caught:
        values(column("date"), ["2020-13-01"], date_formats=("yyyy-MM-dd",))
    assert caught.value.fix.startswith("Correct the source")


def test_dates_and_times_are_what_the_text_says_whatever_the_zone() -> None:
    zone = "America/Los_Angeles"
    assert values(column("date"), ["2020-01-01 23:59:59"], zone=zone) == [dt.date(2020, 1, 1)]
    assert values(column("time"), ["08:30:00", "23:59:59"], zone=zone) == [
        dt.time(8, 30),
        dt.time(23, 59, 59),
    ]


def test_a_date_with_its_own_offset_is_the_date_in_the_jobs_zone() -> None:
    job = {"date_formats": ["yyyy-MM-dd'T'HH:mm:ssZ"], "zone": "Asia/Kolkata"}
    assert values(column("date"), ["2020-01-01T20:00:00+0000"], **job) == [dt.date(2020, 1, 2)]


@pytest.mark.parametrize(
    ("word", "text", "zone", "expected"),
    [
        ("time", "08:30:00", "UTC", 30600000),
        ("time", "23:00:00", "America/Los_Angeles", 111600000),
        ("date", "2020-01-01 10:30:00", "UTC", 1577874600000),
        ("date", "2020-01-01 00:00:00", "America/Los_Angeles", 1577865600000),
        ("timestamp", "1969-12-31 23:59:59", "UTC", -1000),
    ],
)
def test_for_avro_every_temporal_text_is_an_instant(
    word: str, text: str, zone: str, expected: int
) -> None:
    batch = convert([{"c": text}], schema=column(word), zone=zone, output_format=OutputFormat.AVRO)
    assert batch.schema.field("c").type == INSTANT
    assert type_word(batch.schema.field("c")) == word
    assert batch.column("c").cast(pa.int64()).to_pylist() == [expected * 1000]


def test_bytes_are_the_text_in_the_jobs_charset() -> None:
    assert values(column("bytes"), ["é", None]) == ["é".encode(), None]
    assert values(column("bytes"), ["é"], binary_charset="ISO-8859-1") == [b"\xe9"]
    with pytest.raises(ConversionError):
        values(column("bytes"), ["€"], binary_charset="ISO-8859-1")


def test_an_enum_takes_its_symbols_only() -> None:
    schema = (Column("c", EnumType("color", ("red", "blue"))),)
    assert values(schema, ["red", None]) == ["red", None]
    with pytest.raises(ConversionError, match="red, blue"):
        values(schema, ["red", "RED"])


def test_null_in_a_column_that_is_not_nullable_fails() -> None:
    with pytest.raises(ConversionError) as caught:
        values(column("long", nullable=False), [1, None])
    assert "row 2" in caught.value.message


NESTED: Schema = (
    Column(
        "r",
        RecordType(
            (
                Column("at", Primitive("timestamp")),
                Column("must", Primitive("int"), nullable=False),
                Column("days", ArrayType(Primitive("date"))),
                Column("raw", MapType(Primitive("bytes"), values_nullable=False)),
            )
        ),
    ),
    Column("id", Primitive("long"), nullable=False),
)


def nested(**members: Any) -> dict[str, Any]:
    return {"must": 1, "at": None, "days": None, "raw": None, **members}


def test_nested_values_are_typed_too() -> None:
    rows = [
        {"id": 1, "r": None},
        {
            "id": 2,
            "r": nested(
                at="2020-01-01 00:00:00", days=["2020-01-02 00:00:00", None], raw=[("k", "v")]
            ),
        },
        {"id": 3, "r": nested(days=[], raw=[])},
    ]
    batch = convert(rows, schema=NESTED)
    assert batch.schema.equals(typed_schema(NESTED), check_metadata=True)
    assert batch.to_pylist(maps_as_pydicts="strict") == [
        {"r": None, "id": 1},
        {
            "r": {
                "at": dt.datetime(2020, 1, 1, tzinfo=UTC),
                "must": 1,
                "days": [dt.date(2020, 1, 2), None],
                "raw": {"k": b"v"},
            },
            "id": 2,
        },
        {"r": {"at": None, "must": 1, "days": [], "raw": {}}, "id": 3},
    ]


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        (nested(must=None), "r.must"),
        (nested(at="soon"), "r.at"),
        (nested(days=["2020-01-02 00:00:00", "x"]), "r.days[]"),
        (nested(raw=[("k", None)]), "r.raw.*"),
    ],
)
def test_a_nested_failure_names_path_and_row(bad: dict[str, Any], path: str) -> None:
    rows = [{"id": 1, "r": nested()}, {"id": 2, "r": None}, {"id": 3, "r": bad}]
    with pytest.raises(ConversionError) as caught:
        convert(rows, schema=NESTED)
    assert f'column "{path}", row 3' in caught.value.message
    (kept,) = [convert(rows, schema=NESTED, max_failures=1)]
    assert kept.column("id").to_pylist() == [1, 2]


def test_n_failures_are_dropped_and_the_next_one_fails_counted_over_the_work_unit() -> None:
    job = chain(schema=column("timestamp"), max_failures=2)
    raw = raw_schema(column("timestamp"))
    good = "2020-01-01 00:00:00"

    def run(texts: list[str]) -> list[int]:
        batch = pa.RecordBatch.from_pylist([{"c": text} for text in texts], schema=raw)
        return [out.num_rows for out in job.convert(batch, facts())]

    assert run([good, "x", good]) == [2]
    assert run(["y"]) == []
    assert job.dropped == 2
    with pytest.raises(ConversionError) as caught:
        run([good, "z"])
    assert "row 6 of the work unit" in caught.value.message
    assert job.dropped == 2


def test_a_row_with_two_bad_columns_is_one_failure() -> None:
    schema = (Column("a", Primitive("date")), Column("b", Primitive("date")))
    job = chain(schema=schema, max_failures=1)
    rows = [{"a": "x", "b": "y"}, {"a": None, "b": None}]
    batch = pa.RecordBatch.from_pylist(rows, schema=raw_schema(schema))
    (out,) = job.convert(batch, facts())
    assert (out.num_rows, job.dropped) == (1, 1)


def test_native_types_of_databases_become_ours() -> None:
    naive = pa.timestamp("ns")
    batch = pa.record_batch(
        {
            "i8": pa.array([1, None], pa.int8()),
            "u32": pa.array([2**32 - 1, 0], pa.uint32()),
            "u64": pa.array([2**64 - 1, 0], pa.uint64()),
            "ls": pa.array(["a", None], pa.large_string()),
            "dict": pa.array(["a", None]).dictionary_encode(),
            "naive": pa.array([1_577_836_800_000_000_001, None], naive),
            "zoned": pa.array([0, None], pa.timestamp("s", tz="Asia/Kolkata")),
            "d64": pa.array([86_400_000, None], pa.date64()),
            "t32": pa.array([1000, None], pa.time32("ms")),
            "fsb": pa.array([b"ab", None], pa.binary(2)),
            "none": pa.nulls(2),
            "ll": pa.array([[1], None], pa.large_list(pa.int16())),
            "dec": pa.array([Decimal(12300), None], pa.decimal128(5, 0)).cast(pa.decimal256(40, 0)),
            "neg": pa.array([Decimal(12300), None], pa.decimal128(3, -2)),
        }
    )
    typed = convert(batch)
    assert typed.schema.types == [
        pa.int32(),
        pa.int64(),
        pa.decimal128(20, 0),
        pa.string(),
        pa.string(),
        INSTANT,
        INSTANT,
        pa.date32(),
        pa.time64("us"),
        pa.binary(),
        pa.string(),
        pa.list_(pa.int32()),
        pa.string(),
        pa.decimal128(5, 0),
    ]
    assert list(typed.slice(0, 1).to_pylist()[0].values()) == [
        1,
        2**32 - 1,
        Decimal(2**64 - 1),
        "a",
        "a",
        dt.datetime(2020, 1, 1, tzinfo=UTC),
        dt.datetime(1970, 1, 1, tzinfo=UTC),
        dt.date(1970, 1, 2),
        dt.time(0, 0, 1),
        b"ab",
        None,
        [1],
        "12300",
        Decimal(12300),
    ]
    assert all(value is None for value in typed.to_pylist()[1].values() if value != 0)


def test_a_type_without_any_written_form_is_named() -> None:
    batch = pa.record_batch({"span": pa.array([None], pa.month_day_nano_interval())})
    with pytest.raises(ConversionError, match="span"):
        convert(batch)


def test_a_declared_type_narrower_than_the_databases_is_checked_value_by_value() -> None:
    batch = pa.record_batch({"c": [1.0, 2.5, None]})
    with pytest.raises(ConversionError, match="row 2"):
        convert(batch, schema=column("int"))
    kept = convert(batch, schema=column("int"), max_failures=1)
    assert kept.column("c").to_pylist() == [1, None]


def test_a_column_that_a_converter_made_into_another_type_keeps_it() -> None:
    field = pa.field("c", pa.string(), metadata={b"dil.type": b"string"})
    batch = pa.RecordBatch.from_arrays([pa.array(["ENC(x)"])], schema=pa.schema([field]))
    assert convert(batch, schema=column("int")).column("c").to_pylist() == ["ENC(x)"]


def test_columns_already_typed_pass_without_a_copy() -> None:
    batch = pa.record_batch({"a": [1, 2], "b": [["x"], None]})
    typed = convert(batch)
    for before, after in zip(batch.columns, typed.columns, strict=True):
        assert [b and b.address for b in before.buffers()] == [
            b and b.address for b in after.buffers()
        ]


INSTANTS = st.lists(
    st.none() | st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)),  # noqa: DTZ001
    min_size=1,
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(moments=INSTANTS, size=st.integers(0, 4))
def test_what_is_printed_with_a_format_is_read_back(
    moments: list[dt.datetime | None], size: int
) -> None:
    """Lists of any lengths, read from a slice: positions and offsets must not get mixed up."""
    schema = (Column("l", ArrayType(RecordType((Column("t", Primitive("timestamp")),)))),)
    items = [
        None if m is None else {"t": m.strftime("%Y-%m-%d %H:%M:%S") if m.year > 999 else None}
        for m in moments
    ]
    rows = [{"l": items[:size]}, {"l": None}, {"l": items}, {"l": []}, {"l": [*items, None]}]
    raw = pa.RecordBatch.from_pylist([rows[-1], *rows], schema=raw_schema(schema)).slice(1)
    found = convert(raw, schema=schema).to_pylist()
    expected = [None if m is None else {"t": m.replace(microsecond=0, tzinfo=UTC)} for m in moments]
    assert found == [
        {"l": expected[:size]},
        {"l": None},
        {"l": expected},
        {"l": []},
        {"l": [*expected, None]},
    ]
