"""Columns from a file in the place of ms.output.schema and ms.target.schema."""

from __future__ import annotations

import json

import fastavro
import pyarrow as pa
import pytest

from dil.model.job import WritingSpec
from dil.types.avro import avro_schema

ORDERS = {
    "type": "record",
    "name": "order",
    "namespace": "com.acme",
    "fields": [
        {"name": "id", "type": "long", "doc": "the key"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "seen", "type": "long", "source.type": "timestamp"},
        {
            "name": "amount",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2},
        },
        {"name": "number", "type": ["int", "null", "double"]},
        {"name": "token", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 16}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": ["null", "com.acme.State"]},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "labels", "type": {"type": "map", "values": "long"}},
        {
            "name": "home",
            "type": {
                "type": "record",
                "name": "Address",
                "fields": [{"name": "city", "type": "string"}],
            },
        },
        {"name": "work", "type": ["null", "Address"]},
    ],
}
COLUMNS = [
    {"columnName": "id", "isNullable": False, "dataType": "long", "comment": "the key"},
    {"columnName": "note", "dataType": "string"},
    {"columnName": "day", "isNullable": False, "dataType": "date"},
    {"columnName": "at", "dataType": "timestamp"},
    {"columnName": "clock", "isNullable": False, "dataType": "time"},
    {"columnName": "seen", "isNullable": False, "dataType": "timestamp"},
    {
        "columnName": "amount",
        "isNullable": False,
        "dataType": {"type": "decimal", "precision": 18, "scale": 2},
    },
    {"columnName": "number", "dataType": "double"},
    {"columnName": "token", "isNullable": False, "dataType": "string"},
    {"columnName": "hash", "isNullable": False, "dataType": "bytes"},
    {
        "columnName": "state",
        "isNullable": False,
        "dataType": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]},
    },
    {
        "columnName": "before",
        "dataType": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]},
    },
    {
        "columnName": "tags",
        "isNullable": False,
        "dataType": {"type": "array", "name": "tags", "items": "string"},
    },
    {
        "columnName": "labels",
        "isNullable": False,
        "dataType": {
            "type": "map",
            "name": "labels",
            "values": {"dataType": "long", "isNullable": False},
        },
    },
    {
        "columnName": "home",
        "isNullable": False,
        "dataType": {
            "type": "record",
            "name": "Address",
            "values": [{"columnName": "city", "isNullable": False, "dataType": "string"}],
        },
    },
    {
        "columnName": "work",
        "dataType": {
            "type": "record",
            "name": "Address",
            "values": [{"columnName": "city", "isNullable": False, "dataType": "string"}],
        },
    },
]
SOURCE, TARGET = "ms.source.schema.urn", "ms.target.schema.urn"
PLACES = [(SOURCE, "ms.output.schema"), (TARGET, "ms.target.schema")]


def with_file(job_file, value, name="orders.avsc"):
    text = value if isinstance(value, str) else json.dumps(value)
    (job_file.folder / name).write_text(text)
    return name


@pytest.mark.parametrize(("urn", "place"), PLACES)
@pytest.mark.parametrize("form", [ORDERS, COLUMNS], ids=["avro", "dil"])
def test_a_file_gives_the_columns_that_could_be_written_out(job_file, urn, place, form):
    fastavro.parse_schema(ORDERS)
    named = job_file.load({urn: with_file(job_file, form)}).job
    written = job_file.load({place: json.dumps(COLUMNS)}).job
    assert named.properties[place] == written.properties[place]


def test_what_this_writes_as_avro_is_read_as_the_same_columns(job_file):
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("amount", pa.decimal128(18, 2)),
            pa.field("home", pa.struct([pa.field("city", pa.string(), nullable=False)])),
            pa.field("tags", pa.list_(pa.string())),
        ]
    )
    written = avro_schema(schema, WritingSpec(record_name="row", record_namespace="com.acme"))
    job = job_file.load({SOURCE: with_file(job_file, written)}).job
    words = [(each.name, each.nullable) for each in job.properties["ms.output.schema"]]
    assert words == [(each.name, each.nullable) for each in schema]
    assert job.properties["ms.output.schema"][1].type.word == "timestamp"


def test_columns_of_derived_fields_are_left_out_of_a_source_alone(job_file):
    derived = '[{"name": "Seen", "formula": {"type": "epoc", "source": "CURRENTDATE"}}]'
    name = with_file(job_file, ORDERS)
    job = job_file.load({SOURCE: name, TARGET: name, "ms.derived.fields": derived}).job
    found = {each.name for each in job.properties["ms.output.schema"]}
    assert {each.name for each in job.properties["ms.target.schema"]} - found == {"seen"}


def test_written_columns_win_and_the_job_is_told(job_file):
    name = with_file(job_file, ORDERS)
    columns = json.dumps(COLUMNS[:1])
    loaded = job_file.load({SOURCE: name, "ms.output.schema": columns})
    assert [each.name for each in loaded.job.properties["ms.output.schema"]] == ["id"]
    assert [notice.key for notice in loaded.notices] == [SOURCE]
    assert len(
        job_file.load({SOURCE: name, "ms.output.schema": "[]"}).job.properties["ms.output.schema"]
    ) == len(COLUMNS)


def test_another_schema_in_the_file_is_another_configuration(job_file):
    before = job_file.load({SOURCE: with_file(job_file, COLUMNS)}).job
    after = job_file.load({SOURCE: with_file(job_file, COLUMNS[:3])}).job
    assert before.digest != after.digest


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("urn:li:registeredSchema:(PEGASUS,draft/com.acme.Order)", "registry"),
        ("none.avsc", "cannot be read"),
        ("https://registry.test/orders", "not a file system"),
        ("latin.avsc", "is no text in UTF-8"),
    ],
)
def test_a_name_that_is_no_file_is_a_problem(job_file, text, what):
    (job_file.folder / "latin.avsc").write_bytes(b'{"name": "caf\xe9"}')
    assert what in job_file.problem(SOURCE, text).what


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        ("{", "no JSON"),
        ('"string"', "neither"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, "no record"),
        ({**ORDERS, "fields": [{"name": "a", "type": "null"}]}, "a is only ever null"),
        ({**ORDERS, "fields": [{"name": "a", "type": "Unknown"}]}, '"Unknown"'),
        ({**ORDERS, "fields": [{"name": "a", "type": ["null", "order"]}]}, "contains itself"),
    ],
)
def test_a_file_without_columns_is_told_by_its_name(job_file, schema, what):
    found = job_file.problem(SOURCE, with_file(job_file, schema))
    assert what in found.what
    assert str(found.origin).startswith(str(job_file.folder / "orders.avsc"))


def test_a_column_that_does_not_fit_is_told_by_its_name(job_file):
    schema = {
        **ORDERS,
        "fields": [{"name": "a", "type": ["string", {"type": "map", "values": "int"}]}],
    }
    (found,) = job_file.problems({SOURCE: with_file(job_file, schema)})
    assert (found.key, "union" in found.what) == ("ms.output.schema", True)
