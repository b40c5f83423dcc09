"""Small answers that would become large: each is refused before it does, and names its limit."""

from __future__ import annotations

import io
import json
import tracemalloc
import zlib

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dil.errors import SourceContractError
from dil.extraction.avro.extractor import AvroExtractor
from dil.extraction.columnar.parquet_extractor import ParquetExtractor
from dil.extraction.csv.extractor import CsvExtractor
from dil.extraction.json.extractor import JsonExtractor
from dil.extraction.sizes import Width, longest, width_of
from dil.extraction.xml.extractor import XmlExtractor
from dil.model.csv_settings import CsvSettings, CsvSpec
from dil.model.job import ClassRef, ExpansionSpec, ExtractionSpec
from dil.model.schema import Column, Primitive
from dil.spi.connector import Response

REF = ClassRef("m", "c")
MIB = 1024**2
# A sixteenth of it is 1 MiB.
LITTLE = 16 * MIB
SYNC = b"0123456789abcdef"


def read(extractor, body, content_type=""):
    page = extractor.extract(Response(io.BytesIO(body), content_type=content_type))
    return [row for batch in page.batches for row in batch.to_pylist()]


def spec(**more):
    return ExtractionSpec(REF, **more)


def too_long(kind, body, **more):
    with pytest.raises(SourceContractError) as raised:
        read(kind(spec(memory_bytes=LITTLE, **more)), body)
    assert "ms.task.memory.max.bytes" in raised.value.fix
    return str(raised.value)


def test_more_memory_lets_longer_values_be_read_up_to_what_the_format_allows():
    assert longest(spec(), 500) == 500
    assert longest(spec(memory_bytes=1600), 500) == 100
    assert longest(spec(memory_bytes=16_000), 500) == 500


# XML


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        b"<r><e><a>" + b"x" * (4 * MIB) + b"</a></e></r>",
        b"<r><e a='" + b"x" * (4 * MIB) + b"'/></r>",
        b"<r><e>" + b"<a/>" * MIB + b"</e></r>",
        b"<r><!--" + b"x" * (4 * MIB) + b"--><e/></r>",
    ],
    ids=["text", "attribute", "children", "comment"],
)
def test_a_long_row_or_tag_of_xml_is_refused(body):
    assert "more than 1,048,576 bytes" in too_long(XmlExtractor, body, data_field="r.e")


@pytest.mark.slow
def test_many_rows_of_xml_are_as_long_as_they_like():
    body = b"<r>" + b"<e><a>1</a></e>" * 300_000 + b"</r>"
    found = read(XmlExtractor(spec(memory_bytes=LITTLE, data_field="r.e")), body)
    assert len(found) == 300_000


def test_defaults_of_attributes_do_not_multiply_a_document():
    body = b'<!DOCTYPE r [<!ATTLIST e a CDATA "' + b"x" * 100_000 + b'">]><r>%b</r>'
    too_long(XmlExtractor, body % (b"<e/>" * 10_000), data_field="r.e")
    found = read(XmlExtractor(spec(memory_bytes=LITTLE, data_field="r.e")), body % b"<e/>")
    assert len(found[0]["_a" if "_a" in found[0] else "@a"]) == 100_000


def test_long_text_around_the_rows_of_xml_is_not_kept():
    body = b"<r><x>" + b"x" * (4 * MIB) + b"</x><e><a>1</a></e></r>"
    page = XmlExtractor(spec(memory_bytes=LITTLE, data_field="r.e")).extract(
        Response(io.BytesIO(body))
    )
    assert [batch.to_pylist() for batch in page.batches] == [[{"a": "1"}]]
    with pytest.raises(SourceContractError, match="are outside of the rows"):
        page.lookup("r.x")


# Avro


def number(value):
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, "long", value)
    return stream.getvalue()


def container(kind, *blocks, codec="null"):
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}
    facts = {"avro.schema": json.dumps(schema), "avro.codec": codec}
    body = b"Obj\x01" + number(len(facts))
    for name, value in facts.items():
        body += number(len(name)) + name.encode() + number(len(value)) + value.encode()
    body += number(0) + SYNC
    for rows, data in blocks:
        body += number(rows) + number(len(data)) + data + SYNC
    return body


def packed(codec, data):
    match codec:
        case "deflate":
            packer = zlib.compressobj(wbits=-15)
            return packer.compress(data) + packer.flush()
        case "bzip2":
            return __import__("bz2").compress(data)
        case "xz":
            return __import__("lzma").compress(data)
        case "zstandard":
            return pa.compress(data, "zstd", asbytes=True)
        case "snappy":
            checksum = zlib.crc32(data).to_bytes(4, "big")
            return pa.compress(data, "snappy", asbytes=True) + checksum
        case "lz4":
            return len(data).to_bytes(4, "little") + pa.compress(data, "lz4_raw", asbytes=True)


CODECS = pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "zstandard", "snappy", "lz4"])


@CODECS
def test_blocks_of_every_codec_are_read(codec):
    rows = b"".join(map(number, range(1000)))
    body = container(
        "long", (1000, packed(codec, rows)), (1, packed(codec, number(7))), codec=codec
    )
    found = read(AvroExtractor(spec()), body)
    assert [row["a"] for row in found] == [*range(1000), 7]


@CODECS
def test_a_block_that_unpacks_to_too_much_is_refused_in_little_memory(codec):
    data = packed(codec, number(40 * MIB) + bytes(40 * MIB))
    body = container("bytes", (1, data), codec=codec)
    tracemalloc.start()
    try:
        too_long(AvroExtractor, body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * MIB


def test_a_block_is_not_as_long_as_it_says():
    body = container("bytes") + number(1) + number(2**40) + b"abc"
    assert "1,099,511,627,776 bytes" in too_long(AvroExtractor, body)


def test_a_snappy_block_with_another_checksum_is_damaged():
    data = packed("snappy", number(7))
    body = container("long", (1, data[:-1] + bytes([data[-1] ^ 1])), codec="snappy")
    with pytest.raises(SourceContractError, match="no whole Avro container file"):
        read(AvroExtractor(spec()), body)


def test_a_schema_of_few_bytes_may_not_have_columns_without_end():
    doubling = "long"
    for level in range(40):
        fields = [{"name": "a", "type": doubling}, {"name": "b", "type": f"d{level - 1}"}]
        doubling = {"type": "record", "name": f"d{level}", "fields": fields[: 2 if level else 1]}
    with pytest.raises(SourceContractError, match="columns or more"):
        read(AvroExtractor(spec()), container(doubling))


# Columns


WIDE = {f"k{number}": number for number in range(101)}


def parquet(row):
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row]), stream)
    return stream.getvalue()


def csv(row):
    return f"{','.join(row)}\n{','.join(map(str, row.values()))}\n".encode()


def xml(row):
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in row.items())
    return f"<r>{inner}</r>".encode()


HEADER = CsvSpec(CsvSettings(column_header_index=0))
WIDES = [
    (JsonExtractor, json.dumps(WIDE).encode(), {}),
    (JsonExtractor, json.dumps([{name: value} for name, value in WIDE.items()]).encode(), {}),
    (JsonExtractor, json.dumps({"a": [{"b": WIDE}]}).encode(), {}),
    (CsvExtractor, csv(WIDE), {"csv": HEADER}),
    (CsvExtractor, b"," * 100 + b"\n", {}),
    (CsvExtractor, b"a,b\n1,2\n" + b"," * 100 + b"\n", {}),
    (XmlExtractor, xml(WIDE), {}),
    (ParquetExtractor, parquet(WIDE), {}),
    (ParquetExtractor, parquet({"a": WIDE}), {}),
]


@pytest.mark.parametrize(("kind", "body", "more"), WIDES)
def test_rows_of_more_columns_than_may_be_are_refused_with_their_number(kind, body, more):
    with pytest.raises(SourceContractError, match=r"have 1\d\d columns or more") as raised:
        read(kind(spec(most_columns=100, **more)), body)
    assert "ms.extract.columns.max" in raised.value.fix


@pytest.mark.parametrize(("kind", "body", "more"), WIDES)
@pytest.mark.parametrize("most", [0, 110])
def test_rows_of_as_many_columns_as_may_be_are_read(kind, body, more, most):
    assert read(kind(spec(most_columns=most, **more)), body)


@pytest.mark.parametrize(
    ("kind", "body", "more"),
    [each for each in WIDES if each[0] in {JsonExtractor, ParquetExtractor} or each[2]],
)
def test_columns_that_the_job_does_not_name_do_not_count(kind, body, more):
    columns = (Column("k7", Primitive("long")), Column("a", Primitive("string")))
    if b'{"b"' in body or body == parquet({"a": WIDE}):
        columns = columns[:1]
        body = body.replace(b'{"a"', b'{"k7": 7, "a"') if kind is JsonExtractor else parquet(WIDE)
    found = read(kind(spec(most_columns=100, output_schema=columns, **more)), body)
    assert {name for row in found for name in row} == {column.name for column in columns}
    assert [row["k7"] for row in found if row["k7"] is not None] == [7]


def test_columns_of_several_pages_count_together():
    reader = JsonExtractor(spec(most_columns=100))
    read(reader, json.dumps({f"a{number}": 1 for number in range(60)}).encode())
    with pytest.raises(SourceContractError, match="have 120 columns or more"):
        read(reader, json.dumps({f"b{number}": 1 for number in range(60)}).encode())


def test_members_of_records_are_columns_too():
    kind = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.struct([("c", pa.int64())])))])
    assert width_of([kind, pa.string()]) == 6
    Width(6).add(6)
    with pytest.raises(SourceContractError):
        Width(5).add(6)


@pytest.mark.slow
def test_wide_rows_come_in_small_batches():
    first = {f"k{number}": 1 for number in range(10_000)}
    body = json.dumps([first, *[{}] * 3000]).encode()
    page = JsonExtractor(spec()).extract(Response(io.BytesIO(body)))
    sizes = [batch.num_rows for batch in page.batches]
    assert (sum(sizes), max(sizes)) == (3001, 1677)


# JSON, CSV


def test_what_a_json_path_finds_may_not_hold_the_same_text_again_and_again(monkeypatch):
    monkeypatch.setattr("dil.extraction.json.document.JSONPATH_FOUND_BYTES", MIB)
    body = b"[" * 50 + b'"' + b"x" * 100_000 + b'"' + b"]" * 50
    with pytest.raises(SourceContractError, match="more than 1,048,576 bytes"):
        read(JsonExtractor(spec(data_field="$..*")), body)


def test_a_long_row_of_json_is_refused_where_there_is_little_memory():
    body = b'[{"a": "' + b"x" * (20 * MIB) + b'"}]'
    message = too_long(JsonExtractor, body)
    assert "longer than 1,048,576 bytes" in message


def test_a_long_record_of_csv_is_refused_where_there_is_little_memory():
    assert "longer than 1,024 KiB" in too_long(CsvExtractor, b"a\n" + b"x" * (8 * MIB) + b"\n")


def test_a_csv_body_that_unpacks_to_too_much_is_refused():
    packer = zlib.compressobj(wbits=31)
    body = packer.compress(b"a\n" * (2 * MIB)) + packer.flush()
    limit = ExpansionSpec(ratio=10, bytes=None, floor=MIB)
    with pytest.raises(SourceContractError, match="made more than 10 times"):
        read(CsvExtractor(spec(expansion=limit)), body, "application/gzip")
