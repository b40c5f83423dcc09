"""Normalisers: several rows become one row, and some of their columns move into a new column.

See docs/rows.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from dil.conversion.grouping import Grouping, Groups
from dil.conversion.nesting import as_lists, as_maps, conformed
from dil.errors import ConversionError
from dil.model.arrow import raw_schema
from dil.model.schema import ArrayType, Column, MapType, RecordType, Schema
from dil.sections.conversion import NormalizerSection
from dil.spi.converter import Converter, ConverterContext, PageFacts
from dil.types.nested import records

_TARGET = "ms.target.schema"
_MOST_ROWS = 2**31 - 1
_AVRO_ROWS = 500


class JsonNormalizer(Converter):
    """Moves columns into an array of records or, if a batch has one row, into a map or a record."""

    def __init__(self, context: ConverterContext) -> None:
        super().__init__(context)
        self._normaliser = _Normaliser(context, _by_declaration, unlimited=_MOST_ROWS)

    @property
    def declared(self) -> Schema:
        """Return the columns of the rows that the normaliser makes."""
        return self._normaliser.target

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a note that names the columns left out."""
        return self._normaliser.notes

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        """Yield a row for each full batch.

        Raises:
            ConversionError: the target schema has no column that the rows lack, or the rows have no
                column that the target schema lacks.
        """
        del facts
        return self._normaliser.add(batch)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the row of the last batch."""
        return self._normaliser.rest()


class AvroNormalizer(Converter):
    """Moves columns into an array of records, whatever type the target schema gives."""

    def __init__(self, context: ConverterContext) -> None:
        super().__init__(context)
        self._normaliser = _Normaliser(context, _as_array, unlimited=_AVRO_ROWS)

    @property
    def declared(self) -> Schema:
        """Return the columns of the rows that the normaliser makes."""
        return self._normaliser.target

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a note that names the columns left out."""
        return self._normaliser.notes

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        """Yield a row for each full batch; raises the errors of JsonNormalizer."""
        del facts
        return self._normaliser.add(batch)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the row of the last batch."""
        return self._normaliser.rest()


class _Normaliser:
    """The common part of both normalisers.

    ``nest`` makes the new column from the moved columns. ``unlimited`` is the size of batches if
    the job sets a larger one than an array can have.
    """

    def __init__(
        self,
        context: ConverterContext,
        nest: Callable[[Column, pa.StructArray, pa.Array], pa.Array],
        *,
        unlimited: int,
    ) -> None:
        section = context.job.properties.section(NormalizerSection)
        self.target = context.job.conversion.target
        self._nest = nest
        names = [column.name for column in self.target]
        size = section.batch_size if section.batch_size <= _MOST_ROWS else unlimited
        self._grouping = Grouping(size, names if section.breaks else ())
        self._new: Column | None = None
        self._left_out: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        if not self._left_out or self._new is None:
            return ()
        names = ", ".join(sorted(self._left_out))
        return (f'the normaliser left out {names}: "{self._new.name}" has no such member',)

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        return map(self._rows, self._grouping.add(batch))

    def rest(self) -> Iterator[pa.RecordBatch]:
        return map(self._rows, self._grouping.rest())

    def _rows(self, groups: Groups) -> pa.RecordBatch:
        """Return one row for each group: values of its first row, and the new column."""
        rows = groups.rows
        if self._new is None:
            self._new = _new_column(self.target, rows.schema.names)
        fields, columns = [], []
        for column, raw in zip(self.target, raw_schema(self.target), strict=True):
            if column is self._new:
                array = self._nest(column, self._moved(rows, column), groups.offsets)
            elif column.name in rows.schema.names:
                first = rows.column(column.name).take(groups.first_rows)
                array = conformed(first, column.type)
            else:
                array = pa.nulls(len(groups.first_rows), raw.type)
            fields.append(raw.with_type(array.type))
            columns.append(array)
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _moved(self, rows: pa.RecordBatch, new: Column) -> pa.StructArray:
        kept = {column.name for column in self.target}
        fields = [field for field in rows.schema if field.name not in kept]
        if not fields:
            raise ConversionError(
                f'{_TARGET} has every column of the rows, so nothing goes into "{new.name}"',
                f'Leave the columns that should move into "{new.name}" out of {_TARGET}.',
            )
        inner = new.type.items if isinstance(new.type, ArrayType) else new.type
        members = {each.name for each in inner.columns} if isinstance(inner, RecordType) else set()
        if members:
            self._left_out |= dict.fromkeys(f.name for f in fields if f.name not in members)
        return records([rows.column(field.name) for field in fields], fields)


def _new_column(target: Schema, names: list[str]) -> Column:
    """Return the first column that the rows lack; nested columns come before flat ones.

    A source may leave out a flat column as long as it has no value.
    """
    lacking = [column for column in target if column.name not in names]
    holders = [
        column for column in lacking if isinstance(column.type, ArrayType | MapType | RecordType)
    ]
    if not lacking:
        raise ConversionError(
            f"the rows have every column of {_TARGET}, so the normaliser has no column to fill",
            "Add the column that gets the values of other columns, of type array, map or record.",
        )
    return (holders or lacking)[0]


def _by_declaration(column: Column, moved: pa.StructArray, offsets: pa.Array) -> pa.Array:
    """Return values of the declared type of the new column: arrays, maps or records."""
    kind = column.type
    if isinstance(kind, ArrayType):
        items = kind.items
        if isinstance(items, MapType):
            return as_lists(as_maps(moved, items, keeps_nulls=True), offsets)
        return as_lists(conformed(moved, items), offsets)
    if not isinstance(kind, MapType | RecordType):
        raise ConversionError(
            f'"{column.name}" takes the values of other columns, so it has to be of type array,'
            f" map or record in {_TARGET}",
            f'Write "dataType":{{"type":"array","name":"{column.name}"}}.',
        )
    if len(offsets) - 1 < len(moved):
        raise ConversionError(
            f'"{column.name}" holds one row, but ms.normalizer.batch.size is more than 1',
            "Set ms.normalizer.batch.size=1, or use type array.",
        )
    return conformed(moved, kind)


def _as_array(column: Column, moved: pa.StructArray, offsets: pa.Array) -> pa.Array:
    items = column.type.items if isinstance(column.type, ArrayType) else RecordType(())
    return as_lists(conformed(moved, items), offsets)
