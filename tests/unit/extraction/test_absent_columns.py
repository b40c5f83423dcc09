"""Columns of ms.output.schema that the rows of a source do not have."""

import io
import json

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from dil.errors import SourceContractError
from dil.extraction.absent_columns import MORE, left_out_below, left_out_note
from dil.extraction.avro.extractor import AvroExtractor
from dil.extraction.columnar.orc_extractor import OrcExtractor
from dil.extraction.columnar.parquet_extractor import ParquetExtractor
from dil.extraction.csv.extractor import CsvExtractor
from dil.extraction.json.extractor import JsonExtractor
from dil.extraction.xml.extractor import XmlExtractor
from dil.model.csv_settings import CsvSettings, CsvSpec
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.schema import ArrayType, Column, Primitive, RecordType
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
    return read_page(extractor, body).notes


def all_notes(extractor, body):
    """Return those notes, and what a run says of columns that are left out."""
    page = read_page(extractor, body)
    return (*page.notes, *left_out_note(page.left_out))


def read_page(extractor, body):
    """Return a page that was read to its end."""
    content = body if isinstance(body, bytes) else body.encode()
    page = extractor.extract(Response(io.BytesIO(content), location="https://h/x"))
    assert [batch.num_rows for batch in page.batches] or not page.rows
    return page


@FORMATS
def test_a_column_that_no_first_row_has_is_told_with_the_nearest_name(kind, body):
    assert notes(reader(kind, "id", "user_name"), body) == (
        'none of the first rows had "user_name", a column of ms.output.schema: it is null'
        ' in these rows; did you mean "userName"?',
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
    assert left_out_note(page.left_out) == (f"{LEFT_OUT}country",)


NESTED = (
    Column("id", Primitive("string")),
    Column("rec", RecordType((Column("a", Primitive("string")),))),
    Column("many", ArrayType(RecordType((Column("a", Primitive("string")),)))),
)
RECORD = {"id": "1", "rec": {"a": "x", "b": "y"}, "many": [{"a": "x", "c": "y"}], "new": "z"}


def as_parquet():
    body = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([RECORD]), body)
    return body.getvalue()


def as_orc():
    body = io.BytesIO()
    orc.write_table(pa.Table.from_pylist([RECORD]), body)
    return body.getvalue()


def as_avro():
    def record(name, *members):
        fields = [{"name": each, "type": "string"} for each in members]
        return {"type": "record", "name": name, "fields": fields}

    fields = [
        {"name": "id", "type": "string"},
        {"name": "rec", "type": record("r", "a", "b")},
        {"name": "many", "type": {"type": "array", "items": record("m", "a", "c")}},
        {"name": "new", "type": "string"},
    ]
    body = io.BytesIO()
    fastavro.writer(body, {"type": "record", "name": "row", "fields": fields}, [RECORD])
    return body.getvalue()


XML = (
    b"<r><e><id>1</id><rec><a>x</a><b>y</b></rec><many><a>x</a><c>y</c></many><new>z</new></e></r>"
)


@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        (JsonExtractor, json.dumps([RECORD]).encode(), ""),
        (ParquetExtractor, as_parquet(), ""),
        (OrcExtractor, as_orc(), ""),
        (AvroExtractor, as_avro(), ""),
        (XmlExtractor, XML, "r.e"),
    ],
)
def test_members_of_records_that_the_schema_leaves_out_are_named_at_any_depth(kind, body, field):
    spec = ExtractionSpec(ClassRef("m", "c"), output_schema=NESTED, data_field=field)
    assert sorted(read_page(kind(spec), body).left_out) == ["many[].c", "new", "rec.b"]


def test_members_of_values_of_maps_are_named_once():
    rows = [{"m": {"k": {"a": 1, "b": 2}, "l": {"b": 3}}}, {"m": None}, {"m": [1]}]
    kind = pa.map_(pa.string(), pa.struct([("a", pa.int64())]))
    assert left_out_below(rows, pa.schema([("m", kind)])) == ["m.*.b"]


def test_names_of_left_out_members_are_cleansed():
    columns = (Column("rec", RecordType((Column("a_b", Primitive("string")),))),)
    cleansing = SchemaCleansing(enabled=True)
    spec = ExtractionSpec(ClassRef("m", "c"), output_schema=columns, cleansing=cleansing)
    page = read_page(JsonExtractor(spec), '[{"rec": {"a b": "x", "c d": "y"}}]')
    assert page.left_out == ("rec.c_d",)


def test_xml_rows_say_which_columns_they_lack():
    columns = tuple(Column(name, Primitive("string")) for name in ("id", "userNames"))
    spec = ExtractionSpec(ClassRef("m", "c"), output_schema=columns, data_field="r.e")
    page = read_page(XmlExtractor(spec), b"<r><e><id>1</id><userName>x</userName></e></r>")
    assert 'did you mean "userName"?' in page.notes[0]
