"""Turns rows into ranges of their first cell: the start and the end of each batch of rows.

See docs/rows.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dil.conversion.texts import text_of
from dil.model.arrow import raw_schema
from dil.model.schema import Schema
from dil.sections.conversion import RangesSection
from dil.spi.converter import Converter, ConverterContext, PageFacts


class RangeGenerator(Converter):
    """Makes one row of each ``ms.range.generator.batch.size`` rows; the rows must be sorted.

    A range ends with the first cell of its last row. The last range of the work unit ends with
    ``ms.range.generator.max.value``, even if the range is full.
    """

    def __init__(self, context: ConverterContext) -> None:
        super().__init__(context)
        self.declared: Schema = context.job.conversion.target
        self._schema = pa.schema(
            [field.with_type(pa.string()) for field in raw_schema(self.declared)]
        )
        section = context.job.properties.section(RangesSection)
        self._size, self._end = section.batch_size, section.last
        self._rows = 0
        self._start = pa.nulls(0, pa.string())
        self._last = pa.nulls(1, pa.string())

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        """Yield the ranges that another row follows."""
        del facts
        cells = text_of(batch.column(0))
        begins = pa.array(range(-self._rows % self._size, len(cells), self._size), pa.int64())
        starts = pa.concat_arrays([self._start, cells.take(begins)])
        # Index k has the cell before cell k; the very first range has no row before it.
        before = pa.concat_arrays([self._last, cells])
        ends = before.take(begins).slice(0 if self._rows else 1)
        self._rows += len(cells)
        self._start, self._last = starts.slice(len(starts) - 1), cells.slice(len(cells) - 1)
        if len(ends):
            yield self._ranges(starts.slice(0, len(ends)), ends)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the last range, if there was a row."""
        if self._rows:
            yield self._ranges(self._start, pa.array([self._end], pa.string()))

    def _ranges(self, starts: pa.Array, ends: pa.Array) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([starts, ends], schema=self._schema)
