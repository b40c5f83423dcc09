"""Properties that name columns, against the schema that says which columns there are."""

from __future__ import annotations

import json

import pytest

KEYS, DELTAS = "extract.primary.key.fields", "extract.delta.fields"
OP, LABEL, APART = "ms.merge.op.field", "ms.timelabel.column", "ms.table.partition.fields"
MERGE = {"ms.publish.mode": "merge", "writer.output.format": "PARQUET", KEYS: "id"}
DAILY = {"ms.timelabel.schedule": "@daily"}


def schema(*more: str, **columns: str) -> str:
    words = {"id": "long", "country": "string", "updated_at": "timestamp", "op": "string"}
    words |= dict.fromkeys(more, "string") | columns
    return json.dumps(
        [{"columnName": name, "dataType": {"type": word}} for name, word in words.items()]
    )


GIVEN = {"ms.output.schema": schema()}
DERIVED = json.dumps(
    [{"name": "day", "formula": {"type": "regexp", "source": "country", "format": "^(.)"}}]
)
NESTED = json.dumps(
    [
        {"columnName": "id", "dataType": {"type": "long"}},
        {"columnName": "tags", "dataType": {"type": "array", "name": "t", "items": "string"}},
    ]
)


@pytest.mark.parametrize(
    ("properties", "key", "name", "fix"),
    [
        ({**MERGE, KEYS: "idd"}, KEYS, "idd", 'Did you mean "id"?'),
        ({**MERGE, DELTAS: "update_at"}, DELTAS, "update_at", 'Did you mean "updated_at"?'),
        ({**MERGE, OP: "oop"}, OP, "oop", 'Did you mean "op"?'),
        ({APART: "contry"}, APART, "contry", 'Did you mean "country"?'),
        ({APART: "Country"}, APART, "Country", "Upper and lower case count."),
        ({**DAILY, LABEL: "updated"}, LABEL, "updated", 'Did you mean "updated_at"?'),
        ({APART: "zzz"}, APART, "zzz", "Name one of id, country, updated_at, op;"),
    ],
)
def test_a_column_that_the_schema_does_not_have_is_refused(job_file, properties, key, name, fix):
    (found,) = job_file.problems({**GIVEN, **properties})
    assert (found.key, found.what) == (
        key,
        f'names "{name}", which is no column of ms.output.schema',
    )
    assert fix in found.fix
    assert found.origin is not None
    assert found.origin.line


EVENTS, STREAMS = "ms.event.column", "ms.event.partition.column"
FOLLOWED = {EVENTS: "updated_at", "ms.event.watermark": "bounded", "ms.event.delay": "PT1M"}


@pytest.mark.parametrize(
    ("properties", "key", "what", "fix"),
    [
        ({EVENTS: "update_at"}, EVENTS, '"update_at", which is no column', '"updated_at"'),
        ({EVENTS: "$.seen.at"}, EVENTS, '"seen", which is no column', "Name one of"),
        ({EVENTS: "country"}, EVENTS, '"country", which holds no times', "whole numbers"),
        ({STREAMS: "contry"}, STREAMS, '"contry", which is no column', '"country"'),
    ],
)
def test_an_event_column_is_one_of_the_schema_that_holds_times(
    job_file, properties, key, what, fix
):
    (found,) = job_file.problems({**GIVEN, **FOLLOWED, **properties})
    assert found.key == key
    assert what in found.what
    assert fix in found.fix
    assert found.origin is not None
    assert found.origin.line


@pytest.mark.parametrize("name", ["updated_at", "id", "day", "$.country.at"])
def test_an_event_column_of_times_or_of_what_the_schema_does_not_decide_is_taken(job_file, name):
    given = {**GIVEN, **FOLLOWED, "ms.derived.fields": DERIVED, EVENTS: name}
    assert job_file.load(given).job.events.column == name


@pytest.mark.parametrize("key", [KEYS, DELTAS])
def test_keys_that_no_row_goes_by_are_told_and_not_refused(job_file, key):
    loaded = job_file.load({**GIVEN, key: "idd"})
    (notice,) = [each for each in loaded.notices if each.key == key]
    assert "no column of ms.output.schema" in notice.what


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"ms.output.schema": schema(), "ms.enable.schema.based.filtering": "false"},
        {"ms.output.schema": schema(), "converter.avro.nullify.fields.enabled": "true"},
        {"ms.output.schema": schema(), "converter.classes": "own_converters:Own"},
        {"ms.output.schema": schema(), "ms.extractor.class": "text"},
        {"ms.output.schema": schema("other")},
    ],
    ids=["inferred", "more columns", "earlier columns", "own converter", "text", "named"],
)
def test_nothing_is_said_where_nobody_knows(job_file, properties):
    properties = {**properties, APART: "other"}
    if "converter.classes" in properties:
        (job_file.folder / "own_converters.py").write_text(
            "from dil.spi.converter import Converter\n"
            "class Own(Converter):\n"
            "    def convert(self, batch, facts):\n"
            "        yield batch\n"
        )
    assert job_file.load(properties).job.publishing.table.partition_fields == ("other",)


def test_derived_and_system_columns_are_columns(job_file):
    job_file.load({**GIVEN, "ms.derived.fields": DERIVED, APART: "day"})
    (found,) = job_file.problems({**GIVEN, "ms.derived.fields": DERIVED, APART: "dayy"})
    assert found.fix == 'Did you mean "day"?'
    system = {"ms.output.system.columns": "_dil_extracted_at"}
    job_file.load({**GIVEN, **MERGE, **system, DELTAS: "_dil_extracted_at"})


def test_behind_a_normaliser_the_target_schema_counts(job_file):
    target = json.dumps(
        [
            {"columnName": "country", "dataType": {"type": "string"}},
            {"columnName": "orders", "dataType": {"type": "array", "name": "orders"}},
        ]
    )
    normalised = {
        **GIVEN,
        "converter.classes": "JsonNormalizerConverter",
        "ms.target.schema": target,
    }
    job_file.load({**normalised, APART: "country"})
    (found,) = job_file.problems({**normalised, APART: "op"})
    assert found.what == 'names "op", which is no column of ms.target.schema'


def test_rows_are_not_merged_by_nested_columns(job_file):
    (found,) = job_file.problems({**MERGE, "ms.output.schema": NESTED, KEYS: "tags"})
    assert found.key == KEYS
    assert "records, lists or maps" in found.what


@pytest.mark.parametrize("word", ["string", "double", "int", "boolean"])
def test_a_timelabel_column_holds_times(job_file, word):
    (found,) = job_file.problems({**DAILY, "ms.output.schema": schema(at=word), LABEL: "at"})
    assert (found.key, found.what) == (
        LABEL,
        'names "at", which holds no times in ms.output.schema',
    )


@pytest.mark.parametrize("word", ["timestamp", "date", "long"])
def test_times_are_timestamps_dates_and_milliseconds(job_file, word):
    job_file.load({**DAILY, "ms.output.schema": schema(at=word), LABEL: "at"})


def test_types_of_databases_are_their_own(job_file):
    database = {
        "source.class": "jdbc",
        "ms.source.uri": "jdbc:sqlite:shop.db",
        "ms.jdbc.statement": "SELECT * FROM orders",
        **DAILY,
    }
    job_file.load({**database, "ms.output.schema": schema("at"), LABEL: "at"})
    (found,) = job_file.problems({**database, "ms.output.schema": schema("at"), LABEL: "att"})
    assert found.key == LABEL


def json_columns(data_type: object, **more: str) -> dict[str, str]:
    column = {"columnName": "ref", "dataType": data_type}
    return {"ms.output.schema": json.dumps([column]), **more}


RECORD_OF_JSON = {"type": "record", "values": [{"columnName": "m", "dataType": "JSON"}]}


@pytest.mark.parametrize(
    "data_type",
    [
        "json",
        {"type": "json"},
        {"type": ["json", "null"]},
        {"type": "array", "items": "json"},
        {"type": "map", "values": "json"},
        RECORD_OF_JSON,
    ],
)
def test_json_columns_of_a_json_source_are_accepted_at_any_depth(job_file, data_type):
    job_file.load(json_columns(data_type))


def test_a_union_with_json_is_json(job_file):
    job = job_file.load(json_columns({"type": ["string", "json", "null"]})).job
    assert job.extraction.output_schema[0].type.word == "json"


@pytest.mark.parametrize(
    ("data_type", "path"),
    [
        ("json", "ref"),
        ({"type": "array", "items": RECORD_OF_JSON}, "ref[].m"),
        ({"type": "map", "values": "json"}, "ref[]"),
    ],
)
def test_json_columns_of_other_sources_are_refused(job_file, data_type, path):
    (found,) = job_file.problems(json_columns(data_type, **{"ms.extractor.class": "xml"}))
    assert (found.key, found.what) == (
        "ms.output.schema",
        f'"{path}" has the type json, which only rows of JSON have',
    )


def test_json_columns_are_refused_where_types_are_found_or_rows_are_made(job_file):
    open_rows = {"ms.enable.schema.based.filtering": "false"}
    (found,) = job_file.problems(json_columns("json", **open_rows))
    assert "lets DIL find columns in rows" in found.what
    job_file.problem("ms.data.default.type", '{"ref": "json"}')


@pytest.mark.parametrize("word", ["map", "union", "Record"])
def test_a_type_without_its_definition_is_not_suggested_for_itself(job_file, word):
    found = job_file.problem("ms.data.default.type", f'{{"a": "{word}"}}')
    assert f'"{word}"' not in found.fix
