"""XML documents as Arrow rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import BinaryIO, ClassVar

import pyarrow as pa

from dil.errors import SourceContractError
from dil.extraction.coercion import RowPosition
from dil.extraction.content import (
    NO_DATA_FIELD,
    OMITTED_FIX,
    as_text,
    decoded_texts,
    is_utf8,
    refuse_other_types,
)
from dil.extraction.excerpt import excerpt
from dil.extraction.json.document import collector_paused
from dil.extraction.names import NameCleansing
from dil.extraction.sizes import BATCH_BYTES, XML_ROW_BYTES, longest
from dil.extraction.streams import located_errors, page_place
from dil.extraction.xml.document import XmlDocument
from dil.extraction.xml.rows import FoundXmlColumns, GivenXmlColumns, XmlColumns
from dil.model.job import ExtractionSpec
from dil.model.json import JsonValue
from dil.model.path import Missing
from dil.spi.connector import Response
from dil.spi.extractor import Extractor, Page, nothing_found
from dil.text.paths import find, one_place

LOOKED_TOO_EARLY = (
    "a path was looked up in the first part of a large XML document; the part after its first"
    " rows was not searched"
)
_TEXT = "#text"
_SOAP_FAULT = ("Envelope", "Body", "Fault")
_FAULT_WORDS = ("faultstring", "Reason.Text")  # of SOAP 1.1 and 1.2
_CHUNK_BYTES = 1024 * 1024
_BATCH_ROWS = 65_536


class XmlExtractor(Extractor):
    """Reads one document in each response; its rows are the elements at ``ms.data.field``.

    This path has element names, and begins with the root element: ``feed.entry``. Without a path
    the root element is the only row. Names are local names, without namespace. An element is

    - its text, without blanks at both ends, if it has neither attributes nor children;
    - null if it is empty, or ``xsi:nil``;
    - else an object: each attribute ``@name``, each child by its name, several of one name as an
      array, and the text, if any, as ``#text``. A row is always an object.

    Column names with ``@`` and ``#`` are cleansed like other names (``_id``, ``_text``). Values are
    text unless ``ms.output.schema`` or ``ms.data.default.type`` say otherwise. Everything outside
    of the rows can be looked up by a path that begins with the root element: ``feed.link.@href``.

    The body is read while the batches are consumed; documents of up to 32 MiB are read as a whole
    first, so that look-ups find all their values. Entities are refused. The character set is the
    one that the document names, unless ``ms.source.data.character.set`` is not UTF-8.
    """

    content_types: ClassVar[tuple[str, ...]] = ("application/xml", "text/xml")

    def __init__(self, spec: ExtractionSpec) -> None:
        super().__init__(spec)
        self._accepted = {*self.content_types, *(t.lower() for t in spec.extra_content_types)}
        names = NameCleansing(spec.cleansing) if spec.cleansing else None
        replacement = spec.cleansing.replacement if spec.cleansing else "#"
        self._text_name = _TEXT.replace("#", replacement)
        self._columns: XmlColumns = (
            GivenXmlColumns(spec.output_schema, names, self._text_name, spec.csv.made_up)
            if spec.output_schema is not None
            else FoundXmlColumns(spec, names, self._text_name)
        )
        self._is_own_charset = is_utf8(spec.charset)
        self._pages = 0

    def extract(self, response: Response) -> Page:
        """Return the page of one document; consuming its batches reads the document.

        Raises:
            SourceContractError: the body is packed, or its content type is not accepted. From the
                batches: the body is no XML, declares entities or is a SOAP fault, or the first page
                lacks ms.data.field.
            ConversionError: (from the batches) a value does not fit its column.
        """
        response = as_text(response)
        refuse_other_types(response, self._accepted, suffix="+xml")
        self._pages += 1
        if response.body is None:
            return Page(iter(()), nothing_found)
        encoding = None if self._is_own_charset else "utf-8"
        most = longest(self.spec, XML_ROW_BYTES)
        document = XmlDocument(one_place(self.spec.data_field), encoding, self._text_name, most)
        page = Page(iter(()), nothing_found)
        page.lookup = self._lookup(document, page)
        page.batches = self._batches(response.body, response, document, page)
        return page

    def _batches(
        self, body: BinaryIO, response: Response, document: XmlDocument, page: Page
    ) -> Iterator[pa.RecordBatch]:
        with closing(body), located_errors(page_place(response, self._pages)):
            fed = 0
            for chunk in self._chunks(body):
                with collector_paused():
                    document.feed(chunk)
                fed += len(chunk)
                if fed >= BATCH_BYTES:
                    yield from self._rows(document, page)
                    fed = 0
            if not document.has_begun:
                return
            document.finish()
            if not (page.rows or document.rows):
                self._refuse_fault(document)
            self._check_place(document, page)
            yield from self._rows(document, page)
            page.notes = (*page.notes, *self._columns.notes)

    def _rows(self, document: XmlDocument, page: Page) -> Iterator[pa.RecordBatch]:
        rows, document.rows = document.rows, []
        for begin in range(0, len(rows), _BATCH_ROWS):
            part = rows[begin : begin + _BATCH_ROWS]
            with collector_paused():
                batch = self._columns.batch(part, RowPosition(self._pages, page.rows + 1))
            page.rows += batch.num_rows
            page.left_out = self._columns.left_out
            yield batch

    def _refuse_fault(self, document: XmlDocument) -> None:
        """Raise if a document is a SOAP fault; its status should be 500, but some servers send 200.

        With ``Envelope.Body.listResponse`` as ms.data.field it would be a page without rows.
        """
        if tuple(one_place(self.spec.data_field))[:3] == _SOAP_FAULT:
            return  # The job reads faults.
        try:
            around = document.outside()
        except SourceContractError:
            return  # A fault has few elements.
        fault = ".".join(_SOAP_FAULT)
        if isinstance(find(around, fault), Missing):
            return
        texts = [find(around, f"{fault}.{path}") for path in _FAULT_WORDS]
        words: object = next((each for each in texts if not isinstance(each, Missing)), None)
        if isinstance(words, list):  # It is in several languages.
            words = words[0]
        if isinstance(words, Mapping):  # It has a language.
            words = words.get(self._text_name)
        shown = f': "{excerpt(words.encode(), is_refusal=True)}"' if isinstance(words, str) else ""
        raise SourceContractError(
            f"the answer is a SOAP fault{shown}",
            "Correct the request, or wait until the source has recovered.",
        )

    def _check_place(self, document: XmlDocument, page: Page) -> None:
        if document.has_place or self.spec.data_field_optional:
            return
        if self._pages == 1:
            raise SourceContractError(
                f'there is no place for "{self.spec.data_field}" in the document',
                "Check ms.data.field: element names from the root on, without namespaces; an"
                f" error document may also look like this. {OMITTED_FIX}",
            )
        page.notes = (*page.notes, NO_DATA_FIELD)

    def _lookup(self, document: XmlDocument, page: Page) -> Callable[[str], JsonValue | Missing]:
        def lookup(path: str) -> JsonValue | Missing:
            found = find(document.outside(), path)
            if isinstance(found, Missing) and not document.is_complete and document.has_begun:
                page.notes = tuple(dict.fromkeys((*page.notes, LOOKED_TOO_EARLY)))
            return found

        return lookup

    def _chunks(self, body: BinaryIO) -> Iterator[bytes]:
        """Yield the body unchanged, or as UTF-8 if the job names another character set."""
        chunks = iter(lambda: body.read(_CHUNK_BYTES), b"")
        if self._is_own_charset:
            yield from chunks
            return
        try:
            yield from map(str.encode, decoded_texts(chunks, self.spec.charset))
        except UnicodeDecodeError as error:
            raise SourceContractError(
                f"the body is not {self.spec.charset} text: {error.reason}",
                "Check ms.source.data.character.set.",
            ) from None
