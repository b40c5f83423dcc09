"""Avro container files as Arrow rows (docs/formats.md)."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, cast

import pyarrow as pa

from dil.errors import SourceContractError
from dil.extraction.avro.container import CheckedBlocks
from dil.extraction.avro.types import AvroType, AvroTypes, Form
from dil.extraction.content import notes_of_end
from dil.extraction.json.document import collector_paused
from dil.extraction.sizes import AVRO_BLOCK_BYTES, BATCH_BYTES, Width, longest, rows_at_once
from dil.extraction.streams import ReadStream, located_errors, page_place
from dil.model.arrow import raw_schema
from dil.model.job import ExtractionSpec
from dil.model.path import Steps, number
from dil.spi.connector import Response
from dil.spi.extractor import Extractor, Page, nothing_found
from dil.text.paths import index, one_place

_BATCH_ROWS = 65_536
# The errors that libraries raise for bytes that they do not understand.
_DAMAGED = (
    ValueError, LookupError, ArithmeticError, TypeError, EOFError, RuntimeError, OSError,
    zlib.error, pa.ArrowException,
)  # fmt: skip


class AvroExtractor(Extractor):
    """Reads one container file for each response; its records are the rows, read block by block.

    The file's schema gives the columns, in native Arrow types: dates, times, timestamps and
    decimals are exact, UUIDs and enums are text. If ``ms.data.field`` is set, a row is the one
    value at this path, in a column that the path's last segment names. If ``ms.output.schema`` is
    set, rows have exactly its columns; columns and members that the file lacks are null. A union of
    null and one type becomes this type. A union of number types becomes the widest of them, a union
    of other plain types becomes text.
    """

    def __init__(self, spec: ExtractionSpec) -> None:
        super().__init__(spec)
        self._given = spec.output_schema
        self._longest = longest(spec, AVRO_BLOCK_BYTES)
        self._pages = 0

    def extract(self, response: Response) -> Page:
        """Return the page of one file; consuming its batches reads the file.

        An empty body has no rows.

        Raises:
            SourceContractError: (from the batches) the body is no container file of records, or is
                cut off or damaged; a block is too long; the codec is not known; or the schema has
                nothing at ms.data.field.
        """
        self._pages += 1
        page = Page(iter(()), nothing_found, notes=notes_of_end(response))
        if response.body is not None:
            page.batches = self._batches(response.body, response, page)
        return page

    def _batches(self, body: BinaryIO, response: Response, page: Page) -> Iterator[pa.RecordBatch]:
        located = located_errors(page_place(response, self._pages))
        with closing(body), located, _translated_errors():
            buffered = io.BufferedReader(_Body(body))
            if not buffered.peek(1):
                return
            for batch in self._read(buffered, page):
                page.rows += batch.num_rows
                yield batch

    def _read(self, buffered: io.BufferedReader[_Body], page: Page) -> Iterator[pa.RecordBatch]:
        blocks = CheckedBlocks(cast("BinaryIO", buffered), self._longest)
        types = AvroTypes(blocks.schema)
        width = Width(self.spec.most_columns)
        types.count(blocks.schema, width)
        at_once = rows_at_once(width.count)
        rows_of = self._rows_of(types, blocks.schema)
        page.left_out = rows_of.left_out
        waiting: list[Any] = []
        size = 0
        for block in blocks:
            records: Iterator[Any] = iter(block)
            size += block.size
            while True:
                with collector_paused():
                    waiting.extend(islice(records, at_once))
                is_full = len(waiting) >= at_once
                if is_full or size >= BATCH_BYTES // 2:
                    yield from rows_of.batches(waiting)
                    waiting, size = [], 0
                if not is_full:
                    break
        if waiting:
            yield from rows_of.batches(waiting)

    def _rows_of(self, types: AvroTypes, avro: AvroType) -> _Rows:
        if not isinstance(avro, dict) or avro.get("type") != "record":
            raise SourceContractError(
                "the file does not hold records", "Write each row as a record at the source."
            )
        members = {member["name"]: member["type"] for member in avro["fields"]}
        path = one_place(self.spec.data_field)
        if path:
            members = {str(path[-1]): _type_at(types, avro, path)}
        if self._given is None:
            forms = {name: types.form(inner, name) for name, inner in members.items()}
            schema = pa.schema([pa.field(name, form.type) for name, form in forms.items()])
            return _Rows(schema, forms, path)
        forms = {
            column.name: types.form(members[column.name], column.name, column.type)
            for column in self._given
            if column.name in members
        }
        fields = [
            pa.field(column.name, forms[column.name].type)
            if column.name in forms
            else raw_schema((column,)).field(0)
            for column in self._given
        ]
        others = [name for name in members if name not in forms]
        return _Rows(pa.schema(fields), forms, path, (*others, *types.left_out))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Makes batches of records; if there is a ``path``, a row is the value there, in one column.

    ``left_out`` are the paths of columns of the file that are not read.
    """

    schema: pa.Schema
    forms: Mapping[str, Form]
    path: Steps
    left_out: tuple[str, ...] = ()

    def batches(self, records: Sequence[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        for begin in range(0, len(records), _BATCH_ROWS):
            part = records[begin : begin + _BATCH_ROWS]
            if self.path:
                part = [{str(self.path[-1]): _value_at(record, self.path)} for record in part]
            with collector_paused():
                arrays = [self._column(part, field) for field in self.schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, records: Sequence[dict[str, Any]], field: pa.Field) -> pa.Array:
        form = self.forms.get(field.name)
        if form is None:
            return pa.nulls(len(records), field.type)
        values = [record[field.name] for record in records]
        if form.fit is not None:
            values = list(map(form.fit, values))
        return pa.array(values, type=form.type)


def _type_at(types: AvroTypes, avro: AvroType, path: Steps) -> AvroType:
    """Return the type at a dot path: names of members, keys of maps, indexes of arrays."""
    found = avro
    for segment in path:
        found = types.resolved(found)
        kind = found.get("type") if isinstance(found, dict) else found
        members = {m["name"]: m["type"] for m in found["fields"]} if kind == "record" else {}
        if segment in members:
            found = members[segment]
        elif kind == "map":
            found = found["values"]
        elif kind == "array" and number(segment) is not None:
            found = found["items"]
        else:
            raise SourceContractError(
                f'there is no "{".".join(map(str, path))}" in the schema of the file',
                "Check ms.data.field.",
            )
    return found


def _value_at(record: dict[str, Any], path: Steps) -> object:
    value: Any = record
    for segment in path:
        position = index(segment, len(value)) if isinstance(value, list) else None
        if isinstance(value, dict) and segment in value:
            value = value[segment]
        elif position is not None:
            value = value[position]
        else:
            raise SourceContractError(
                f'a record has no value at "{".".join(map(str, path))}"', "Check ms.data.field."
            )
    return value


def _schema_errors() -> tuple[type[Exception], ...]:
    """Return the errors for an invalid schema; call only after an error: the import is slow."""
    from fastavro.schema import SchemaParseException, UnknownType

    return SchemaParseException, UnknownType


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Translate errors of libraries, without their texts, which may quote rows."""
    try:
        yield
    except MemoryError:  # Arrow's MemoryError is an ArrowException, too
        raise
    except (*_DAMAGED, *_schema_errors()) as error:
        raise SourceContractError(
            f"the body is no whole Avro container file ({type(error).__name__})",
            "Check the answer: it may have been cut off, or have another format.",
        ) from error


class _Body(ReadStream):
    """The body of a response; closing this stream does not close the body."""

    def __init__(self, body: BinaryIO) -> None:
        self._body = body

    def read(self, size: int = -1, /) -> bytes:
        return self._body.read(size)
