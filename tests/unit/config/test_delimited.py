"""``ms.csv`` and the order of cells."""

from __future__ import annotations

import pytest

from dil.config.extraction import check_csv
from dil.config.findings import Findings
from dil.model.csv_settings import CsvSettings, CsvSpec
from dil.model.job import ClassRef

CSV = ClassRef("dil.extraction.csv.extractor", "CsvExtractor")
SCHEMA = (
    '[{"columnName":"a","dataType":{"type":"int"}},{"columnName":"at","dataType":{"type":"long"}}]'
)
DERIVED = '[{"name":"AT","formula":{"type":"epoc","source":"CURRENTDATE"}}]'


def csv(job_file, text):
    return job_file.load({"ms.csv": text}).job.extraction.csv.settings


def test_without_ms_csv_the_defaults_hold(job_file):
    assert job_file.load().job.extraction.csv == CsvSpec()
    assert csv(job_file, "{}") == CsvSettings()
    settings = CsvSettings()
    assert (settings.field_separator, settings.quote_character) == (",", '"')
    assert (settings.escape_character, settings.skipped) == ("\\", 0)


@pytest.mark.parametrize(
    ("text", "character"),
    [("u0009", "\t"), (" U00a7 ", "§"), (";", ";"), (" | ", "|"), ("ab", "a"), ("u0020", " ")],
)
def test_a_character_is_trimmed_and_may_be_its_code(job_file, text, character):
    assert csv(job_file, f'{{"fieldSeparator":"{text}"}}').field_separator == character


def test_an_old_key_alone_is_a_member(job_file):
    job = job_file.load({"ms.csv.separator": ";"}).job
    assert job.extraction.csv.settings.field_separator == ";"


def test_quote_and_escape_may_be_switched_off(job_file):
    found = csv(job_file, '{"quoteCharacter":"u0000","escapeCharacter":""}')
    assert (found.quote_character, found.escape_character) == ("", "")


def test_numbers_and_booleans_may_be_written_as_texts_and_words_in_any_case(job_file):
    found = csv(
        job_file,
        '{"columnHeaderIndex":"1","linesToSkip":3,"maxFailures":"5","keepNullString":"true",'
        '"defaultFieldType":"String","columnProjection":"0,2-4"}',
    )
    assert (found.column_header_index, found.skipped, found.max_failures) == (1, 3, 5)
    assert (found.keep_null_string, found.default_field_type) == (True, "string")
    assert found.projected == (0, 2, 3, 4)


@pytest.mark.parametrize(
    "name", ["columnHeaderIndex", "linesToSkip", "maxFailures", "keepNullString"]
)
def test_a_blank_number_or_boolean_is_as_if_left_out(job_file, name):
    assert csv(job_file, f'{{"{name}":" "}}') == csv(job_file, "{}")


def test_the_header_is_always_skipped(job_file):
    assert csv(job_file, '{"columnHeaderIndex":2}').skipped == 3


@pytest.mark.parametrize(
    "text",
    [
        '{"separator":";"}',
        '{"columnProjection":""}',
        '{"columnProjection":"0, 1"}',
        '{"columnProjection":"3-2"}',
        '{"columnProjection":"2-2"}',
        '{"columnProjection":"a"}',
        '{"columnHeaderIndex":-2}',
        '{"columnHeaderIndex":1,"linesToSkip":1}',
        '{"linesToSkip":-1}',
        '{"maxFailures":"many"}',
        '{"keepNullString":"perhaps"}',
        '{"defaultFieldType":"date"}',
        '{"defaultFieldType":""}',
        '{"fieldSeparator":" "}',
        '{"fieldSeparator":"u000a"}',
        '{"fieldSeparator":";","quoteCharacter":";"}',
        '{"fieldSeparator":";","escapeCharacter":"u003B"}',
    ],
)
def test_an_attribute_that_cannot_be_is_an_error_with_a_fix(job_file, text):
    job_file.problem("ms.csv", text)


def test_an_escape_like_the_quote_is_allowed_and_a_record_separator_has_no_effect(job_file):
    assert csv(job_file, '{"escapeCharacter":"u0022"}').escape_character == '"'
    assert job_file.notices({"ms.csv": '{"recordSeparator":"|"}'}) == ["ms.csv"]


def test_derived_fields_take_no_cell_unless_they_read_their_own_column(job_file):
    job = job_file.load({"ms.output.schema": SCHEMA, "ms.derived.fields": DERIVED}).job
    assert job.extraction.csv.made_up == {"at"}
    own = '[{"name":"at","formula":{"type":"epoc","source":"at","format":"iso"}}]'
    job = job_file.load({"ms.output.schema": SCHEMA, "ms.derived.fields": own}).job
    assert job.extraction.csv.made_up == frozenset()


def checked(job_file, properties, extractor=CSV):
    """Check properties that were each read in a job of its own."""
    values = job_file.load().job.properties
    for name, text in properties.items():
        values = values.having(name, job_file.load({name: text}).job.properties[name])
    findings = Findings()
    check_csv(values, extractor, findings)
    return [(p.key, p.what) for p in (*findings.problems, *findings.notices)]


def test_a_projection_needs_one_cell_for_each_column_of_the_schema(job_file):
    job = {"ms.output.schema": SCHEMA, "ms.csv": '{"columnProjection":"0,1"}'}
    assert checked(job_file, job) == []
    ((key, what),) = checked(job_file, {**job, "ms.derived.fields": DERIVED})
    assert key == "ms.csv"
    assert "2 cells" in what
    assert "columns for 1" in what


def test_a_projection_without_a_schema_is_noted(job_file):
    ((key, _),) = checked(job_file, {"ms.csv": '{"columnProjection":"0,1"}'})
    assert key == "ms.csv"


ORDER = "converter.csv_to_json.custom_order"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("1,x", "no whole number"),
        ("1,2", "names the cell 2"),
        ("0", "has 1 numbers, and ms.output.schema has 2 columns"),
    ],
)
def test_an_order_of_cells_has_a_cell_for_each_column(job_file, text, what):
    job = {"ms.extractor.class": "csv", "ms.output.schema": SCHEMA}
    assert job_file.load({**job, ORDER: "1,-1"}).job.extraction.csv.order == (1, -1)
    found = job_file.problems({**job, ORDER: text})
    assert (found[0].key, what in found[0].what) == (ORDER, True)


def test_an_order_of_cells_has_no_effect_without_a_schema(job_file):
    assert job_file.notices({"ms.extractor.class": "csv", ORDER: "1,0"}) == [ORDER]


def test_a_nested_column_is_an_error_for_csv_only(job_file):
    job = {
        "ms.output.schema": '[{"columnName":"a","dataType":{"type":"array","name":"a",'
        '"items":"string"}}]'
    }
    ((key, what),) = checked(job_file, job)
    assert (key, '"a"' in what) == ("ms.output.schema", True)
    assert checked(job_file, job, ClassRef("m", "JsonExtractor")) == []
