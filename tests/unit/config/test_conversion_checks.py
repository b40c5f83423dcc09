"""Start-up checks of converters and encrypted fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dil.config.conversion import check_conversion
from dil.config.findings import Findings
from dil.model.properties import Properties
from dil.model.schema import ArrayType, Column, MapType, Primitive, RecordType
from dil.model.secondary import SecondaryInput
from dil.model.settings import ValidationAttributes
from dil.sections.secondary import SecondarySection
from dil.spi.converter import Converter
from dil.spi.registry import PluginKind, resolve

MOVED = RecordType(())
NORMALISER = "com.linkedin.cdi.converter.JsonNormalizerConverter"
AVRO = "com.linkedin.cdi.converter.AvroNormalizerConverter"
VALIDATION = "com.linkedin.cdi.converter.InFlowValidationConverter"
RANGES = "com.linkedin.cdi.converter.CsvRangeGenerator"
TARGET = "ms.target.schema"
CLASSES = "converter.classes"


def column(name: str, kind: Any = "string", **members: Any) -> dict[str, Any]:
    data_type = {"type": kind} if isinstance(kind, str) else kind
    return {"columnName": name, "dataType": data_type, **members}


def schema(*columns: Any) -> str:
    return json.dumps([column(each) if isinstance(each, str) else each for each in columns])


ARRAY = {"type": "array", "name": "X"}


def normaliser(target: str | None, *given: Any, **more: str) -> dict[str, str | None]:
    return {
        CLASSES: NORMALISER,
        TARGET: target,
        "ms.output.schema": schema(*given) if given else None,
        **more,
    }


def test_a_complete_normaliser_has_no_problem(job_file):
    loaded = job_file.load(normaliser(schema("a", column("X", ARRAY)), "a", "b"))
    assert str(loaded.job.conversion.converters[0]) == "dil.conversion.normalizer:JsonNormalizer"
    assert loaded.job.properties["ms.normalizer.batch.size"] == 500
    assert loaded.job.properties["ms.normalizer.batch.break"] is False


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ({"type": "array"}, ArrayType(MOVED)),
        ({"type": "array", "name": "X", "items": {"type": "record"}}, ArrayType(MOVED, name="X")),
        ({"type": "array", "items": {"name": "i", "dataType": "record"}}, ArrayType(MOVED)),
        ("record", MOVED),
        ({"type": "object", "name": "X"}, MOVED),
        ("map", MapType(Primitive("string"))),
        ({"type": "map", "values": "long"}, MapType(Primitive("long"))),
        (
            {"type": "array", "items": {"type": "record", "values": [column("b")]}},
            ArrayType(RecordType((Column("b", Primitive("string")),))),
        ),
    ],
)
def test_a_container_may_leave_open_what_it_holds(job_file, kind, expected):
    loaded = job_file.load({TARGET: schema("a", column("X", kind))})
    (_, found) = loaded.job.properties[TARGET]
    assert (found.name, found.type) == ("X", expected)


@pytest.mark.parametrize("name", [NORMALISER, AVRO, RANGES])
def test_a_converter_that_makes_other_rows_needs_their_schema(job_file, name):
    (found,) = job_file.problems({CLASSES: name})
    assert (found.key, found.origin.line) == (CLASSES, 8)
    assert "needs ms.target.schema" in found.what


@pytest.mark.parametrize("name", [NORMALISER, AVRO])
def test_a_target_without_a_new_column_is_refused(job_file, name):
    (found,) = job_file.problems(normaliser(schema("a", "b"), "a", "b") | {CLASSES: name})
    assert found.key == TARGET
    assert "no column that" in found.what


def test_derived_fields_are_columns_of_the_rows_as_well(job_file):
    fields = json.dumps([{"name": "X", "formula": {"type": "string", "value": "v"}}])
    target = schema("a", column("X", ARRAY))
    (found,) = job_file.problems(normaliser(target, "a", **{"ms.derived.fields": fields}))
    assert "no column that" in found.what


def test_a_target_with_every_column_leaves_nothing_to_move(job_file):
    (found,) = job_file.problems(normaliser(schema("a", column("X", ARRAY)), "a"))
    assert "nothing goes into" in found.what


@pytest.mark.parametrize("word", ["map", "record"])
def test_a_map_or_record_needs_batches_of_one_row(job_file, word):
    job = normaliser(schema("a", column("X", word)), "a", "b")
    (found,) = job_file.problems(job)
    assert f"is of type {word}, which holds one row" in found.what
    assert found.fix.startswith("Set ms.normalizer.batch.size=1")
    job_file.load(job | {"ms.normalizer.batch.size": "1"})
    job_file.load(job | {CLASSES: AVRO})


@pytest.mark.parametrize("kind", ["string", {"type": "array", "items": "string"}])
def test_a_new_column_that_cannot_hold_rows_is_refused(job_file, kind):
    (found,) = job_file.problems(normaliser(schema("a", column("X", kind)), "a", "b"))
    assert found.key == TARGET
    assert '"X"' in found.what


def test_a_target_that_cannot_be_read_is_not_called_missing_as_well(job_file):
    (found,) = job_file.problems(normaliser("[{", "a", "b"))
    assert (found.key, found.what) == (TARGET, "has brackets that never balance")


def test_without_a_schema_of_the_rows_the_run_checks_the_target(job_file):
    job_file.load(normaliser(schema("a", "b")))


def test_a_finding_points_to_the_column_inside_a_long_value(job_file):
    path = job_file.folder / "job.conf"
    target = schema("a", column("X", "map")).replace("}, {", "},\n {")
    (found,) = job_file.problems(normaliser(target, "a", "b"))
    assert str(found.origin) == f"{path}:10"


def test_only_one_converter_can_use_the_target_schema(job_file):
    target = schema("a", column("X", ARRAY))
    (found,) = job_file.problems(normaliser(target) | {CLASSES: f"{NORMALISER},{AVRO}"})
    assert found.key == CLASSES
    assert "both json-normalizer and avro-normalizer" in found.what


def test_a_range_has_two_columns(job_file):
    assert "makes two" in job_file.problems({CLASSES: RANGES, TARGET: schema("a")})[0].what
    job_file.load({CLASSES: RANGES, TARGET: schema("a", "b")})


def test_in_flow_validation_needs_its_rule(job_file):
    (found,) = job_file.problems({CLASSES: VALIDATION})
    assert found.key == CLASSES
    assert "ms.validation.attributes is not set" in found.what


def test_attributes_that_are_left_out_keep_their_default(job_file):
    loaded = job_file.load({CLASSES: VALIDATION, "ms.validation.attributes": '{"threshold":"5"}'})
    assert loaded.job.properties["ms.validation.attributes"] == ValidationAttributes(threshold=5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"threshold": -1}', "too small"),
        ('{"criteria": "sucess"}', '"sucess"'),
        ('{"errorcolumn": "e"}', 'unknown member "errorcolumn"'),
    ],
)
def test_wrong_attributes_are_told(job_file, text, words):
    found = job_file.problem("ms.validation.attributes", text)
    assert words in found.what


def test_nothing_can_follow_in_flow_validation(job_file):
    job = {CLASSES: f"{VALIDATION},{RANGES}", TARGET: schema("a", "b")}
    (found,) = job_file.problems(job | {"ms.validation.attributes": '{"threshold":5}'})
    assert "has csv-range-generator after in-flow-validation" in found.what


@pytest.mark.parametrize(
    "given",
    [
        ("id", "eror"),
        (column("r", {"type": "array", "items": {"type": "record", "values": [column("eror")]}}),),
    ],
)
def test_an_error_column_that_no_row_can_have_is_refused(job_file, given):
    attributes = '{"threshold": 5, "errorColumn": "error"}'
    job = {CLASSES: VALIDATION, "ms.validation.attributes": attributes}
    (found,) = job_file.problems(job | {"ms.output.schema": schema(*given)})
    assert 'errorColumn "error"' in found.what
    assert found.fix == 'Did you mean "eror"?'


@pytest.mark.parametrize("counted", ["error", "error.code"])
def test_an_error_column_of_the_schema_is_counted(job_file, counted):
    attributes = json.dumps({"threshold": 5, "errorColumn": counted})
    job = {CLASSES: VALIDATION, "ms.validation.attributes": attributes}
    loaded = job_file.load({**job, "ms.output.schema": schema("id", "error")}).job
    assert loaded.properties["ms.validation.attributes"].error_column == counted


TOKEN = column("token", isNullable=False)


def encrypting(job_file, *paths: Any, given: str | None = None, **more: str) -> dict[str, Any]:
    (job_file.folder / "key").write_text("master\n")
    job = {"ms.encryption.fields": json.dumps(paths), "encrypt.key.loc": "key"}
    return job | {"ms.output.schema": given} | more


def test_encrypted_fields_are_strings_that_are_never_null(job_file):
    user = column("user", {"type": "record", "values": [TOKEN]})
    labels = column("labels", {"type": "map", "values": "string"})
    job = encrypting(job_file, "token", "user.token", given=schema(TOKEN, user, labels))
    fields = job_file.load(job).job.conversion.encrypted_fields
    assert fields == ("token", "user.token")
    job_file.load(encrypting(job_file, "labels.key", given=schema(labels)))
    job_file.load(encrypting(job_file, "anything.at.all"))


@pytest.mark.parametrize(
    ("path", "given", "words"),
    [
        ("token", schema("token"), "nullable"),
        ("token", schema(column("token", "long", isNullable=False)), "another type"),
        ("tokn", schema(TOKEN), "is not in ms.output.schema"),
        ("token.part", schema(TOKEN), 'leads into "token"'),
        ("l.0", schema(column("l", {"type": "array", "items": "string"})), "through an array"),
    ],
)
def test_what_cannot_be_encrypted_is_told_before_the_run(job_file, path, given, words):
    (found,) = job_file.problems(encrypting(job_file, path, given=given))
    assert found.key == "ms.encryption.fields"
    assert words in found.what


def test_paths_are_looked_up_by_their_cleansed_names(job_file):
    given = schema(column("_token", isNullable=False))
    job_file.load(encrypting(job_file, "$token", given=given))
    uncleansed = {"ms.schema.cleansing": '{"enabled": "false"}'}
    (found,) = job_file.problems(encrypting(job_file, "$token", given=given, **uncleansed))
    assert "is not in ms.output.schema" in found.what


@pytest.mark.parametrize("paths", [[""], [5], ["a..b"], ["a", "a.b"]])
def test_paths_that_mean_nothing_are_refused(job_file, paths):
    (found,) = job_file.problems(encrypting(job_file, *paths))
    assert found.key == "ms.encryption.fields"


def test_encryption_needs_a_master_password(job_file):
    (found,) = job_file.problems({"ms.encryption.fields": '["token"]'})
    assert "there is no master password" in found.what
    assert "encrypt.key.loc" in found.fix


@pytest.mark.parametrize(
    ("branches", "word", "nullable"),
    [
        (["int", "long"], "long", False),
        (["null", "int", "double"], "double", True),
        (["long", "number"], "double", False),
        (["int", "string"], "string", False),
        (["boolean", "int"], "string", False),
        (["timestamp", "null", "string"], "string", True),
        (["INT64", {"type": "long"}], "long", False),
    ],
)
def test_a_union_of_flat_types_is_the_type_that_holds_them_all(job_file, branches, word, nullable):
    given = schema(column("u", {"type": branches}, isNullable=False))
    (found,) = job_file.load({"ms.output.schema": given}).job.extraction.output_schema
    assert (found.type, found.nullable) == (Primitive(word), nullable)


@pytest.mark.parametrize(
    "branches", [["string", {"type": "map", "values": "int"}], ["record", "int"], ["null"], []]
)
def test_a_union_that_no_column_can_hold_is_refused(job_file, branches):
    found = job_file.problem("ms.output.schema", schema(column("u", {"type": branches})))
    assert found.what.startswith("u is ")


def test_rows_that_pass_unfiltered_may_have_columns_that_the_schema_lacks(job_file):
    unfiltered = {"ms.enable.schema.based.filtering": "false"}
    job_file.load(encrypting(job_file, "token", given=schema("id"), **unfiltered))
    job_file.load(normaliser(schema("a", column("X", ARRAY)), "a", **unfiltered))


def test_validation_input_that_nothing_reads_gives_a_notice():
    entry = SecondaryInput(path="/x", category="validation")
    values = Properties(
        {"ms.validation.attributes": ValidationAttributes()},
        sections=[SecondarySection(inputs=(entry,))],
    )
    findings = Findings()
    check_conversion(values, (), findings)
    assert [found.key for found in findings.notices] == ["ms.secondary.input"]
    findings = Findings()
    check_conversion(values, [resolve(PluginKind.CONVERTER, VALIDATION, Converter)], findings)
    assert findings.notices == []
