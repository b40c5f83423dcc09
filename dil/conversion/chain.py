"""The steps of rows between extractor and writer: encryption, derived fields, converters, types.

See docs/rows.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from dil.conversion.contract import KeptColumns, dataset_contract, source_contract
from dil.conversion.derived_fields import DerivedFields
from dil.conversion.file_names import FileNames
from dil.conversion.normalizer import AvroNormalizer, JsonNormalizer
from dil.conversion.ranges import RangeGenerator
from dil.conversion.typed_rows import TypedRows
from dil.errors import DilError, PluginFailureError
from dil.model.job import ClassRef
from dil.model.path import MISSING
from dil.spi.converter import Converter, ConverterContext, PageFacts
from dil.spi.extractor import Page
from dil.spi.plugin_failures import plugin_failure
from dil.spi.registry import load
from dil.spi.rejects import Rejects

_NO_PAGE = PageFacts(Page(iter(()), lambda _path: MISSING), {})


class ConversionChain:
    """The converters of one attempt, in order; a batch passes all of them before the next batch."""

    def __init__(self, steps: Sequence[Converter], rejects: Rejects) -> None:
        self._steps = tuple(steps)
        self._rejects = rejects
        self._facts = _NO_PAGE

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        """Yield one batch of a page after conversion, in the typed form of ``dil.model.arrow``.

        Raises:
            ConversionError: more rows failed than the job tolerates.
            PluginFailureError: a converter of the job raised an error that is no DilError.
        """
        self._facts = facts
        self._rejects.begin(facts.number, batch.num_rows)
        return self._from(0, batch)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that converters held back; call it once, after the work unit's last row.

        Each converter first gets the rows that the converters before it held back, then finishes.
        """
        self._rejects.begin(0, 0)
        for index, step in enumerate(self._steps):
            for batch in _guarded(step, step.finish):
                yield from self._from(index + 1, batch)

    @property
    def dropped(self) -> int:
        """Return the number of rows dropped as failures so far."""
        return sum(step.dropped for step in self._steps)

    @property
    def warnings(self) -> int:
        """Return the number of derived values that fell back to 0."""
        return sum(step.warnings for step in self._steps if isinstance(step, DerivedFields))

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes of converters, after the last row."""
        return tuple(note for step in self._steps for note in step.notes)

    def _from(self, index: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if batch.num_rows == 0:
            return
        if index == len(self._steps):
            yield batch
            return
        step = self._steps[index]
        for converted in _guarded(step, partial(step.convert, batch, self._facts)):
            yield from self._from(index + 1, converted)


def build_chain(context: ConverterContext) -> ConversionChain:
    """Return the chain of a job for one attempt.

    Raises:
        ConfigError: a derived field's formula or a date pattern cannot be understood.
        PluginFailureError: a converter class cannot be made.
    """
    if context.job.writing.file_name:
        # Bytes of files are no rows; the only step is to name the files.
        return ConversionChain([FileNames(context)], context.rejects)
    steps: list[Converter] = []
    if context.job.conversion.encrypted_fields:
        # Loading cryptography takes longer than many tasks, and few jobs need it.
        from dil.conversion.encryption import EncryptedFields

        steps.append(EncryptedFields(context))
    if (contract := source_contract(context)) is not None:
        steps.append(contract)
    if context.job.conversion.derived_fields:
        steps.append(DerivedFields(context))
    steps.extend(_create(reference, context) for reference in context.job.conversion.converters)
    steps.append(TypedRows(_describing(steps, context)))
    if (known := dataset_contract(context)) is not None:
        steps.append(known)
    if context.job.conversion.keeps_columns and context.known_schema:
        steps.append(KeptColumns(context))
    return ConversionChain(steps, context.rejects)


def _describing(steps: Sequence[Converter], context: ConverterContext) -> ConverterContext:
    """Return the context with the schema that rows have after these steps."""
    for step in reversed(steps):
        if isinstance(step, JsonNormalizer | AvroNormalizer | RangeGenerator):
            job = context.job
            extraction = replace(job.extraction, output_schema=step.declared)
            return replace(context, job=replace(job, extraction=extraction))
    return context


def _create(reference: ClassRef, context: ConverterContext) -> Converter:
    try:
        converter = load(reference)(context)
    except DilError:
        raise
    except Exception as error:  # a plug-in may raise anything
        raise _failure(str(reference), error) from error
    if not isinstance(converter, Converter):
        raise PluginFailureError(
            f"{reference} is not a Converter", "Inherit dil.spi.converter.Converter."
        )
    return converter


def _guarded(
    step: Converter, run: Callable[[], Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """Yield a converter's batches; errors become DIL's errors, which name the converter."""
    try:
        yield from run()
    except DilError:
        raise
    except Exception as error:  # a plug-in may raise anything
        kind = type(step)
        raise _failure(f"{kind.__module__}:{kind.__qualname__}", error) from error


def _failure(name: str, error: Exception) -> PluginFailureError:
    return plugin_failure(f"converter {name} failed", error)
