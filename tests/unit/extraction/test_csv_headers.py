"""CSV files that came without their header line, so that a row stands in its place."""

import io

import pytest

from dil.errors import SourceContractError
from dil.extraction.csv.extractor import CsvExtractor
from dil.model.csv_settings import CsvSettings, CsvSpec
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.schema import Column, Primitive
from dil.spi.connector import Response

CSV = CsvSpec(CsvSettings(column_header_index=0))
GIVEN = {"output_schema": tuple(Column(name, Primitive("string")) for name in ("id", "name"))}
RECORDED = {"known_columns": frozenset({"id", "name"})}
KNOWN = pytest.mark.parametrize("known", [GIVEN, RECORDED], ids=["given", "recorded"])


def rows(known, body: str) -> int:
    """Return how many rows a file has."""
    extractor = CsvExtractor(ExtractionSpec(ClassRef("m", "c"), csv=CSV, **known))
    page = extractor.extract(Response(io.BytesIO(body.encode()), location="/in/people.csv"))
    return sum(batch.num_rows for batch in page.batches)


@KNOWN
@pytest.mark.parametrize("more", ["", "18,Zoe Miller\n" * 3])
def test_a_row_in_the_place_of_the_header_is_an_error_that_does_not_show_it(known, more):
    with pytest.raises(SourceContractError) as caught:
        rows(known, f"17,Carl Smith\n{more}")
    assert "/in/people.csv" in caught.value.message
    assert '"99,Aaaa Aaaaa"' in caught.value.message
    assert "Carl" not in str(caught.value)
    assert "columnHeaderIndex" in caught.value.fix
    assert not caught.value.retryable, "the same file is there at the next attempt"


@KNOWN
def test_a_long_row_is_shortened(known):
    with pytest.raises(SourceContractError) as caught:
        rows(known, "9," + "x" * 5000 + "\n")
    assert len(caught.value.message) < 250


@KNOWN
@pytest.mark.parametrize("header", ["id,name", "ID,Name", "id,country", "ids,full", "x,id"])
def test_a_header_with_a_known_column_or_one_like_it_is_a_header(known, header):
    assert rows(known, f"{header}\n") == 0


def test_without_a_known_column_any_line_is_a_header():
    assert rows({}, "17,Carl Smith\n18,Zoe Miller\n") == 1
    assert rows({"known_columns": frozenset({"col0", "col1"})}, "a,b\n1,2\n") == 1


@pytest.mark.parametrize(("second", "read"), [("name,id\nb,2\n", 1), ("idd,country\n2,b\n", 1)])
def test_a_later_answer_may_have_other_columns_beside_a_known_one(second, read):
    assert rows_of_answers("id,name\n1,a\n", second) == [1, read]


def test_answers_of_two_kinds_that_were_published_before_need_no_column_in_common():
    known = frozenset({"id", "name", "code", "total"})
    assert rows_of_answers("id,name\n1,a\n", "code,total\nb,2\n", known=known) == [1, 1]


def test_a_later_answer_without_its_header_is_an_error_and_loses_no_row_as_one():
    with pytest.raises(SourceContractError, match="none of the columns of the answers before"):
        rows_of_answers("id,name\n1,a\n", "2,b\n3,c\n")


def rows_of_answers(*bodies: str, known: frozenset[str] = frozenset()) -> list[int]:
    """Return how many rows each answer of one work unit has; no columns are given."""
    extractor = CsvExtractor(ExtractionSpec(ClassRef("m", "c"), csv=CSV, known_columns=known))
    pages = (extractor.extract(Response(io.BytesIO(body.encode()))) for body in bodies)
    return [sum(batch.num_rows for batch in page.batches) for page in pages]
