"""Reads a whole response as the text of one row (docs/formats.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import BinaryIO

import pyarrow as pa

from dil.errors import SourceContractError
from dil.extraction.content import decoded_texts, is_utf8, notes_of_end, refuse_wide
from dil.extraction.streams import located_errors, read_up_to, stream_of
from dil.model.arrow import raw_schema
from dil.model.job import ExtractionSpec
from dil.model.schema import Column, Primitive
from dil.spi.connector import Response
from dil.spi.extractor import Extractor, Page, nothing_found

MOST_CHARACTERS = 1_048_576
CUT = (
    f"a text was longer than {MOST_CHARACTERS:,} characters; only the characters up to there were"
    " kept"
)
ONE_PAGE = "only the first response of a work unit is a row of text; later ones were not read"
_CHUNK = 64 * 1024


class TextExtractor(Extractor):
    """Makes one row for each work unit; its one column, ``output``, is the first response's text.

    The text is cut at 1,048,576 characters, with a note in the report; an empty response gives no
    row. Content types are not checked, look-ups find nothing, and there is no second page.
    """

    def __init__(self, spec: ExtractionSpec) -> None:
        super().__init__(spec)
        self._schema = raw_schema((Column("output", Primitive("string")),))
        self._has_row = False

    def extract(self, response: Response) -> Page:
        """Return the page of one response; read the response only as far as its text is kept.

        Raises:
            SourceContractError: the body is not text in ms.source.data.character.set.
        """
        page = Page(iter(()), nothing_found, notes=notes_of_end(response))
        if response.body is None:
            return page
        with closing(response.body):
            if self._has_row:
                page.notes = (ONE_PAGE,)
                return page
            begin = read_up_to(response.body, 4)
            with located_errors(f"{response.location}: "):
                refuse_wide(response, begin, self.spec.charset)
            text = self._text(stream_of(begin, response.body), response.location)
        if len(text) > MOST_CHARACTERS:
            page.notes += (CUT,)
        page.batches = self._batches(text[:MOST_CHARACTERS], page)
        self._has_row = bool(text)
        return page

    def _text(self, body: BinaryIO, location: str) -> str:
        """Return the text; if it is too long, return a part that is still longer than allowed."""
        charset = "utf-8" if is_utf8(self.spec.charset) else self.spec.charset
        text = ""
        try:
            for piece in decoded_texts(iter(lambda: body.read(_CHUNK), b""), charset):
                text += piece
                if len(text) > MOST_CHARACTERS:
                    break
        except UnicodeDecodeError as error:
            raise SourceContractError(
                f"{location}: the body is not {self.spec.charset} text: {error.reason}"
                f" near byte {error.start}",
                "Check ms.source.data.character.set.",
            ) from None
        return text

    def _batches(self, text: str, page: Page) -> Iterator[pa.RecordBatch]:
        if text:
            page.rows += 1
            yield pa.RecordBatch.from_pydict({"output": [text]}, schema=self._schema)
