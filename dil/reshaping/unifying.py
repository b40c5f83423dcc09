"""Brings a run's files into one schema: the dataset's, widened by the columns of the run.

A column may be added or widened (rule F17). A column of a narrower type is written in the wider
type. The type of a column counts only if the column has values: else inference guessed it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from dil.errors import ConversionError
from dil.model.job import OutputFormat
from dil.model.task import StagedFile
from dil.publishing.results import FinishedUnit
from dil.reshaping.files import DatasetFiles, RowFile, row_file, target_of
from dil.reshaping.reshaping import Stage, rows_of
from dil.types.merging import is_all_seen
from dil.types.schema_lines import regardless_of_nulls
from dil.types.schema_text import parse_schema, schema_text
from dil.types.widening import Widening, conform

log = logging.getLogger(__name__)

_FIX = (
    "Give the columns of this job with ms.output.schema, or publish the new kind of rows elsewhere."
    " ms.schema.contract=discard_row puts such rows aside, discard_value leaves such values out."
)


@dataclass(frozen=True, slots=True)
class UnitRowFiles:
    """The staged files of one work unit, and the schema of its rows.

    A partition column may be in the folder's name only.
    """

    work: FinishedUnit
    files: tuple[RowFile, ...]
    schema: pa.Schema


class SchemaConflictError(Exception):
    """Work units whose rows do not fit other units' rows; their staged files must not be reused.

    ``errors`` has the error of each work unit by its signature; the messages name the unit.
    """

    def __init__(self, misfits: Iterable[tuple[FinishedUnit, ConversionError]]) -> None:
        self.errors: dict[str, ConversionError] = {}
        for work, error in misfits:
            signature = work.work_unit.signature
            named = ConversionError(f"work unit {signature}: {error.message}", error.fix)
            self.errors.setdefault(signature, named)
        super().__init__(self.errors)


def parts_of(finished: Sequence[FinishedUnit], dataset_files: DatasetFiles) -> list[UnitRowFiles]:
    """Return the staged files of rows with their schemas, in plan order."""
    parts = []
    for each in rows_of(finished):
        declared = parse_schema(each.report.schema)
        files = tuple(
            row_file(dataset_files.filesystem, file.path, declared) for file in each.report.files
        )
        # The report's schema has no type words, but the files have them.
        words = {field.name: field.metadata for field in files[0].schema}
        fields = [field.with_metadata(words.get(field.name)) for field in declared]
        parts.append(UnitRowFiles(each, files, pa.schema(fields)))
    return parts


def target_schema(
    known: pa.Schema, parts: Sequence[UnitRowFiles], dataset_files: DatasetFiles
) -> pa.Schema:
    """Return the schema of the dataset after the run, its columns in order of appearance.

    Raises:
        SchemaConflictError: a column is of records or lists in one place and of plain values in
            another.
    """
    names = dict.fromkeys([*known.names, *(name for part in parts for name in part.schema.names)])
    schemas = [*([known] if len(known) else []), *(part.schema for part in parts)]
    fields = []
    for name in names:
        found = [schema.field(name) for schema in schemas if name in schema.names]
        nullable = len(found) < len(schemas) or any(field.nullable for field in found)
        field = found[-1]
        if len({kind(each.type) for each in found}) > 1:
            field = _settled(name, known, parts, dataset_files)
        fields.append(field.with_nullable(nullable))
    return pa.schema(fields)


def _settled(
    name: str, known: pa.Schema, parts: Sequence[UnitRowFiles], dataset_files: DatasetFiles
) -> pa.Field:
    """Return a field for a column of several types: its type holds all values of the column."""
    all_seen = Widening()
    if name in known.names:
        field = known.field(name)
        all_seen.resume(pa.schema([field]), pa.struct([pa.field(name, field.type)]))
    misfits = []
    for part in parts:
        if name not in part.schema.names:
            continue
        own = Widening()
        for batch in _with_column(name, part, dataset_files):
            before: pa.Schema = all_seen.schema
            try:
                own.add(batch)
                all_seen.add(batch)
            except ConversionError as error:
                clash = ConversionError(
                    f'column "{name}" is {batch.schema.field(name).type} here, and'
                    f" {before.field(name).type} in the dataset or in other work units:"
                    f" {error.message}",
                    _FIX,
                )
                misfits.append((part.work, clash))
                break
            if is_all_seen(batch.schema.field(name).type, own.seen.field(name).type):
                break
    if misfits:
        raise SchemaConflictError(misfits)
    settled = (all_seen.schema or known).field(name)
    log.info("column %s is published as %s", name, settled.type)
    return settled


def _with_column(
    name: str, part: UnitRowFiles, dataset_files: DatasetFiles
) -> Iterator[pa.RecordBatch]:
    """Yield one column of a work unit's rows; null for files that lack it."""
    for file in part.files:
        if name in file.schema.names:
            yield from file.batches(dataset_files, [name])
        else:
            yield pa.RecordBatch.from_arrays([[]], schema=pa.schema([part.schema.field(name)]))


def kind(data_type: pa.DataType) -> str:
    """Return a type as text, without nullability."""
    return regardless_of_nulls(str(data_type))


def differs(schema: pa.Schema, target: pa.Schema, form: OutputFormat) -> bool:
    """Return whether a file with ``schema`` must be rewritten to be a file with ``target``.

    A missing column reads as null in all formats but CSV, whose cells have no names.
    """
    if form is OutputFormat.CSV and schema.names != target.names:
        return True
    return has_other_types(schema, target)


def has_other_types(schema: pa.Schema, target: pa.Schema) -> bool:
    """Return whether a column of a schema has another type in the target."""
    return any(
        kind(field.type) != kind(target.field(field.name).type)
        for field in schema
        if field.name in target.names
    )


@dataclass(frozen=True, slots=True)
class _Staged:
    number: int
    part: UnitRowFiles
    source: RowFile
    file: StagedFile
    target: pa.Schema


@dataclass(frozen=True, slots=True)
class _InSchema:
    """Rewrites a staged file in another schema."""

    dataset_files: DatasetFiles

    def __call__(self, item: _Staged) -> tuple[StagedFile, ...] | ConversionError:
        batches = item.source.batches(self.dataset_files)
        try:
            return self.dataset_files.write(
                f"unified-{item.number}",
                (conform(each, item.target) for each in batches),
                item.file,
            )
        except ConversionError as error:
            return error


def unified(
    finished: Sequence[FinishedUnit],
    parts: Sequence[UnitRowFiles],
    target: pa.Schema,
    dataset_files: DatasetFiles,
    stage: Stage,
) -> tuple[FinishedUnit, ...]:
    """Return the results with files of the target schema; files of other schemas are rewritten.

    Raises:
        SchemaConflictError: a value does not fit its new type exactly.
    """
    staged = [
        (part, source, file, target_of(source, target, file.folder))
        for part in parts
        for source, file in zip(part.files, part.work.report.files, strict=True)
    ]
    form = dataset_files.writing.format
    unlike = [each for each in staged if differs(each[1].schema, each[3], form)]
    items = [_Staged(number, *each) for number, each in enumerate(unlike)]
    size = sum(item.file.bytes for item in items)
    made: dict[str, tuple[StagedFile, ...]] = {}
    misfits = []
    for item, files in zip(items, stage(_InSchema(dataset_files), items, size), strict=True):
        if isinstance(files, ConversionError):
            misfits.append((item.part.work, ConversionError(files.message, _FIX)))
        else:
            made[item.file.path] = files
    if misfits:
        raise SchemaConflictError(misfits)
    text = schema_text(target)
    return tuple(
        with_files(each, made, schema=text)
        if each.report.failure is None and each.report.schema
        else each
        for each in finished
    )


def with_files(
    each: FinishedUnit, made: Mapping[str, tuple[StagedFile, ...]], *, schema: str | None = None
) -> FinishedUnit:
    """Return a result with the files made in place of its own, by path, and with their schema."""
    report = each.report
    files = tuple(new for old in report.files for new in made.get(old.path, (old,)))
    text = report.schema if schema is None else schema
    return replace(each, report=replace(report, files=files, schema=text))
