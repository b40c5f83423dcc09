"""Avro container files as rows."""

import io
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest

from dil.errors import SourceContractError
from dil.extraction.avro.extractor import AvroExtractor
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.path import MISSING
from dil.model.schema import Column, MapType, Primitive, RecordType
from dil.spi.connector import Response

REF = ClassRef("m", "c")


def record(*fields, name="row"):
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": column, "type": kind} for column, kind in fields],
    }


def file_of(schema, rows, **more):
    stream = io.BytesIO()
    fastavro.writer(stream, schema, rows, **more)
    return stream.getvalue()


def extractor(*columns, **more):
    return AvroExtractor(ExtractionSpec(REF, output_schema=columns or None, **more))


def response(body):
    return Response(
        io.BytesIO(body), content_type="text/html", checks_content_type=True, location="https://h/x"
    )


def rows_of(page):
    return [
        row for batch in page.batches for row in batch.to_pylist(maps_as_pydicts="strict")
    ]  # fmt: skip


def read(schema, rows, *columns, **more):
    return rows_of(extractor(*columns, **more).extract(response(file_of(schema, rows))))


def one(kind, value):
    """Read one column of one row: its Arrow type and its value."""
    reader = extractor()
    body = file_of(record(("a", kind)), [{"a": value}])
    (batch,) = reader.extract(response(body)).batches
    (row,) = batch.to_pylist(maps_as_pydicts="strict")
    return batch.schema.field("a").type, row["a"]


def column(name, kind="string"):
    return Column(name, Primitive(kind) if isinstance(kind, str) else kind)


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2", "xz"])
def test_the_records_of_a_container_file_are_the_rows_whatever_its_codec(codec):
    rows = [{"a": number, "b": f"x{number}"} for number in range(1000)]
    schema = record(("a", "long"), ("b", "string"))
    body = file_of(schema, rows, codec=codec, sync_interval=500)
    assert rows_of(extractor().extract(response(body))) == rows


def test_a_codec_without_its_package_fails_and_says_which_one():
    body = file_of(record(("a", "int")), [{"a": 1}]).replace(b"null", b"lz4x")
    with pytest.raises(SourceContractError, match="packed with lz4x"):
        rows_of(extractor().extract(response(body)))


@pytest.mark.parametrize(
    ("kind", "value", "arrow"),
    [
        ("boolean", True, pa.bool_()),
        ("int", -5, pa.int32()),
        ("long", 2**63 - 1, pa.int64()),
        ("float", 1.5, pa.float32()),
        ("double", 0.1, pa.float64()),
        ("string", "é", pa.string()),
        ("bytes", b"\0\xff", pa.binary()),
        ({"type": "fixed", "name": "f", "size": 2}, b"ab", pa.binary()),
        ({"type": "enum", "name": "e", "symbols": ["NEW", "PAID"]}, "PAID", pa.string()),
        ({"type": "array", "items": ["null", "long"]}, [1, None], pa.list_(pa.int64())),
        ({"type": "map", "values": "int"}, {"k": 1}, pa.map_(pa.string(), pa.int32())),
        (record(("x", "int"), name="inner"), {"x": 1}, pa.struct([("x", pa.int32())])),
        ("null", None, pa.string()),
    ],
)
def test_each_type_has_an_arrow_form(kind, value, arrow):
    assert one(kind, value) == (arrow, value)


@pytest.mark.parametrize(
    ("kind", "logical", "value", "arrow"),
    [
        ("int", "date", date(2024, 2, 29), pa.date32()),
        ("int", "time-millis", time(8, 30, 0, 5000), pa.time64("us")),
        ("long", "time-micros", time(8, 30, 0, 5), pa.time64("us")),
        ("long", "timestamp-millis", datetime(1960, 1, 1, 0, 0, 0, 7000, UTC), None),
        ("long", "timestamp-micros", datetime(2024, 1, 1, 0, 0, 0, 7, UTC), None),
        ("long", "local-timestamp-micros", datetime(2024, 1, 1, 0, 0, 0, 7), pa.timestamp("us")),  # noqa: DTZ001 - local
        ("long", "no-such-type", 5, pa.int64()),
    ],
)
def test_dates_and_times_are_exact(kind, logical, value, arrow):
    found = one({"type": kind, "logicalType": logical}, value)
    assert found == (arrow or pa.timestamp("us", tz="UTC"), value)


def test_decimals_are_exact_and_uuids_are_text():
    money = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}
    value = Decimal("1234567890123456789012345678.05")
    assert one(money, value) == (pa.decimal128(30, 2), value)
    wide = {"type": "fixed", "name": "w", "size": 20, "logicalType": "decimal", "precision": 45}
    assert one(wide, Decimal(10**44 + 1)) == (pa.decimal256(45, 0), Decimal(10**44 + 1))
    key = uuid.UUID(int=5)
    assert one({"type": "string", "logicalType": "uuid"}, key) == (pa.string(), str(key))


def test_a_union_with_null_is_a_nullable_column_in_any_order():
    for union in (["null", "int"], ["int", "null"]):
        schema = record(("a", union))
        assert read(schema, [{"a": None}, {"a": 5}]) == [{"a": None}, {"a": 5}]


def test_a_union_of_numbers_takes_the_widest_and_one_of_plain_types_text():
    assert one(["null", "int", "long"], 2**40) == (pa.int64(), 2**40)
    assert one(["int", "double"], 5) == (pa.float64(), 5.0)
    schema = record(("a", ["null", "string", "int", "boolean"]))
    rows = [{"a": "x"}, {"a": 5}, {"a": True}, {"a": None}]
    assert read(schema, rows) == [{"a": "x"}, {"a": "5"}, {"a": "true"}, {"a": None}]


def test_a_union_of_nested_types_fails_unless_the_schema_leaves_it_out():
    schema = record(("a", ["int", record(("x", "int"), name="inner")]), ("b", "int"))
    with pytest.raises(SourceContractError, match='column "a" is a union of int, record'):
        read(schema, [{"a": 1, "b": 2}])
    assert read(schema, [{"a": 1, "b": 2}], column("b", "int")) == [{"b": 2}]


def test_types_can_be_used_by_name_and_never_inside_of_themselves():
    point = record(("x", "int"), name="point")
    assert read(record(("a", point), ("b", "point")), [{"a": {"x": 1}, "b": {"x": 2}}]) == [
        {"a": {"x": 1}, "b": {"x": 2}}
    ]
    node = record(("next", ["null", "node"]), name="node")
    with pytest.raises(SourceContractError, match="contain records of this type"):
        read(record(("a", node)), [{"a": {"next": None}}])


def test_deep_values_that_need_another_form_get_it():
    inner = record(("key", {"type": "string", "logicalType": "uuid"}), name="inner")
    schema = record(("a", {"type": "array", "items": {"type": "map", "values": ["null", inner]}}))
    key = uuid.UUID(int=7)
    rows = read(schema, [{"a": [{"k": {"key": key}, "n": None}]}])
    assert rows == [{"a": [{"k": {"key": str(key)}, "n": None}]}]


# ms.data.field


def test_the_data_field_gives_one_column_named_by_its_last_segment():
    inner = record(("items", {"type": "array", "items": "int"}), name="inner")
    schema = record(("data", ["null", inner]))
    rows = [{"data": {"items": [1, 2]}}]
    assert read(schema, rows, data_field="data.items") == [{"items": [1, 2]}]
    assert read(schema, rows, data_field="data.items.1") == [{"1": 2}]


def test_a_value_that_is_missing_fails_and_null_is_a_value():
    inner = record(("x", ["null", "int"]), name="inner")
    schema = record(("data", ["null", inner]))
    assert read(schema, [{"data": {"x": None}}], data_field="data.x") == [{"x": None}]
    for rows, path in (([{"data": None}], "data.x"), ([{"data": {"x": 1}}], "data.y")):
        with pytest.raises(SourceContractError, match=path):
            read(schema, rows, data_field=path)


# ms.output.schema


def test_a_given_schema_makes_exactly_its_columns_and_missing_ones_are_null():
    schema = record(("a", "int"), ("b", "string"))
    rows = read(schema, [{"a": 1, "b": "x"}], column("c", "long"), column("b"))
    assert rows == [{"c": None, "b": "x"}]


def test_a_given_schema_picks_members_at_all_depths():
    inner = record(("x", "int"), ("y", "int"), name="inner")
    schema = record(("a", ["null", inner]), ("m", {"type": "map", "values": "inner"}))
    shape = RecordType((column("y", "int"), column("z")), "inner")
    rows = read(
        schema,
        [{"a": {"x": 1, "y": 2}, "m": {"k": {"x": 3, "y": 4}}}, {"a": None, "m": {}}],
        column("a", shape),
        column("m", MapType(shape)),
    )
    assert rows == [
        {"a": {"y": 2, "z": None}, "m": {"k": {"y": 4, "z": None}}},
        {"a": None, "m": {}},
    ]


def test_a_nested_column_for_a_plain_value_fails():
    with pytest.raises(SourceContractError, match='column "a" is declared as nested'):
        read(record(("a", "int")), [{"a": 1}], column("a", MapType(Primitive("string"))))


# Bodies


def test_files_of_different_schemas_follow_one_another():
    reader = extractor()
    first = file_of(record(("a", "int")), [{"a": 1}])
    second = file_of(record(("a", "long"), ("b", "int")), [{"a": 2, "b": 3}])
    assert rows_of(reader.extract(response(first))) == [{"a": 1}]
    (batch,) = reader.extract(response(second)).batches
    assert batch.to_pylist() == [{"a": 2, "b": 3}]
    assert batch.schema.field("a").type == pa.int64()


def test_a_file_without_rows_and_an_empty_body_give_none():
    page = extractor().extract(response(file_of(record(("a", "int")), [])))
    assert (rows_of(page), page.rows) == ([], 0)
    assert rows_of(extractor().extract(response(b""))) == []
    assert rows_of(extractor().extract(Response(body=None))) == []


ROWS = [{"a": number} for number in range(200)]
WHOLE = file_of(record(("a", "int")), ROWS, sync_interval=50)
BLOCK_ENDS = {len(WHOLE)} | {
    block.offset + block.size for block in fastavro.block_reader(io.BytesIO(WHOLE))
}


def test_a_file_that_is_cut_off_anywhere_but_between_blocks_fails():
    first = next(iter(fastavro.block_reader(io.BytesIO(WHOLE)))).offset
    for end in range(1, len(WHOLE)):
        if end in BLOCK_ENDS or end == first:
            continue
        with pytest.raises(SourceContractError, match="no whole Avro container file"):
            rows_of(extractor().extract(response(WHOLE[:end])))


@pytest.mark.parametrize("body", [b"<html>no</html>", b"Obj\x01", WHOLE[:-3] + b"xyz"])
def test_a_body_that_is_no_container_file_fails_with_its_place(body):
    with pytest.raises(SourceContractError, match="https://h/x, page 1: the body is no whole Avro"):
        rows_of(extractor().extract(response(body)))


def test_a_file_of_something_else_than_records_fails():
    with pytest.raises(SourceContractError, match="does not hold records"):
        rows_of(extractor().extract(response(file_of("string", ["x"]))))


class Dribble(io.RawIOBase):
    """A stream that gives a few bytes at a time, as the net does, and counts them."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def read(self, size=-1):
        part = self.data[self.at : self.at + min(7, size if size >= 0 else 7)]
        self.at += len(part)
        return part


def test_a_stream_that_gives_few_bytes_at_a_time_is_read_and_closed():
    body = Dribble(WHOLE)
    page = extractor().extract(Response(body))
    assert body.at == 0
    assert rows_of(page) == ROWS
    assert page.rows == 200
    assert body.closed


def test_a_large_file_is_read_block_by_block():
    rows = ({"a": "x" * 100, "n": number} for number in range(200_000))
    body = io.BytesIO(file_of(record(("a", "string"), ("n", "int")), rows))
    page = extractor().extract(Response(body))
    first = next(page.batches)
    assert first.num_rows <= 65_536
    assert body.tell() < len(body.getvalue()) // 2
    assert first.num_rows + sum(batch.num_rows for batch in page.batches) == 200_000


def test_nothing_can_be_looked_up_in_a_file():
    assert extractor().extract(response(WHOLE)).lookup("a") is MISSING


def zigzag(value: int) -> bytes:
    """Return a number as Avro writes it."""
    left, found = value << 1, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((*found, left))


def test_a_small_body_that_is_said_to_hold_very_many_rows_fails_at_once():
    empty = file_of(record(("a", "null")), [])
    marker = empty[-16:]
    bomb = empty + zigzag(2**40) + zigzag(0) + marker
    assert len(bomb) < 200
    page = extractor().extract(response(bomb))
    with pytest.raises(SourceContractError, match="declares"):
        rows_of(page)


def test_rows_without_a_byte_come_batch_by_batch():
    empty = file_of(record(("a", "null")), [])
    body = empty + zigzag(200_000) + zigzag(0) + empty[-16:]
    page = extractor().extract(response(body))
    sizes = [batch.num_rows for batch in page.batches]
    assert sum(sizes) == 200_000
    assert max(sizes) <= 65_536


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'"name": "a"', b'"nome": "a"'),
        (b'"type": "string"', b'"tipe": "string"'),
        (b'"type": "string"', b'"type": "strinx"'),
        (b'"X"', b'"/"'),
    ],
)
def test_a_schema_that_is_none_is_the_sources_mistake(one, other):
    kind = {"type": "enum", "name": "e", "symbols": ["X", "Y"]}
    body = file_of(record(("a", "string"), ("b", kind)), [{"a": "x", "b": "X"}])
    assert one in body
    with pytest.raises(SourceContractError):
        rows_of(extractor().extract(response(body.replace(one, other))))
