"""Text of any kind as one row."""

from __future__ import annotations

import io

import pytest

from dil.errors import SourceContractError
from dil.extraction.text_extractor import CUT, MOST_CHARACTERS, ONE_PAGE, TextExtractor
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.path import MISSING
from dil.spi.connector import Response


def extractor(charset="UTF-8"):
    return TextExtractor(ExtractionSpec(ClassRef("m", "c"), charset=charset))


def response(body):
    return Response(
        io.BytesIO(body), content_type="text/html", checks_content_type=True, location="https://h/x"
    )


def texts_of(page):
    return [text for batch in page.batches for text in batch["output"].to_pylist()]


def test_a_response_of_any_content_type_is_one_row_with_its_whole_text():
    page = extractor().extract(response("<p>é€\n😀</p>\r\n".encode()))
    assert texts_of(page) == ["<p>é€\n😀</p>\r\n"]
    assert page.rows == 1
    assert page.notes == ()
    assert page.lookup("output") is MISSING


def test_an_empty_response_gives_no_row():
    page = extractor().extract(response(b""))
    assert (texts_of(page), page.rows, page.notes) == ([], 0, ())


@pytest.mark.parametrize(("surplus", "notes"), [(0, ()), (1, (CUT,)), (70_000, (CUT,))])
def test_a_long_text_is_cut_at_1048576_characters_with_a_note(surplus, notes):
    text = "é" * (MOST_CHARACTERS + surplus)
    body = io.BytesIO(text.encode())
    page = extractor().extract(Response(body))
    assert texts_of(page) == [text[:MOST_CHARACTERS]]
    assert page.notes == notes
    assert body.closed


def test_of_an_endless_text_only_a_little_more_than_is_kept_is_read():
    class Endless(io.RawIOBase):
        taken = 0

        def read(self, size=-1, /):
            self.taken += size
            return b"x" * size

    body = Endless()
    assert len(texts_of(extractor().extract(Response(body)))[0]) == MOST_CHARACTERS
    assert body.taken < MOST_CHARACTERS + 200_000


def test_a_work_unit_has_one_row_whatever_comes_later():
    reader = extractor()
    assert texts_of(reader.extract(response(b"first"))) == ["first"]
    later = reader.extract(response(b"second"))
    assert texts_of(later) == []
    assert later.notes == (ONE_PAGE,)


def test_the_character_set_of_the_job_is_read_and_a_byte_order_mark_is_not_text():
    assert texts_of(extractor("windows-1252").extract(response("é€".encode("cp1252")))) == ["é€"]
    assert texts_of(extractor().extract(response("\ufeffé".encode()))) == ["é"]


@pytest.mark.parametrize("body", [b"a\xffb", "é".encode()[:1]])
def test_a_body_that_is_not_in_the_character_set_fails_with_its_place(body):
    with pytest.raises(SourceContractError) as caught:
        extractor().extract(response(body))
    assert "https://h/x" in caught.value.message
    assert "UTF-8" in caught.value.message
