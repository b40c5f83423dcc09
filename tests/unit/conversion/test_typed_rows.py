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
from tests.unit.conversion.conversion_jobs import chain, convert, facts

UTC = dt.UTC
INSTANT = pa.timestamp("us", tz="UTC")


def column(word: str, name: str = "c", *, nullable: bool = True) -> Schema:
    return (Column(name, Primitive(word), nullable),)


def values(schema: Schema, texts: list[Any], **job: Any) -> list[Any]:
    name = schema[0].name
    return convert([{name: text} for text in texts], schema=schema, **job).column(name).to_pylist()


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
        values(column(word), ["2020-01-01 00:00:00", "2020-01-01"])
    assert caught.value.code == "DIL-CONVERT"
    assert 'column "c", row 2' in caught.value.message
    assert "2020-01-01" not in caught.value.message
    assert '"9999-99-99" (9 stands for a digit, a for a letter)' in caught.value.message
    assert caught.value.fix.startswith(f"Set converter.avro.{word}.format=yyyy-MM-dd. ")


@pytest.mark.parametrize(
    "text",
    [
        "2024-03-05T01:02:03",
        "2024-03-05T01:02:03.123",
        "2024-03-05T01:02:03Z",
        "2024-03-05T01:02:03.123Z",
        "2024-03-05T01:02:03+02:00",
        "2024-03-05T01:02:03.123-02:00",
    ],
)
def test_the_pattern_that_is_proposed_for_a_text_of_iso_8601_reads_it(text: str) -> None:
    with pytest.raises(ConversionError) as caught:
        values(column("timestamp"), [text])
    proposed = caught.value.fix.removeprefix("Set converter.avro.timestamp.format=")
    pattern = proposed.partition(". To")[0]
    wanted = dt.datetime.fromisoformat(text)
    wanted = wanted if wanted.tzinfo else wanted.replace(tzinfo=UTC)
    assert values(column("timestamp"), [text], timestamp_formats=[pattern]) == [wanted]


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
