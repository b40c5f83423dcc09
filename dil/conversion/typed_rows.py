"""The last step: converts rows from the source's form to the typed form.

It parses text of dates and times, encodes text of bytes, checks enum symbols and not-null columns,
and converts types of databases to DIL's types. ``ms.schema.contract`` decides about a row that
cannot be typed.

See docs/rows.md, rule F19.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_

import pyarrow as pa

from dil.conversion.columns import ColumnReader, ColumnTarget, column_target
from dil.conversion.failures import FailureBudget, RowFailures, keep_good
from dil.conversion.values import Values
from dil.model.arrow import type_word, typed_schema
from dil.model.schema import Column, ContractMode
from dil.spi.converter import Converter, ConverterContext, PageFacts


class _Newest:
    """Keeps the newest targets of this process: all attempts of a task need the same targets.

    The targets are valid for the identical section objects of a job, which all attempts of a task
    share.
    """

    def __init__(self) -> None:
        self._kept: tuple[tuple[object, ...], tuple[pa.Schema, list[ColumnTarget]]] | None = None

    def of(self, context: ConverterContext) -> tuple[pa.Schema, list[ColumnTarget]] | None:
        """Return the raw schema and the targets; None if they belong to another job."""
        kept = self._kept
        if kept is None:
            return None
        is_same = all(map(is_, kept[0], _origins(context)))
        return kept[1] if is_same else None

    def keep(self, context: ConverterContext, found: tuple[pa.Schema, list[ColumnTarget]]) -> None:
        """Keep the raw schema and the targets in place of earlier ones."""
        self._kept = (_origins(context), found)


_newest = _Newest()


def _origins(context: ConverterContext) -> tuple[object, ...]:
    job = context.job
    return job.extraction.output_schema, job.conversion, job.writing.format


class TypedRows(Converter):
    """Converts every column to its typed form.

    Up to ``max_failures`` rows that cannot be converted are put aside; under ``discard_row`` there
    is no limit. Under ``discard_value`` the unfit values are left out, and rows that require them
    are put aside.
    """

    def __init__(self, context: ConverterContext) -> None:
        super().__init__(context)
        spec = context.job.conversion
        declared = context.job.extraction.output_schema or ()
        self._declared: dict[str, Column] = {column.name: column for column in declared}
        self._values = Values(spec, context.job.writing.format, context.run_now)
        self._mode = spec.contract
        is_open = self._mode in {ContractMode.DISCARD_ROW, ContractMode.DISCARD_VALUE}
        self._budget = FailureBudget(None if is_open else spec.max_failures)
        self._rows = 0
        self._known: tuple[pa.Schema, list[ColumnTarget]] | None = _newest.of(context)

    @property
    def dropped(self) -> int:
        """Return the number of rows put aside so far."""
        return self._budget.dropped

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        """Yield the batch in the typed form, without rows that failed.

        Raises:
            ConversionError: more than ``max_failures`` rows failed.
        """
        del facts
        # Most pages share one schema, and so their targets.
        if self._known is None or not self._known[0].equals(batch.schema, check_metadata=True):
            found = [
                column_target(field, self._declaration(field), self._values)
                for field in batch.schema
            ]
            self._known = (batch.schema, found)
            _newest.keep(self.context, self._known)
        targets = self._known[1]
        failures = RowFailures()
        reader = ColumnReader(self._values, failures)
        columns = [
            reader.read(column, target)
            for column, target in zip(batch.columns, targets, strict=True)
        ]
        typed = pa.RecordBatch.from_arrays(
            columns, schema=pa.schema([target.field for target in targets])
        )
        if self._mode is ContractMode.DISCARD_VALUE:
            # Only rows that require the value are put aside; in other rows the value is null.
            for name, values in failures.values().items():
                self.context.rejects.discard(name, values)
            failures = failures.only_fatal()
        self._budget.spend(failures, self._rows)
        if len(failures):
            self.context.rejects.add(batch, [each.rejected for each in failures.in_order()])
        self._rows += batch.num_rows
        yield keep_good(typed, failures)

    def _declaration(self, field: pa.Field) -> Column | None:
        """Return a column's declaration in the job's schema, None if a converter changed it."""
        declared = self._declared.get(field.name)
        if declared is None or not type_word(field):
            return declared
        return (
            declared if type_word(typed_schema((declared,)).field(0)) == type_word(field) else None
        )
