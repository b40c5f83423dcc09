"""Names as the body of an answer: what is listed is what the job's extractor reads."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.files.listing import listing_problems, listing_response
from dil.errors import SourceContractError
from dil.extraction.csv.extractor import CsvExtractor
from dil.extraction.json.extractor import JsonExtractor
from dil.extraction.text_extractor import TextExtractor
from dil.model.csv_settings import CsvSettings, CsvSpec
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.properties import Properties
from dil.model.schema import Column, Primitive
from dil.sections.extraction import CsvSection, ExtractionSection

EXTRACTORS = {"json": JsonExtractor, "csv": CsvExtractor, "text": TextExtractor}
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
NAMES = st.lists(st.text(CHARACTERS, min_size=1, max_size=12).filter(lambda n: n.strip()))
COLUMN = (Column("values", Primitive("string")),)


def spec(kind="json", charset="UTF-8", extractor=None, **csv):
    found = extractor or EXTRACTORS[kind]
    return ExtractionSpec(
        ClassRef(found.__module__, found.__qualname__),
        charset=charset,
        csv=CsvSpec(CsvSettings(**csv)),
        output_schema=COLUMN if kind != "text" else None,
    )


def body(names, **of):
    return listing_response(names, SimpleNamespace(extraction=spec(**of)), "s3://b/p").body


def read(names, **of):
    found = spec(**of)
    response = listing_response(names, SimpleNamespace(extraction=found), "s3://b/p")
    page = EXTRACTORS[of["kind"]](found).extract(response)
    return [value for batch in page.batches for value in batch.column(0).to_pylist()]


@given(names=NAMES)
def test_json_rows_are_the_names_whatever_characters_they_have(names):
    assert read(names, kind="json") == names


@given(
    names=NAMES,
    csv=st.sampled_from(
        [{}, {"escape_character": ""}, {"escape_character": '"'}, {"field_separator": "|"},
         {"quote_character": "'", "field_separator": "\t"}]
    ),
)  # fmt: skip
def test_csv_cells_are_the_names_whatever_the_dialect(names, csv):
    assert read(names, kind="csv", keep_null_string=True, **csv) == names


def test_csv_cells_are_written_in_the_character_set_of_the_job():
    assert read(["é", "ß"], kind="csv", charset="UTF-16") == ["é", "ß"]


def test_text_is_one_name_in_each_line():
    assert read(["/a", "/b c"], kind="text") == ["/a\n/b c\n"]


@pytest.mark.parametrize("kind", EXTRACTORS)
def test_no_name_is_no_row(kind):
    assert read([], kind=kind) == []


@pytest.mark.parametrize(
    ("name", "of", "what"),
    [
        ("null", {"kind": "csv"}, "reads as null"),
        ("a,b", {"kind": "csv", "quote_character": ""}, "has a separator"),
        ("a\nb", {"kind": "text"}, "has a line break"),
        ("a\udc80b", {"kind": "json"}, "not in utf-8"),
        ("a€", {"kind": "csv", "charset": "latin-1"}, "not in latin-1"),
    ],
)
def test_a_name_that_would_read_as_another_one_is_an_error(name, of, what):
    with pytest.raises(SourceContractError, match=what):
        body([name], **of).read()


def test_names_are_taken_while_the_body_is_read_and_let_go_when_it_is_closed():
    taken = []

    def names():
        try:
            for number in range(1_000_000):
                taken.append(number)
                yield f"name-{number}"
        finally:
            taken.append("closed")

    stream = body(names(), kind="json")
    assert taken == []
    assert stream.read(100).startswith(b'[{"values":"name-0"},')
    assert len(taken) <= 2000
    stream.close()
    assert taken[-1] == "closed"


def test_what_goes_wrong_with_a_list_goes_wrong_with_its_body():
    def names():
        yield "a"
        raise SourceContractError("half of the list is gone")

    with pytest.raises(SourceContractError, match="half of the list"):
        body(names(), kind="json").read()


def job(extractor: str, csv: CsvSettings | None = None) -> Properties:
    sections = ExtractionSection(extractor), CsvSection(csv or CsvSettings())
    return Properties({}, sections=sections)


@pytest.mark.parametrize("word", ["avro", "xml", "filedump", "parquet"])
def test_an_extractor_that_reads_no_list_is_told_before_the_run(word):
    (found,) = listing_problems(job(word))
    assert found.what == f'is "{word}", which reads no list of names'


@pytest.mark.parametrize(
    "csv", [{"column_header_index": 0}, {"lines_to_skip": 2}, {"column_header_index": 1}]
)
def test_a_header_that_the_job_expects_swallows_no_name(csv):
    assert not [*listing_problems(job("csv", CsvSettings(**csv)))]
    assert read(["a,b", "c"], kind="csv", **csv) == ["a,b", "c"]


@pytest.mark.parametrize("word", EXTRACTORS)
def test_the_others_read_lists(word):
    assert not [*listing_problems(job(word))]


class OwnCsv(CsvExtractor):
    """One of a user's own."""


def test_an_extractor_of_a_users_own_tells_by_its_content_types():
    assert body(["a"], extractor=OwnCsv).read() == b"a\n"
