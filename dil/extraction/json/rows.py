"""Makes record batches from raw JSON rows, with given columns or with columns found in the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import SourceContractError
from dil.extraction.absent_columns import WRONG_NAMES, AbsentColumns, left_out_below
from dil.extraction.coercion import RowPosition, coerced_batch
from dil.extraction.excerpt import kind_of
from dil.extraction.json.arrow_reader import ArrowFastPath, ArrowReader, joined
from dil.extraction.json.document import collector_paused, decode_rows, is_object, member_names
from dil.extraction.names import NameCleansing, suspicious_rows
from dil.extraction.numbers import NumberText
from dil.extraction.shapes import FoundShape
from dil.extraction.sizes import BATCH_BYTES, Width, rows_at_once
from dil.model.arrow import raw_schema, type_word
from dil.model.job import ExtractionSpec
from dil.model.schema import JSON, Schema
from dil.types.number_texts import number_text

_SAMPLE_ROWS = 100


class RowColumns(ABC):
    """The columns of one attempt; pages come one after another.

    If the job names no path, ``likely_rows`` is the path at which the first answer seems to have
    its rows.
    """

    likely_rows: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return sentences for the run's report about the rows read so far."""
        return ()

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return the names of columns that the rows had and the output lacks."""
        return ()

    @abstractmethod
    def batches(
        self, rows: Sequence[msgspec.Raw], position: RowPosition
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of the rows of one page, or of one window of it, in order.

        ``position`` is the position of the first row, for messages.

        Raises:
            SourceContractError: a row is not an object, or columns contradict each other.
            ConversionError: a value does not fit its column.
        """


class GivenJsonColumns(RowColumns):
    """Exactly the columns of ``ms.output.schema``.

    Arrow's own JSON reader, which is strict about types, reads most rows. The rows that it refuses
    are read again, value by value, by ``coercion``; so are all rows of a schema with maps or JSON
    columns, which the reader does not know.
    """

    def __init__(
        self, columns: Schema, names: NameCleansing | None, made_up: Collection[str]
    ) -> None:
        self._schema = raw_schema(columns)
        self._record = pa.struct(list(self._schema))
        self._reader = ArrowReader(self._schema, others="ignore")
        self._names = names
        self._absent = AbsentColumns(self._schema.names, made_up)
        self._readable = not (
            _holds(self._schema, pa.types.is_map) or any(map(_holds_json, self._schema))
        )
        self._has_float32 = _holds(self._schema, pa.types.is_float32)
        self._has_records = _holds(self._schema, pa.types.is_struct)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes about columns that the first rows did not have."""
        return self._absent.notes

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return the names of columns that the first rows had and the schema lacks."""
        return self._absent.left_out

    def batches(
        self, rows: Sequence[msgspec.Raw], position: RowPosition
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of the given schema; members that are no columns are dropped."""
        for begin, part in _parts(rows, self._schema):
            batch = self._read(part) if self._readable else None
            batch = batch or self._coerced(part, position.later(begin))
            if not self._absent.is_settled:
                known = _with_values(batch)
                looked_at = part[:_SAMPLE_ROWS] if len(known) == batch.num_columns else part
                names = partial(self._names_in, looked_at)
                below = partial(self._left_out_below, part[:_SAMPLE_ROWS])
                self._absent.compare(known, names, self._fix(), below)
            yield batch

    def _fix(self) -> str:
        """Return the advice for rows that have none of the columns."""
        path = self.likely_rows
        likely = f'The answer\'s "{path}" is an array of objects: write ms.data.field={path}. '
        return f"{likely}{WRONG_NAMES}" if path else WRONG_NAMES

    def _names_in(self, rows: Sequence[msgspec.Raw]) -> list[str]:
        """Return the names of the members of all rows, cleansed as column names."""
        names = member_names(rows)
        return [self._names.clean(name) for name in names] if self._names else names

    def _left_out_below(self, rows: Sequence[msgspec.Raw]) -> list[str]:
        """Return the paths of members of records that are no columns."""
        if not self._has_records:
            return []
        clean = self._names.clean if self._names else str
        return left_out_below(decode_rows(rows), self._schema, clean)

    def _read(self, rows: Sequence[msgspec.Raw]) -> pa.RecordBatch | None:
        """Return the batch as Arrow reads it, None if the rows have to be read value by value."""
        batch = self._reader.read(rows, joined(rows))
        if batch is None or (self._has_float32 and _has_infinity(batch)):
            return None
        if self._names and self._has_other_names(batch, rows, self._names):
            return None
        return pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)

    def _has_other_names(
        self, batch: pa.RecordBatch, rows: Sequence[msgspec.Raw], names: NameCleansing
    ) -> bool:
        """Return whether rows have values under names that cleansing turns into columns."""
        first = range(min(_SAMPLE_ROWS, len(rows)))  # Rows with two names for one column are rare.
        looked_at = dict.fromkeys([*first, *suspicious_rows(batch, names)])
        objects = decode_rows([rows[position] for position in looked_at])
        return names.register_known(objects, self._record)

    def _coerced(self, rows: Sequence[msgspec.Raw], position: RowPosition) -> pa.RecordBatch:
        _refuse_other_than_objects(rows, position)
        with collector_paused():
            objects: list[Any] = decode_rows(rows, texts=True)
            if self._names and self._names.register_known(objects, self._record):
                rename = self._names.renaming(pa.field("", self._record))
                objects = list(map(rename, objects))
            return coerced_batch(objects, self._schema, position)


class InferredColumns(RowColumns):
    """Columns found in the rows; every page may widen them (rule F17).

    If ``ms.output.schema`` is set but does not filter, its columns come first and keep their types.
    Other columns, and members of records at any depth, are found in the rows.
    """

    def __init__(self, spec: ExtractionSpec, names: NameCleansing | None) -> None:
        self._names = names
        self._defaults = dict(spec.default_types)
        self._texts = spec.text_columns
        self._keys = spec.key_columns
        self._given = spec.output_schema or ()
        self._most_columns = spec.most_columns
        self._shape = FoundShape(width=Width(spec.most_columns))
        self._schema: pa.Schema | None = None
        self._familiar = ArrowFastPath()
        self._is_renaming = False

    def batches(
        self, rows: Sequence[msgspec.Raw], position: RowPosition
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches in the schema that is known after this whole page."""
        if not rows:
            return
        familiar = self._familiar.read([part for _, part in _parts(rows, self._schema)])
        if familiar is not None:
            yield from familiar
            return
        with collector_paused():
            decoded = decode_rows(rows)
            if set(map(type, decoded)) != {dict}:
                _refuse_other_than_objects(rows, position)
            objects = self._widened_by(decoded)
        if self._schema is None or not len(self._schema):
            raise SourceContractError(
                f"page {position.page}: the rows have no members",
                "Describe the columns in ms.output.schema.",
            )
        for begin, part in _parts(rows, self._schema):
            with collector_paused():
                batch = self._native(objects[begin : begin + len(part)], self._schema)
            yield batch or self._coerced(part, position.later(begin), self._schema)

    def _widened_by(self, objects: list[Any]) -> list[Any]:
        """Widen the shape by the values of a page; return the page's rows with cleansed names."""
        found = self._shape_of(objects)
        if self._names and self._names.register_levels(found.levels()):
            objects = self._names.renamed_rows(objects)
            found = self._shape_of(objects)
            self._is_renaming = True
        self._shape.widen(found)
        if self._shape.holds_decimals():
            self._shape.observe(objects)
        for name in self._texts & self._shape.members.keys():
            kinds = self._shape.members[name].kinds
            if kinds <= {"number", "boolean"}:
                kinds.add("text")
        self._schema = raw_schema(self._shape.columns(self._defaults, given=self._given))
        if self._defaults or self._given or self._is_renaming:
            self._familiar.forget()
        else:
            self._familiar.learn(self._shape, self._schema)
        return objects

    def _shape_of(self, objects: list[Any]) -> FoundShape:
        shape = FoundShape(width=Width(self._most_columns))
        shape.observe(objects)
        return shape

    def _native(self, objects: list[Any], schema: pa.Schema) -> pa.RecordBatch | None:
        """Return the batch if all values are of their column's own type, else None.

        Arrow would silently cut a fraction in an integer column and take a boolean for a double.
        Neither can happen here: a column's type comes from its values, unless the user forced it.
        """
        if self._defaults or self._given:
            return None
        try:
            rows = pa.array(objects, type=pa.struct(list(schema)))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return None
        return pa.RecordBatch.from_arrays(rows.flatten(), schema=schema)

    def _coerced(
        self, rows: Sequence[msgspec.Raw], position: RowPosition, schema: pa.Schema
    ) -> pa.RecordBatch:
        with collector_paused():
            objects: list[Any] = decode_rows(rows, texts=True)
            if self._names:
                objects = self._names.renamed_rows(objects)
            for field in schema:
                is_key = self._keys is None or field.name in self._keys
                if is_key and pa.types.is_string(field.type):
                    _settle_numbers(objects, field.name)
            return coerced_batch(objects, schema, position)


def _settle_numbers(objects: list[dict[str, Any]], name: str) -> None:
    """Replace the numbers in a column of texts by texts, so that equal numbers stay equal."""
    for row in objects:
        value = row.get(name)
        if type(value) is NumberText:
            row[name] = number_text(value)


def _parts(
    rows: Sequence[msgspec.Raw], schema: pa.Schema | None
) -> Iterator[tuple[int, Sequence[msgspec.Raw]]]:
    """Yield the rows for each batch, and before them the number of rows in earlier batches."""
    size = sum(map(len, rows))
    fitting = BATCH_BYTES * len(rows) // max(size, 1)
    step = max(1, min(rows_at_once(len(schema or ())), fitting))
    for begin in range(0, len(rows), step):
        yield begin, rows[begin : begin + step]


def _refuse_other_than_objects(rows: Sequence[msgspec.Raw], position: RowPosition) -> None:
    for number, row in enumerate(rows, position.first_row):
        if not is_object(row):
            kind = kind_of(msgspec.json.decode(row))
            raise SourceContractError(
                f"row {number} of page {position.page} is {kind}, not an object",
                "Set ms.data.field to the path of an array of objects. If rows are arrays of"
                " values, and the answer has their names too, use ms.extract.preprocessors="
                "aggregated-json.",
            )


def _with_values(batch: pa.RecordBatch) -> list[str]:
    """Return the columns that are not null in every row."""
    columns = zip(batch.schema.names, batch.columns, strict=True)
    return [name for name, column in columns if column.null_count < len(column)]


def _holds(schema: pa.Schema, test: Callable[[pa.DataType], bool]) -> bool:
    """Return whether any column, at any depth, has a type that passes the test."""
    return any(_type_holds(field.type, test) for field in schema)


def _type_holds(kind: pa.DataType, test: Callable[[pa.DataType], bool]) -> bool:
    if test(kind):
        return True
    return any(_type_holds(kind.field(i).type, test) for i in range(kind.num_fields))


def _holds_json(field: pa.Field) -> bool:
    """Return whether a column is declared as JSON, or has such a column inside."""
    kind = field.type
    inner = (kind.field(i) for i in range(kind.num_fields))
    return type_word(field) == JSON or any(map(_holds_json, inner))


def _has_infinity(array: pa.Array | pa.RecordBatch) -> bool:
    """Return whether a number was too large for a float column; JSON has no infinity of its own."""
    if isinstance(array, pa.RecordBatch):
        return any(_has_infinity(column) for column in array.columns)
    if pa.types.is_float32(array.type):
        return bool(pc.any(pc.is_inf(array)).as_py())
    if pa.types.is_struct(array.type):
        return any(_has_infinity(child) for child in array.flatten())
    return pa.types.is_list(array.type) and _has_infinity(array.values)
