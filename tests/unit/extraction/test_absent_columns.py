"""Columns of ms.output.schema that the rows of a source do not have."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dil.errors import SourceContractError
from dil.extraction.absent_columns import MORE
from dil.extraction.columnar.parquet_extractor import ParquetExtractor
from dil.extraction.csv.extractor import CsvExtractor
from dil.extraction.json.extractor import JsonExtractor
from dil.model.csv_settings import CsvSettings, CsvSpec
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.schema import Column, Primitive
from dil.model.settings import SchemaCleansing
from dil.spi.connector import Response

JSON = '[{"id": 1, "userName": "x"}, {"id": 2, "eMail": null}]'
CSV = "id,userName,eMail\n1,x,\n2,,\n"
FORMATS = pytest.mark.parametrize(("kind", "body"), [("json", JSON), ("csv", CSV)])


def reader(kind, *names, made_up=(), **more):
    columns = tuple(Column(name, Primitive("string")) for name in names)
    if kind == "json":
        csv = CsvSpec(made_up=frozenset(made_up))
        return JsonExtractor(
            ExtractionSpec(ClassRef("m", "c"), output_schema=columns, csv=csv, **more)
        )
    csv = CsvSpec(CsvSettings(column_header_index=0), frozenset(made_up))
    return CsvExtractor(ExtractionSpec(ClassRef("m", "c"), output_schema=columns, csv=csv, **more))


LEFT_OUT = "the source has columns that ms.output.schema leaves out: "


def notes(extractor, body):
    """Return what a page that was read to its end says of columns that it lacks."""
    return tuple(each for each in all_notes(extractor, body) if not each.startswith(LEFT_OUT))


def all_notes(extractor, body):
    """Return the notes of a page that was read to its end."""
    page = extractor.extract(Response(io.BytesIO(body.encode()), location="https://h/x"))
    assert [batch.num_rows for batch in page.batches] or not page.rows
    return page.notes


@FORMATS
def test_a_column_that_no_first_row_has_is_told_with_the_nearest_name(kind, body):
    assert notes(reader(kind, "id", "user_name"), body) == (
        'none of the first rows had "user_name", a column of ms.output.schema, so it is null'
        ' there; did you mean "userName"?',
    )


@FORMATS
def test_an_optional_column_that_is_like_no_other_is_told_without_a_suggestion(kind, body):
    (note,) = notes(reader(kind, "id", "deleted"), body)
    assert '"deleted"' in note
    assert "did you mean" not in note


@FORMATS
def test_columns_that_are_there_and_null_are_not_told(kind, body):
    assert notes(reader(kind, "id", "userName", "eMail"), body) == ()


@FORMATS
def test_a_name_that_is_a_column_of_its_own_is_not_what_another_one_means(kind, body):
    (note,) = notes(reader(kind, "id", "userName", "userNames"), body)
    assert "did you mean" not in note


@FORMATS
def test_columns_of_derived_fields_are_not_missed(kind, body):
    assert notes(reader(kind, "id", "Loaded", made_up=["loaded"]), body) == ()
    assert notes(reader(kind, "Loaded", made_up=["loaded"]), body) == ()


@FORMATS
def test_rows_that_have_no_column_at_all_fail(kind, body):
    with pytest.raises(SourceContractError) as caught:
        notes(reader(kind, "user_name", "mail"), body)
    assert "user_name, mail" in caught.value.message
    assert "id, userName" in caught.value.message
    assert caught.value.fix.startswith('Did you mean "userName"?')


@FORMATS
def test_only_the_first_rows_are_looked_at(kind, body):
    extractor = reader(kind, "id", "deleted")
    first = notes(extractor, body)
    assert notes(extractor, body.replace("userName", "deleted")) == first


@pytest.mark.parametrize(("kind", "body"), [("json", "[]"), ("json", "[{}]"), ("csv", "id,b\n")])
def test_without_rows_or_members_nothing_is_refused(kind, body):
    notes(reader(kind, "id"), body)


def test_the_header_of_a_later_page_is_told_once_there_are_rows():
    extractor = reader("csv", "id", "user_name")
    assert notes(extractor, "id,other\n") == ()
    assert len(notes(extractor, CSV)) == 1


def test_many_missing_columns_are_told_in_few_sentences():
    told = notes(reader("json", "id", *(f"c{i}" for i in range(30))), JSON)
    assert len(told) == 11
    assert told[-1] == MORE


def test_names_are_compared_as_cleansing_leaves_them():
    cleansing = SchemaCleansing(enabled=True)
    extractor = reader("json", "id", "e_mail", cleansing=cleansing)
    assert notes(extractor, '[{"id":1,"e mail":null}]') == ()


@FORMATS
def test_columns_that_the_schema_leaves_out_are_named(kind, body):
    assert all_notes(reader(kind, "id"), body) == (f"{LEFT_OUT}userName, eMail",)
    assert all_notes(reader(kind, "id", "userName", "eMail"), body) == ()


def test_a_header_in_other_letters_is_no_column_of_its_own():
    assert all_notes(reader("csv", "ID", "username"), CSV) == (f"{LEFT_OUT}eMail",)


def test_of_many_columns_that_are_left_out_the_first_are_named():
    row = ", ".join(f'"c{i}": 1' for i in range(30))
    (note,) = all_notes(reader("json", "c0"), f"[{{{row}}}]")
    assert note.startswith(f"{LEFT_OUT}c1, c2, ")
    assert note.endswith("c10 and 19 more")


def test_columns_of_a_file_that_the_schema_leaves_out_are_named():
    body = io.BytesIO()
    pq.write_table(pa.table({"id": ["1"], "country": ["FR"]}), body)
    columns = (Column("id", Primitive("string")),)
    extractor = ParquetExtractor(ExtractionSpec(ClassRef("m", "c"), output_schema=columns))
    body.seek(0)
    page = extractor.extract(Response(body, location="file.parquet"))
    assert [batch.schema.names for batch in page.batches] == [["id"]]
    assert page.notes == (f"{LEFT_OUT}country",)
