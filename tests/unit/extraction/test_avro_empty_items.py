"""Arrays of items that take no byte: counted before they are made."""

from __future__ import annotations

import io

import fastavro
import pytest

from dil.errors import SourceContractError
from dil.extraction.avro.empty_items import EmptyItems
from dil.extraction.avro.extractor import AvroExtractor
from dil.model.job import ClassRef, ExtractionSpec
from dil.spi.connector import Response
from tests.unit.extraction.test_avro_extractor import file_of, record

NONE = record(name="none")
EMPTY = {
    "null": ("null", None),
    "record": (NONE, {}),
    "record of nulls": (record(("x", "null"), ("y", NONE), name="nulls"), {"x": None, "y": {}}),
    "fixed": ({"type": "fixed", "name": "f", "size": 0}, b""),
}


def array(items):
    return {"type": "array", "items": items}


def rows(body: bytes) -> list[dict]:
    page = AvroExtractor(ExtractionSpec(ClassRef("", ""))).extract(Response(io.BytesIO(body)))
    return [row for batch in page.batches for row in batch.to_pylist()]


def number(value: int) -> bytes:
    """Return a number as Avro writes it."""
    value, found = value << 1, b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def claiming(schema: dict, data: bytes) -> bytes:
    """Return a file of one row, whose bytes these are."""
    body = file_of(schema, [], sync_marker=b"s" * 16)
    return body + number(1) + number(len(data)) + data + b"s" * 16


@pytest.mark.parametrize("kind", EMPTY)
def test_a_few_bytes_that_tell_of_many_items_are_refused_at_once(kind: str) -> None:
    schema = record(("a", array(EMPTY[kind][0])))
    body = claiming(schema, number(10**12) + number(0))
    with pytest.raises(SourceContractError, match="declares 1,000,000,000,000 items"):
        rows(body)


def test_items_of_several_arrays_count_together() -> None:
    schema = record(("a", array(array("null"))))
    few = number(400_000) + number(0)
    assert len(rows(claiming(schema, number(2) + few * 2 + number(0)))) == 1
    with pytest.raises(SourceContractError, match="1,200,000 items"):
        rows(claiming(schema, number(3) + few * 3 + number(0)))


@pytest.mark.parametrize("kind", ["null", "record", "record of nulls"])
def test_arrays_that_hold_few_are_read(kind: str) -> None:
    items, value = EMPTY[kind]
    counts = {"type": "map", "values": "long"}
    schema = record(("before", ["null", "string"]), ("a", array(items)), ("after", counts))
    given = [{"before": "x", "a": [value] * count, "after": {"k": 1}} for count in (0, 1, 1000)]
    assert [len(row["a"]) for row in rows(file_of(schema, given))] == [0, 1, 1000]


def test_every_type_is_passed_over() -> None:
    kinds = {
        "boolean": True, "int": -5, "long": 2**62, "float": 1.5, "double": 2.5, "bytes": b"b" * 99,
        "string": "é" * 99,
    }  # fmt: skip
    fields = [(f"f_{kind}", kind) for kind in kinds]
    enum = {"type": "enum", "name": "e", "symbols": ["A", "B"]}
    fixed = {"type": "fixed", "name": "x", "size": 3}
    inner = record(*fields, ("e", enum), ("x", fixed), ("again", ["null", "e"]), name="inner")
    schema = record(
        ("r", inner), ("many", array(["null", "inner"])), ("m", {"type": "map", "values": "inner"}),
        ("d", {"type": "int", "logicalType": "date"}), ("n", array("null")),
    )  # fmt: skip
    value = {**{f"f_{kind}": each for kind, each in kinds.items()}, "e": "B", "x": b"abc",
             "again": "A"}  # fmt: skip
    row = {"r": value, "many": [None, value], "m": {"k": value}, "d": 1, "n": [None] * 3}
    body = io.BytesIO(file_of(schema, [row] * 50))
    reader = fastavro.block_reader(body)
    found = EmptyItems(reader.writer_schema)
    assert found.may_be
    items = 0
    for block in reader:
        data = block.bytes_.getbuffer()
        found.check(data, block.num_records)
        assert found._at == len(data)
        items += found._found
    assert items == 150


@pytest.mark.parametrize("data", [b"", b"\x80" * 30, b"\x01", number(5)])
def test_a_damaged_block_is_an_error(data: bytes) -> None:
    schema = record(("s", "string"), ("a", array("null")))
    with pytest.raises(SourceContractError, match="no whole Avro"):
        rows(claiming(schema, data))


@pytest.mark.parametrize("items", ["double", "boolean", "string"])
def test_more_items_than_bytes_are_an_error_before_they_are_counted(items: str) -> None:
    schema = record(("a", array("null")), ("b", array(items)))
    with pytest.raises(SourceContractError, match="no whole Avro"):
        rows(claiming(schema, number(0) + number(2**62)))


def test_most_schemas_have_no_such_items() -> None:
    for items in ("long", ["null", "long"], {"type": "map", "values": "null"}, array("string")):
        assert not EmptyItems(fastavro.parse_schema(record(("a", array(items))))).may_be
    tree = record(("value", "null"), ("next", array("tree")), name="tree")
    assert not EmptyItems(fastavro.parse_schema(tree)).may_be
