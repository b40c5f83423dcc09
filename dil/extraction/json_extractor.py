"""JSON responses as Arrow rows (behaviour.md B9.1 to B9.6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec
import pyarrow as pa

from dil.errors import SourceContractError
from dil.extraction.content import read_utf8, refuse_other_types
from dil.extraction.excerpt import excerpt
from dil.extraction.json_document import Document, collector_paused, is_null, is_object
from dil.extraction.json_rows import GivenColumns, InferredColumns, RowColumns
from dil.extraction.names import NameCleansing
from dil.model.job import ExtractionSpec
from dil.model.json import JsonValue
from dil.spi.connector import Response
from dil.spi.extractor import MISSING, Extractor, Missing, Page

NO_DATA_FIELD = (
    "a later page had no ms.data.field and was taken as empty; it may have been an error document"
)
_LINES = ("application/x-ndjson", "application/jsonlines", "application/jsonl")


class JsonExtractor(Extractor):
    """One JSON value for each response, or one for each line with a new-line separated type.

    With ``ms.output.schema`` rows have exactly its columns, all of them. Without, columns are
    found by looking at all rows of a page; later pages can widen types and append columns, and
    ``schema`` tells the newest form. Batches hold at most 65,536 rows.
    """

    content_types: ClassVar[tuple[str, ...]] = ("application/json", *_LINES)

    def __init__(self, spec: ExtractionSpec) -> None:
        super().__init__(spec)
        self._accepted = {*self.content_types, *(t.lower() for t in spec.extra_content_types)}
        cleansing = spec.cleansing
        names = NameCleansing(cleansing) if cleansing and cleansing.enabled else None
        self._columns: RowColumns = (
            GivenColumns(spec.output_schema, names)
            if spec.output_schema is not None
            else InferredColumns(spec, names)
        )
        self._pages = 0

    @property
    def schema(self) -> pa.Schema | None:
        """Return the given schema; else what was inferred so far, None before the first page."""
        return self._columns.schema(has_pages=self._pages > 0)

    def extract(self, response: Response) -> Page:
        """Decode one response; rows become Arrow while the batches are consumed.

        Raises:
            SourceContractError: the content type is not accepted, the body is not JSON, the
                first page has no ms.data.field, or a row is not an object.
            ConversionError: (from the batches) a value does not fit its declared column.
        """
        refuse_other_types(response, self._accepted, suffix="+json")
        text = read_utf8(response, self.spec.charset)
        self._pages += 1
        if not text.strip():
            return Page(iter(()), _nothing)
        document = self._document(text, response)
        page = Page(iter(()), document.lookup)
        rows = self._rows(document, response)
        if rows is None:
            page.notes = (NO_DATA_FIELD,)
        page.batches = self._batches(rows or (), page)
        return page

    def _document(self, text: bytes, response: Response) -> Document:
        try:
            with collector_paused():
                return Document(text, is_lines=response.content_type in _LINES)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            reason = "bad UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
            raise self._refusal(
                response,
                f"the body is not JSON ({reason}); content type"
                f' {response.content_type or "unknown"}; it begins: "{excerpt(text)}"',
                "The source may have answered with an error page, or the answer was cut off.",
            ) from None

    def _rows(self, document: Document, response: Response) -> Sequence[msgspec.Raw] | None:
        """Return the raw rows of the payload; none for a scalar body or a null payload.

        None tells that a later page has no payload at all.
        """
        field = self.spec.data_field
        if not document.is_container:
            return ()
        payload = document.rows(field)
        if isinstance(payload, Missing):
            if self._pages > 1:
                return None
            raise self._refusal(
                response,
                f'there is no "{field}" in the response',
                "Check ms.data.field; an error document may also look like this.",
            )
        if not isinstance(payload, msgspec.Raw):
            return payload
        if is_null(payload):
            return ()
        if not is_object(payload):
            raise self._refusal(
                response,
                f'"{field}" is neither an object nor an array',
                "ms.data.field must lead to one row or an array of rows.",
            )
        return (payload,)

    def _batches(self, rows: Sequence[msgspec.Raw], page: Page) -> Iterator[pa.RecordBatch]:
        for batch in self._columns.batches(rows, self._pages):
            page.rows += batch.num_rows
            yield batch

    def _refusal(self, response: Response, what: str, fix: str) -> SourceContractError:
        place = f"{response.location}, " if response.location else ""
        return SourceContractError(f"{place}page {self._pages}: {what}", fix)


def _nothing(path: str) -> JsonValue | Missing:
    del path
    return MISSING
