"""The schema contract: the treatment of rows with a new column or a value of another type.

The known schema is the job's ``ms.output.schema`` or, if it is not set, the schema that the
dataset's chain has recorded. A value fits if its type widens to the known type (rule F17). It is
written in the known type, so that all files have one schema (rule U20).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from dil.conversion.failures import FailureReason, RowFailures, keep_good
from dil.conversion.fitting import Fitting
from dil.errors import ConversionError
from dil.model.arrow import raw_schema, type_word
from dil.model.job import ExtractionSpec, Job
from dil.model.schema import (
    ArrayType,
    ContractMode,
    DataType,
    MapType,
    Primitive,
    RecordType,
    Schema,
)
from dil.spi.converter import Converter, ConverterContext, PageFacts
from dil.spi.registry import load
from dil.types.nested import positions
from dil.types.schema_text import parse_schema

_TEXTS = {"string", "enum"}
_KEY = "ms.schema.contract"
_FIX = (
    f"If the source changed for good, run once with -D {_KEY}=evolve: the new schema is recorded."
    f" {_KEY}=discard_row puts such rows aside, discard_value leaves such values out."
)
_DECLARED_FIX = (
    f"Change the column in ms.output.schema, or correct the source. {_KEY}=discard_row puts such"
    " rows aside, discard_value leaves such values out."
)


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """The schema with which rows are compared.

    ``is_declared`` is true if a person wrote the schema, in the raw form; then numbers may be
    rounded into float and double. If ``checks_types`` is False, values of known columns are not
    checked.
    """

    schema: pa.Schema
    is_declared: bool = False
    checks_types: bool = True


class SchemaContract(Converter):
    """Passes rows that fit the known schema, in the schema's types and order; acts on other rows.

    A missing column is null. A row with a null in a column that is not nullable is put aside,
    except under freeze: then the work unit fails.
    """

    def __init__(self, context: ConverterContext, known: KnownSchema) -> None:
        super().__init__(context)
        self._mode = context.job.conversion.contract
        self._known = known
        self._must = [field.name for field in known.schema if not field.nullable]
        self._dropped = 0
        self._page = 0
        self._rows = 0

    @property
    def dropped(self) -> int:
        """Return the number of rows put aside so far."""
        return self._dropped

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the contract lets pass.

        Raises:
            ConversionError: under freeze, a row does not fit.
        """
        if facts.number != self._page:
            self._page, self._rows = facts.number, 0
        known = self._known
        if batch.schema.equals(known.schema) and not any(
            batch.column(name).null_count for name in self._must
        ):
            named = batch
            if known.is_declared and known.checks_types:  # then columns get the declared type words
                named = pa.RecordBatch.from_arrays(batch.columns, schema=known.schema)
            yield named
        else:
            failures = RowFailures()
            fitted = self._fitted(batch, failures)
            yield keep_good(fitted, self._settled(batch, failures))
        self._rows += batch.num_rows

    def _fitted(self, batch: pa.RecordBatch, failures: RowFailures) -> pa.RecordBatch:
        """Return the batch in the known schema; the values of failed rows have no meaning."""
        rows = positions(batch.num_rows)

        def unknown(path: str, values: pa.Array, of_rows: pa.Array) -> None:
            if self._mode is ContractMode.DISCARD_VALUE:
                self.context.rejects.discard(path, len(values) - values.null_count)
                return
            what = f"the column is not in the known schema; its type is {values.type}"
            there = values.is_valid()
            if self._mode is ContractMode.FREEZE:
                first = of_rows.filter(there)[:1]
                failures.add(path, FailureReason(what), first, values.filter(there)[:1])
            else:
                failures.add(path, FailureReason(what), of_rows.filter(there))

        keys = self.context.job.extraction.primary_keys
        fitting = Fitting(failures, unknown, declared=self._known.is_declared, keys=keys)
        found = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns, fields = [], []
        for field in self._known.schema:
            column = found.pop(field.name, None)
            if column is None:
                column = pa.nulls(batch.num_rows)
            elif not self._known.checks_types or self._is_native(column, field):
                columns.append(column)
                fields.append(batch.schema.field(field.name))
                continue
            columns.append(fitting.fit(column, field, field.name, rows))
            fields.append(_described(field, batch.schema))
        for name, column in found.items():
            if column.null_count < len(column):
                unknown(name, column, rows)
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _is_native(self, column: pa.Array, field: pa.Field) -> bool:
        """Return whether a column has a real type although the raw form would be the source's text.

        Dates of a database, for example, are no text: the typing after this step checks them.
        """
        is_text = pa.types.is_string(field.type) and type_word(field) not in _TEXTS
        return self._known.is_declared and is_text and not pa.types.is_string(column.type)

    def _settled(self, batch: pa.RecordBatch, failures: RowFailures) -> RowFailures:
        """Treat the failures; return the failures whose rows are put aside."""
        if not len(failures):
            return failures
        if self._mode is ContractMode.FREEZE:
            first = failures.in_order()[0]
            place = f"page {self._page}" if self._page else "the work unit"
            raise ConversionError(
                f'the schema contract is broken: column "{first.column}",'
                f" row {self._rows + first.row + 1} of {place}: {first.reason}",
                _DECLARED_FIX if self._known.is_declared else _FIX,
            )
        if self._mode is ContractMode.DISCARD_VALUE:
            for column, values in failures.values().items():
                self.context.rejects.discard(column, values)
            failures = failures.only_fatal()
        if len(failures):
            self._dropped += len(failures)
            self.context.rejects.add(batch, [each.rejected for each in failures.in_order()])
        return failures


def source_contract(context: ConverterContext) -> SchemaContract | None:
    """Return the first step, which compares rows with ``ms.output.schema``; None if not needed."""
    job = context.job
    declared = job.extraction.output_schema
    if job.conversion.contract is ContractMode.EVOLVE or not declared:
        return None
    known = KnownSchema(raw_schema(declared), is_declared=True, checks_types=_reads_freely(job))
    return SchemaContract(context, known)


def dataset_contract(context: ConverterContext) -> Converter | None:
    """Return the last step, which compares rows with the dataset's schema; None if not needed.

    Raises:
        ConversionError: the recorded schema cannot be read.
    """
    job = context.job
    if job.extraction.output_schema or not context.known_schema:
        return None
    if job.conversion.contract is ContractMode.EVOLVE:
        return KnownTypes(context)
    return SchemaContract(context, KnownSchema(parse_schema(context.known_schema)))


def extraction_of(job: Job, known_schema: str = "") -> ExtractionSpec:
    """Return the settings for reading a job's rows; ``known_schema`` comes from RunContext.

    Under a contract JSON is read without the given schema: otherwise DIL would not see members that
    the schema lacks, and one unfit value would fail the rows around it. ``source_contract`` applies
    the types.

    Columns that are text in the dataset are read as the text of the source: if ``1e0`` were read as
    a number first, it would become ``1``. Keys are read as numbers, so that a number identifies the
    same row whether or not other rows have texts in the key. If the job has converters, the
    source's columns need not be the dataset's columns.
    """
    extraction = replace(job.extraction, key_columns=_key_columns(job))
    if not _reads_freely(job):
        if extraction.output_schema or job.conversion.converters:
            return extraction
        known = known_fields(known_schema)
        texts = frozenset(each.name for each in known if pa.types.is_string(each.type))
        made_up = {field.name.lower() for field in job.conversion.derived_fields}
        names = frozenset(each.name for each in known if each.name.lower() not in made_up)
        return replace(extraction, text_columns=texts, known_columns=names)
    return replace(extraction, output_schema=None)


def _key_columns(job: Job) -> frozenset[str] | None:
    """Return the columns of the source that distinguish rows; None if any column may do so."""
    keys = frozenset(job.extraction.primary_keys)
    if keys and job.conversion.converters:
        return None
    made = (each for each in job.conversion.derived_fields if each.name in keys)
    return keys.union(each.formula.source for each in made)


def _reads_freely(job: Job) -> bool:
    """Return whether rows are read without the given schema; False if maps or JSON need it."""
    declared = job.extraction.output_schema
    if job.conversion.contract is ContractMode.EVOLVE or not declared or _need_schema(declared):
        return False
    return bool(getattr(load(job.extraction.extractor), "sees_every_member", False))


def _need_schema(columns: Schema) -> bool:
    """Return whether a column, at any depth, has a type that is never found in rows."""
    return any(_needs_schema(column.type) for column in columns)


def _needs_schema(data_type: DataType) -> bool:
    match data_type:
        case MapType() | Primitive(word="json"):
            return True
        case ArrayType(items=items):
            return _needs_schema(items)
        case RecordType(columns=columns):
            return _need_schema(columns)
        case _:
            return False


def _described(field: pa.Field, schema: pa.Schema) -> pa.Field:
    """Return the field with the type word of the batch's column, if the field has none."""
    at = schema.get_field_index(field.name)
    if field.metadata or at < 0 or schema.field(at).type != field.type:
        return field
    return field.with_metadata(schema.field(at).metadata)


def known_fields(recorded: str) -> tuple[pa.Field, ...]:
    """Return the fields of a recorded schema; none if the text is of another version of DIL."""
    try:
        return tuple(parse_schema(recorded))
    except ConversionError:
        return ()


class KnownTypes(Converter):
    """Passes every row, with its columns in the types of the recorded schema if values fit.

    Inference sees only the rows of one work unit: a column of 1.5 and 2 may be an int tomorrow.
    Under the contract evolve such a column keeps its type, so that all files have one schema. A
    column whose values do not fit is drift, and keeps the inferred type.
    """

    def __init__(self, context: ConverterContext) -> None:
        super().__init__(context)
        self._keys = context.job.extraction.primary_keys
        self._known = {field.name: field for field in known_fields(context.known_schema)}

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        """Yield the batch; each column whose values fit its known type gets that type."""
        del facts
        if all(self._is_settled(field) for field in batch.schema):
            yield batch
            return
        rows = positions(batch.num_rows)
        columns, fields = [], []
        for field, column in zip(batch.schema, batch.columns, strict=True):
            known = self._known.get(field.name)
            fitted = None
            if known is not None and not self._is_settled(field):
                fitted = self._fitted(column, known, rows)
            columns.append(column if fitted is None else fitted)
            fields.append(field if fitted is None else known)
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, batch.schema.metadata))

    def _is_settled(self, field: pa.Field) -> bool:
        """Return whether a column is unknown, or already has its known type."""
        known = self._known.get(field.name)
        return known is None or bool(known.type == field.type)

    def _fitted(self, column: pa.Array, known: pa.Field, rows: pa.Array) -> pa.Array | None:
        """Return a column in its known type, None if a value or a member does not fit it."""
        failures, strangers = RowFailures(), []

        def unknown(path: str, values: pa.Array, of_rows: pa.Array) -> None:
            del values, of_rows
            strangers.append(path)

        fitting = Fitting(failures, unknown, keys=self._keys)
        fitted = fitting.fit(column, known.with_nullable(nullable=True), known.name, rows)
        return None if strangers or len(failures) else fitted


class KeptColumns(Converter):
    """Adds the columns of the recorded schema that a batch lacks: nullable, and last.

    Names are compared without regard to letter case, because readers of files may ignore it.
    """

    def __init__(self, context: ConverterContext) -> None:
        super().__init__(context)
        self._known = known_fields(context.known_schema)

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        """Yield the batch with all columns."""
        del facts
        names = {name.lower() for name in batch.schema.names}
        lacking = [field for field in self._known if field.name.lower() not in names]
        columns = [*batch.columns, *(pa.nulls(batch.num_rows, field.type) for field in lacking)]
        fields = [*batch.schema, *(field.with_nullable(nullable=True) for field in lacking)]
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
