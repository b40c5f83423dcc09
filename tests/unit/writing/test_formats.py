from __future__ import annotations

import importlib.util
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from dil.errors import ConversionError
from dil.model.arrow import typed_schema
from dil.model.job import OutputFormat, WritingSpec
from dil.model.schema import ArrayType, Column, EnumType, MapType, Primitive, RecordType
from dil.spi.writer import FileWriter
from dil.types.avro import avro_schema
from dil.writing.formats import reader_for, writer_for
from dil.writing.sink import MeasuredSink

SCHEMA = (
    Column("id", Primitive("long"), nullable=False),
    Column("name", Primitive("string")),
    Column("day", Primitive("date")),
    Column("at", Primitive("time"), nullable=False),
    Column("seen", Primitive("timestamp")),
    Column("price", Primitive("decimal", 10, 2)),
    Column("color", EnumType("color", ("red",))),
    Column("raw", Primitive("bytes")),
    Column("tags", ArrayType(Primitive("string"), items_nullable=False)),
    Column("counts", MapType(Primitive("int"))),
    Column(
        "address",
        RecordType(
            (
                Column("zip", Primitive("string"), nullable=False),
                Column("geo", RecordType((Column("lat", Primitive("double")),)), nullable=False),
            )
        ),
    ),
    Column("lines", ArrayType(RecordType((Column("n", Primitive("float")),)))),
)


def dump(output_format: OutputFormat, batch: pa.RecordBatch, **spec: Any) -> io.BytesIO:
    target = io.BytesIO()
    writer = writer_for(output_format)(
        MeasuredSink(target), batch.schema, WritingSpec(format=output_format, **spec)
    )
    writer.write(batch)
    writer.close()
    target.seek(0)
    return target


def test_every_format_has_a_writer_with_its_extension_and_a_reader() -> None:
    for output_format in OutputFormat:
        writer = writer_for(output_format)
        assert issubclass(writer, FileWriter)
        assert writer.extension == output_format.value
        assert reader_for(writer) is not None


def test_a_writer_that_is_not_ours_has_no_reader() -> None:
    class Acme(FileWriter):
        extension = "acme"

        def write(self, batch: pa.RecordBatch) -> None: ...

        def close(self) -> None: ...

    assert reader_for(Acme) is None


def test_the_avro_schema_is_that_of_the_specification() -> None:
    spec = WritingSpec(record_name="orders", record_namespace="com.acme")
    expected = {
        "type": "record",
        "name": "orders",
        "namespace": "com.acme",
        "fields": [
            {"name": "id", "type": "long", "source.type": "long"},
            optional("name", "string", "string"),
            optional("day", "long", "date"),
            {"name": "at", "type": "long", "source.type": "time"},
            optional("seen", "long", "timestamp"),
            optional(
                "price",
                {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
                "decimal",
            ),
            optional("color", "string", "enum"),
            optional("raw", "bytes", "bytes"),
            optional("tags", {"type": "array", "items": "string"}, "array"),
            optional("counts", {"type": "map", "values": ["null", "int"]}, "map"),
            optional(
                "address",
                {
                    "type": "record",
                    "name": "address",
                    "namespace": "com.acme.orders",
                    "fields": [
                        {"name": "zip", "type": "string", "source.type": "string"},
                        {
                            "name": "geo",
                            "type": {
                                "type": "record",
                                "name": "geo",
                                "namespace": "com.acme.orders.address",
                                "fields": [optional("lat", "double", "double")],
                            },
                            "source.type": "record",
                        },
                    ],
                },
                "record",
            ),
            optional(
                "lines",
                {
                    "type": "array",
                    "items": [
                        "null",
                        {
                            "type": "record",
                            "name": "lines",
                            "namespace": "com.acme.orders",
                            "fields": [optional("n", "float", "float")],
                        },
                    ],
                },
                "array",
            ),
        ],
    }
    assert avro_schema(typed_schema(SCHEMA), spec) == expected
    fastavro.parse_schema(json.loads(json.dumps(expected)))


def optional(name: str, avro_type: Any, word: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", avro_type], "default": None, "source.type": word}


def test_the_schema_in_an_avro_file_keeps_the_source_types() -> None:
    batch = pa.RecordBatch.from_pylist([], schema=typed_schema(SCHEMA))
    header = fastavro.reader(dump(OutputFormat.AVRO, batch)).writer_schema
    assert isinstance(header, dict)
    assert [field["source.type"] for field in header["fields"]][:4] == [
        "long",
        "string",
        "date",
        "time",
    ]


def test_labels_are_made_fit_for_avro_and_a_missing_one_is_row() -> None:
    schema = pa.schema([("a", pa.int32())])
    named = avro_schema(schema, WritingSpec(record_name="my-table", record_namespace="1.b"))
    assert (named["name"], named["namespace"]) == ("my_table", "_1.b")
    bare = avro_schema(schema, WritingSpec())
    assert bare["name"] == "row"
    assert "namespace" not in bare


@pytest.mark.parametrize("name", ["a-b", "1a", "é", ""])
def test_a_column_name_that_avro_refuses_is_told_before_anything_is_written(name: str) -> None:
    with pytest.raises(ConversionError) as caught:
        avro_schema(pa.schema([(name, pa.int32())]), WritingSpec())
    assert not caught.value.retryable
    assert "ms.schema.cleansing" in caught.value.fix


MOMENTS = pa.array([1_577_836_800_123_456, -1], pa.timestamp("us", tz="UTC"))


@pytest.mark.parametrize(
    ("seconds", "expected"), [(False, [1577836800123, -1]), (True, [1577836800, -1])]
)
def test_avro_times_are_milliseconds_or_seconds_cut_towards_the_past(
    seconds: bool, expected: list[int]
) -> None:
    batch = pa.record_batch({"t": MOMENTS})
    read = fastavro.reader(dump(OutputFormat.AVRO, batch, epoch_seconds=seconds))
    assert [row["t"] for row in read] == expected


@pytest.mark.parametrize(("codec", "expected"), [("", "deflate"), ("NOCOMPRESSION", "null")])
def test_avro_blocks_are_deflated_unless_told_otherwise(codec: str, expected: str) -> None:
    batch = pa.record_batch({"t": ["x" * 1000] * 100})
    stream = dump(OutputFormat.AVRO, batch, codec=codec)
    assert fastavro.reader(stream).metadata["avro.codec"] == expected
    assert (len(stream.getvalue()) < 10_000) == (expected == "deflate")


def test_snappy_avro_is_written_or_says_what_is_missing() -> None:
    batch = pa.record_batch({"t": ["x"]})
    if importlib.util.find_spec("cramjam"):
        stream = dump(OutputFormat.AVRO, batch, codec="SNAPPY")
        assert list(fastavro.reader(stream)) == [{"t": "x"}]
        return
    with pytest.raises(ConversionError) as caught:
        dump(OutputFormat.AVRO, batch, codec="SNAPPY")
    assert "cramjam" in caught.value.message


def test_parquet_row_groups_hold_many_batches() -> None:
    target = io.BytesIO()
    batch = pa.record_batch({"n": list(range(100))})
    writer = writer_for(OutputFormat.PARQUET)(
        MeasuredSink(target), batch.schema, WritingSpec(row_group_rows=1000)
    )
    for _ in range(25):
        writer.write(batch)
    writer.close()
    metadata = pq.ParquetFile(target).metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [
        1000,
        1000,
        500,
    ]


@pytest.mark.parametrize(
    ("codec", "expected"),
    [("", "SNAPPY"), ("SNAPPY", "SNAPPY"), ("DEFLATE", "GZIP"), ("NOCOMPRESSION", "UNCOMPRESSED")],
)
def test_parquet_speaks_the_codec_words(codec: str, expected: str) -> None:
    stream = dump(OutputFormat.PARQUET, pa.record_batch({"n": [1]}), codec=codec)
    assert pq.ParquetFile(stream).metadata.row_group(0).column(0).compression == expected


@pytest.mark.parametrize(
    ("codec", "expected"), [("", "SNAPPY"), ("DEFLATE", "ZLIB"), ("NOCOMPRESSION", "UNCOMPRESSED")]
)
def test_orc_speaks_the_codec_words(codec: str, expected: str) -> None:
    stream = dump(OutputFormat.ORC, pa.record_batch({"n": [1]}), codec=codec)
    assert orc.ORCFile(stream).compression == expected


@pytest.mark.parametrize("output_format", list(OutputFormat))
def test_a_null_record_with_a_member_that_must_not_be_null_can_be_written(
    output_format: OutputFormat,
) -> None:
    members = pa.struct(
        [pa.field("must", pa.int32(), nullable=False), ("list", pa.list_(pa.int32()))]
    )
    column = pa.array(
        [{"must": 1, "list": []}, None],
        pa.struct([("must", pa.int32()), ("list", pa.list_(pa.int32()))]),
    )
    column = pa.StructArray.from_arrays(
        column.flatten(), fields=list(members), mask=column.is_null()
    )
    batch = pa.record_batch({"id": [1, 2], "r": column})
    spec = WritingSpec(format=output_format)
    read = reader_for(writer_for(output_format))
    assert read is not None
    (back,) = read(dump(output_format, batch), batch.schema, spec)
    assert back.to_pylist() == [{"id": 1, "r": {"must": 1, "list": []}}, {"id": 2, "r": None}]
    assert back.schema.equals(batch.schema)


def test_csv_tells_null_from_empty_text_and_quotes_by_the_rfc() -> None:
    batch = pa.record_batch(
        {
            "s": ['a "b"', "x,y", "two\nlines", "", None],
            "n": [1, None, 3, 4, 5],
            "t": pa.array([0, 1_500_000, 123, None, None], pa.timestamp("us", tz="UTC")),
            "m": pa.array([{"k": 1}, None, None, None, None], pa.struct([("k", pa.int32())])),
        }
    )
    assert dump(OutputFormat.CSV, batch).read().decode() == (
        '"s","n","t","m"\n'
        '"a ""b""",1,"1970-01-01T00:00:00Z","{""k"":1}"\n'
        '"x,y",,"1970-01-01T00:00:01.500Z",\n'
        '"two\nlines",3,"1970-01-01T00:00:00.000123Z",\n'
        '"",4,,\n'
        ",5,,\n"
    )


def test_a_lone_null_in_csv_is_no_blank_line() -> None:
    batch = pa.record_batch({"n": [1, None, 3]})
    assert dump(OutputFormat.CSV, batch).read() == b'"n"\n"1"\n""\n"3"\n'


def test_json_lines_are_compact_exact_and_in_column_order() -> None:
    batch = pa.RecordBatch.from_pylist(
        [
            {"id": 2**63 - 1, "price": "12.30", "seen": 0, "counts": [("b", None), ("a", 1)]},
        ],
        schema=pa.schema(
            [
                ("id", pa.int64()),
                ("price", pa.string()),
                ("seen", pa.timestamp("us", tz="UTC")),
                ("counts", pa.map_(pa.string(), pa.int32())),
            ]
        ),
    )
    exact = batch.set_column(1, "price", batch.column("price").cast(pa.decimal128(10, 2)))
    assert dump(OutputFormat.JSON, exact).read() == (
        b'{"id":9223372036854775807,"price":12.30,"seen":"1970-01-01T00:00:00Z",'
        b'"counts":{"b":null,"a":1}}\n'
    )
