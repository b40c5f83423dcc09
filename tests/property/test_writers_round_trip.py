"""Whatever is written comes back equal, read by something that is not ours."""

from __future__ import annotations

import base64
import csv
import datetime as dt
import io
import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import orc

from dil.model.job import OutputFormat, WritingSpec
from dil.writing.formats import reader_for, writer_for
from dil.writing.sink import MeasuredSink

UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
MIDNIGHT = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a local clock time

MANY = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)

FLAT: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), TEXT),
    (pa.bool_(), st.booleans()),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.binary(), st.binary(max_size=8)),
    (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    (
        pa.decimal128(20, 6),
        st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: Decimal((n < 0, _digits(n), -6))),
    ),
    (pa.date32(), st.dates()),
    (pa.time64("us"), st.times()),
    (
        pa.timestamp("us", tz="UTC"),
        # Arrow's ORC reader gives nanoseconds, which end in 2262.
        st.datetimes(
            timezones=st.just(UTC),
            min_value=dt.datetime(1678, 1, 1),  # noqa: DTZ001
            max_value=dt.datetime(2262, 1, 1),  # noqa: DTZ001
        )
        | st.just(EPOCH)
        | st.just(EPOCH - dt.timedelta(microseconds=1)),
    ),
]


def _digits(number: int) -> tuple[int, ...]:
    return tuple(int(digit) for digit in str(abs(number)))


@st.composite
def typed(draw: st.DrawFn, depth: int = 2) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    """Draw a type with a strategy for its values, None allowed everywhere."""
    kind = draw(st.sampled_from(["flat"] * 3 + (["struct", "list", "map"] if depth else [])))
    if kind == "flat":
        data_type, values = draw(st.sampled_from(FLAT))
    elif kind == "struct":
        members = draw(st.lists(typed(depth - 1), min_size=1, max_size=3))
        data_type = pa.struct([(f"m{i}", member) for i, (member, _) in enumerate(members)])
        values = st.fixed_dictionaries({f"m{i}": value for i, (_, value) in enumerate(members)})
    else:
        inner, value = draw(typed(depth - 1))
        data_type = pa.list_(inner) if kind == "list" else pa.map_(pa.string(), inner)
        lists = st.lists(value, max_size=3)
        values = lists if kind == "list" else st.dictionaries(TEXT, value, max_size=3)
    return data_type, st.none() | values


@st.composite
def batches(draw: st.DrawFn) -> list[pa.RecordBatch]:
    """Draw one to three batches of one schema, the last one a slice of a larger batch."""
    columns = draw(st.lists(typed(), min_size=1, max_size=4))
    schema = pa.schema([(f"c{i}", data_type) for i, (data_type, _) in enumerate(columns)])
    row = st.fixed_dictionaries({f"c{i}": values for i, (_, values) in enumerate(columns)})
    result = []
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.lists(row, min_size=1, max_size=5))
        batch = pa.RecordBatch.from_pylist([rows[0], *rows, rows[-1]], schema=schema)
        result.append(batch.slice(1, len(rows)))
    return result


def rows_of(written: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in written for row in batch.to_pylist(maps_as_pydicts="strict")]


def write(
    output_format: OutputFormat, written: list[pa.RecordBatch], spec: WritingSpec | None = None
) -> io.BytesIO:
    target = io.BytesIO()
    writer = writer_for(output_format)(
        MeasuredSink(target), written[0].schema, spec or WritingSpec(format=output_format)
    )
    for batch in written:
        writer.write(batch)
    writer.close()
    target.seek(0)
    return target


def plain(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Return a value with every leaf replaced."""
    if isinstance(value, dict):
        return {name: plain(item, leaf) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item, leaf) for item in value]
    return leaf(value)


def micros(value: Any) -> Any:
    """Return temporal values as microseconds since the epoch or midnight."""
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (dt.datetime.combine(value, dt.time(), UTC) - EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.time):
        return (dt.datetime.combine(MIDNIGHT, value) - MIDNIGHT) // dt.timedelta(microseconds=1)
    return value


def millis(value: Any) -> Any:
    temporal = isinstance(value, dt.date | dt.time)
    return micros(value) // 1000 if temporal else value


def json_leaf(value: Any) -> Any:
    """Return what a JSON reader sees of a value."""
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def exact_json_leaf(value: Any) -> Any:
    return Decimal(repr(value)) if isinstance(value, float) else json_leaf(value)


@MANY
@given(written=batches())
def test_parquet_reads_back_equal(written: list[pa.RecordBatch]) -> None:
    table = pq.read_table(write(OutputFormat.PARQUET, written))
    assert table.to_pylist(maps_as_pydicts="strict") == rows_of(written)
    assert table.schema.equals(written[0].schema)


@MANY
@given(written=batches())
def test_avro_reads_back_equal_with_times_as_milliseconds(written: list[pa.RecordBatch]) -> None:
    read = list(fastavro.reader(write(OutputFormat.AVRO, written)))
    assert read == plain(rows_of(written), millis)


@MANY
@given(written=batches())
def test_orc_reads_back_equal_with_time_of_day_as_milliseconds(
    written: list[pa.RecordBatch],
) -> None:
    read = orc.ORCFile(write(OutputFormat.ORC, written)).read()

    def expected(value: Any) -> Any:
        return millis(value) if isinstance(value, dt.time) else micros(value)

    def seen(value: Any) -> Any:
        return micros(value)

    rows = read.to_pylist(maps_as_pydicts="strict")
    assert plain(rows, seen) == plain(rows_of(written), expected)


@MANY
@given(written=batches())
def test_json_lines_read_back_equal_with_exact_numbers(written: list[pa.RecordBatch]) -> None:
    lines = write(OutputFormat.JSON, written).read().decode().split("\n")
    assert lines.pop() == ""
    read = [json.loads(line, parse_float=Decimal) for line in lines]

    assert read == plain(rows_of(written), exact_json_leaf)


def test_instants_beyond_nanoseconds_keep_their_value() -> None:
    far = [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)]
    batch = pa.record_batch({"t": pa.array(far, pa.timestamp("us", tz="UTC"))})
    assert pq.read_table(write(OutputFormat.PARQUET, [batch])).column("t").to_pylist() == far
    read = [row["t"] for row in fastavro.reader(write(OutputFormat.AVRO, [batch]))]
    assert read == [millis(instant) for instant in far]
    lines = write(OutputFormat.JSON, [batch]).read().splitlines()
    assert [json.loads(line)["t"] for line in lines] == [
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
    ]


@MANY
@given(written=batches())
def test_csv_reads_back_equal_cell_by_cell(written: list[pa.RecordBatch]) -> None:
    text = write(OutputFormat.CSV, written).read().decode()
    records = list(csv.reader(io.StringIO(text, newline="")))
    schema = written[0].schema
    assert records.pop(0) == schema.names
    expected = rows_of(written)
    assert len(records) == len(expected)
    for record, row in zip(records, expected, strict=True):
        for cell, (name, value) in zip(record, row.items(), strict=True):
            assert _csv_value(cell, schema.field(name).type, value) == _csv_expected(value)


def _csv_expected(value: Any) -> Any:
    if isinstance(value, dict | list):
        return plain(value, exact_json_leaf)
    if isinstance(value, dt.datetime):
        return value
    return "" if value is None else json_leaf(value)


def _csv_value(cell: str, data_type: pa.DataType, value: Any) -> Any:  # noqa: PLR0911
    """Return a cell as the value that an independent reader makes of it."""
    if value is None:
        return cell
    if pa.types.is_nested(data_type):
        return json.loads(cell, parse_float=Decimal)
    if isinstance(value, bool):
        return {"true": True, "false": False}[cell]
    if pa.types.is_float32(data_type):
        return pa.scalar(float(cell), pa.float32()).as_py()
    if isinstance(value, dt.datetime):
        return dt.datetime.fromisoformat(cell)
    if isinstance(value, dt.time):
        return dt.time.fromisoformat(cell).isoformat()
    if isinstance(value, int | float | Decimal):
        return type(value)(cell)
    return cell


@pytest.mark.parametrize("output_format", list(OutputFormat))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(written=batches())
def test_the_reader_of_a_format_gives_back_the_batches(
    output_format: OutputFormat, written: list[pa.RecordBatch]
) -> None:
    if output_format is OutputFormat.CSV and len(written[0].schema) == 1:
        return  # null and empty text are one and the same there, as the writer says
    spec = WritingSpec(format=output_format)
    read = reader_for(writer_for(output_format))
    assert read is not None
    back = list(read(write(output_format, written, spec), written[0].schema, spec))
    expected = rows_of(written)
    if output_format in {OutputFormat.AVRO, OutputFormat.ORC}:

        def coarse(value: Any) -> Any:
            by_time = isinstance(value, dt.time) or output_format is OutputFormat.AVRO
            return millis(value) if by_time else micros(value)

        assert plain(rows_of(back), coarse) == plain(expected, coarse)
    else:
        assert rows_of(back) == expected
    assert all(batch.schema.equals(written[0].schema) for batch in back)


@pytest.mark.parametrize(
    "output_format", [OutputFormat.AVRO, OutputFormat.PARQUET, OutputFormat.ORC, OutputFormat.CSV]
)
def test_not_a_number_and_the_infinities_survive(output_format: OutputFormat) -> None:
    batch = pa.record_batch({"n": [1, 2, 3], "x": [math.nan, math.inf, -math.inf]})
    spec = WritingSpec(format=output_format)
    read = reader_for(writer_for(output_format))
    assert read is not None
    (back,) = read(write(output_format, [batch], spec), batch.schema, spec)
    nan, high, low = back.column("x").to_pylist()
    assert math.isnan(nan)
    assert (high, low) == (math.inf, -math.inf)
