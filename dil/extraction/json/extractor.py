"""JSON responses as Arrow rows (docs/formats.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import msgspec
import pyarrow as pa

from dil.errors import SourceContractError
from dil.extraction.coercion import RowPosition
from dil.extraction.content import (
    NO_DATA_FIELD,
    as_text,
    charset_advice,
    notes_of_end,
    refuse_other_types,
)
from dil.extraction.excerpt import excerpt, wide_charset_of
from dil.extraction.failed_answers import refuse_failed_answer
from dil.extraction.json.document import Document, collector_paused, is_null, is_object
from dil.extraction.json.large import LargeDocument, LargeLines, whole_document
from dil.extraction.json.places import is_envelope, likely_rows, missing_field, note_of
from dil.extraction.json.rows import GivenJsonColumns, InferredColumns, RowColumns
from dil.extraction.json.scan import MalformedError, OversizeError
from dil.extraction.json.spool import Span, Spool, SpoolLimits, read_body
from dil.extraction.json.windows import RowWindows
from dil.extraction.names import NameCleansing
from dil.extraction.sizes import longest
from dil.extraction.streams import page_place
from dil.model.job import ExtractionSpec
from dil.model.json import JsonValue
from dil.model.path import MISSING, Missing, Reach
from dil.spi.connector import Response
from dil.spi.extractor import Extractor, Page, nothing_found
from dil.text.paths import compile_path

_AnyDocument: TypeAlias = Document | LargeDocument | LargeLines
_LINES = ("application/x-ndjson", "application/jsonlines", "application/jsonl")
# Half of an escaped surrogate pair; msgspec describes it in various words.
_HALF_PAIR = re.compile(
    rb"\\u[dD][89abAB][\da-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][\da-fA-F]{2})\\u[dD][c-fC-F][\da-fA-F]{2}"
)


class JsonExtractor(Extractor):
    """Reads one JSON value in each response, or one in each line if the content type says lines.

    If ``ms.output.schema`` is set, rows have exactly its columns. If it is not set, or if
    ``ms.enable.schema.based.filtering`` is false, columns are found in all rows of a page. Later
    pages can widen types and append columns; ``schema`` returns the newest form. Batches hold at
    most 65,536 rows.

    A long response is kept in a temporary file and read in windows (see ``SpoolLimits``), so its
    size does not matter for memory. If columns are found in the rows, each window counts as a page.
    """

    limits: SpoolLimits = SpoolLimits()

    content_types: ClassVar[tuple[str, ...]] = ("application/json", *_LINES)
    sees_every_member: ClassVar[bool] = True

    def __init__(self, spec: ExtractionSpec) -> None:
        super().__init__(spec)
        self.limits = replace(self.limits, value=longest(spec, self.limits.value))
        self._accepted = {*self.content_types, *(t.lower() for t in spec.extra_content_types)}
        self._named = frozenset(t.lower() for t in spec.extra_content_types)
        names = NameCleansing(spec.cleansing) if spec.cleansing else None
        self._columns: RowColumns = (
            GivenJsonColumns(spec.output_schema, names, spec.csv.made_up)
            if spec.output_schema is not None and spec.filters_by_schema
            else InferredColumns(spec, names)
        )
        self._pages = 0

    def extract(self, response: Response) -> Page:
        """Return the page of one response; its rows become Arrow while the batches are consumed.

        Raises:
            SourceContractError: the body is packed or no JSON, its content type is not accepted,
                or the first page has no ms.data.field. From the batches: a row is not an object,
                or the first rows have none of the given columns.
            ConversionError: (from the batches) a value does not fit its declared column.
        """
        plain = as_text(response)
        refuse_other_types(plain, self._accepted, suffix="+json")
        text = read_body(plain, self.spec.charset, self.limits)
        # The page outlives the body, whose connection is free as soon as nothing holds it.
        source = _Source(replace(response, body=None), text, self._pages + 1)
        if isinstance(text, bytes) and not text.strip():
            self._pages += 1
            page = Page(iter(()), nothing_found, has_content=False)
            page.notes = notes_of_end(response)
            return page
        is_lines = self._is_lines(response)
        with source.problems():
            document = self._document(text, is_lines=is_lines)
            windows = self._windows(document, source)
        page = Page(iter(()), source.looking_up(document), has_content=document.is_container)
        if windows is None:
            page.notes = (NO_DATA_FIELD,)
        if isinstance(document, Document) and source.page == 1 and not self.spec.data_field:
            page.notes = self._look_for_rows(document)
        if is_lines:
            page.notes += notes_of_end(response)
        page.batches = self._batches(windows or (), page, source)
        return page

    def _look_for_rows(self, document: Document) -> tuple[str, ...]:
        """Return a note if the answer carries rows but the job reads it as one row."""
        path = likely_rows(document.members)
        self._columns.likely_rows = path
        if not path or not is_envelope(document.members, path):
            return ()
        names = {column.name for column in self.spec.output_schema or ()}
        return () if path.partition(".")[0] in names else (note_of(path),)

    def _is_lines(self, response: Response) -> bool:
        """Return whether to read a body line by line, because its type or the job says so.

        Servers send lines as text/plain too; if a job names a type of lines in
        ms.http.response.type, all its bodies are read by lines.
        """
        return response.content_type in _LINES or not self._named.isdisjoint(_LINES)

    def _document(self, text: bytes | Spool, *, is_lines: bool) -> _AnyDocument:
        if isinstance(text, bytes):
            with collector_paused():
                return Document(text, is_lines=is_lines)
        if compile_path(self.spec.data_field).reach is Reach.SEARCH:
            return whole_document(text, is_lines=is_lines)
        if is_lines:
            return LargeLines(text, self.limits)
        return LargeDocument(text, self.spec.data_field, self.limits)

    def _windows(
        self, document: _AnyDocument, source: _Source
    ) -> Iterable[Sequence[msgspec.Raw]] | None:
        """Return the raw rows of the payload; no rows for a scalar body or a null payload.

        The result is None if a later page has no payload at all.
        """
        field = self.spec.data_field
        if not document.is_container:
            return ()
        payload = document.rows(field)
        if isinstance(payload, Missing):
            self._refuse_failed(document, source)
            if source.page == 1 and not self.spec.data_field_optional:
                # A long response is not read again for the message.
                at = document.at if isinstance(document, Document) else lambda _steps: MISSING
                raise source.refusal(*missing_field(compile_path(field), at))
            return () if self.spec.data_field_optional else None
        if isinstance(payload, RowWindows):
            return payload
        if not isinstance(payload, msgspec.Raw):
            return (payload,)
        if is_null(payload):
            return ()
        if not is_object(payload):
            self._refuse_failed(document, source)
            raise source.refusal(
                f'"{field}" is neither an object nor an array',
                "Set ms.data.field to the path of one row or of an array of rows.",
            )
        return ((payload,),)

    def _refuse_failed(self, document: _AnyDocument, source: _Source) -> None:
        """Refuse an answer that reports a failure; that explains more than a field without rows."""
        refuse_failed_answer(self.spec.failing, source.response, source.looking_up(document))

    def _batches(
        self, windows: Iterable[Sequence[msgspec.Raw]], page: Page, source: _Source
    ) -> Iterator[pa.RecordBatch]:
        self._pages = source.page  # An answer that the walk refuses is no page.
        first = 1
        with source.problems():
            for rows in windows:
                for batch in self._columns.batches(rows, RowPosition(source.page, first)):
                    page.rows += batch.num_rows
                    page.left_out = self._columns.left_out
                    yield batch
                first += len(rows)
        page.notes = (*page.notes, *self._columns.notes)


@dataclass(frozen=True, slots=True)
class _Source:
    """One response, named in messages; ``page`` counts from 1."""

    response: Response
    text: bytes | Spool
    page: int

    @contextmanager
    def problems(self) -> Iterator[None]:
        """Turn readers' errors about the text into errors that name the response."""
        try:
            yield
        except (msgspec.MsgspecError, MalformedError, UnicodeDecodeError) as error:
            raise self._no_json(error) from None
        except OversizeError as error:
            raise self.refusal(
                f"a part of the response is too long: {error}",
                "Set ms.data.field to the path of the array of rows, or request smaller pages"
                " from the source. A row may have a sixteenth of ms.task.memory.max.bytes, at"
                " most 256 MiB.",
            ) from None
        except RecursionError:
            raise self.refusal(
                "the response is nested too deeply to be read; it begins:"
                f' "{excerpt(self._begin())}"',
                "Ask the source for a flatter form; DIL reads some hundred levels.",
            ) from None

    def looking_up(self, document: _AnyDocument) -> Callable[[str], JsonValue | Missing]:
        """Return the look-up function of a document; its errors name the response."""

        def lookup(path: str) -> JsonValue | Missing:
            with self.problems():
                return document.lookup(path)

        return lookup

    def refusal(self, what: str, fix: str) -> SourceContractError:
        """Return an error about this response: ``what`` is the problem, ``fix`` is the advice."""
        return SourceContractError(f"{page_place(self.response, self.page)}{what}", fix)

    def _no_json(self, error: Exception) -> SourceContractError:
        reason = str(error)
        fix = "The source may have answered with an error page, or the answer was cut off."
        begin = self._begin()
        if isinstance(error, UnicodeDecodeError) or wide_charset_of(begin):
            reason, fix = "bad UTF-8", charset_advice(self.response, begin)
        elif "trailing characters" in reason:
            fix = (
                "If each line is a value of its own, give the file a name that ends in .jsonl, or"
                f" set ms.http.response.type={{{self._types_of_lines()}}}."
            )
        elif half := self._half_pair():
            reason = f"a text has half of a surrogate pair, {half}"
            fix = (
                "The source cut a text inside a character, such as an emoji. Have it corrected at"
                " the source."
            )
        elif "out of range" in reason:
            fix = "Have the source send this number with fewer digits, or as text."
            return self.refusal(f"a number is too long or too large to be read ({reason})", fix)
        return self.refusal(
            f"the body is not JSON ({reason}); content type"
            f' {self.response.content_type or "unknown"}; it begins: "{excerpt(begin)}"',
            fix,
        )

    def _types_of_lines(self) -> str:
        """Return members of ms.http.response.type that accept this response as lines."""
        kind = self.response.content_type
        if not kind or kind in JsonExtractor.content_types or kind.endswith("+json"):
            return '"Content-Type": "application/x-ndjson"'
        return f'"Content-Type": "{kind}", "Lines": "application/x-ndjson"'

    def _half_pair(self) -> str:
        found = _HALF_PAIR.search(self.text) if isinstance(self.text, bytes) else None
        return found[0].decode() if found else ""

    def _begin(self) -> bytes:
        return self.text if isinstance(self.text, bytes) else self.text.read(Span(0, 1024))
