"""One call that runs pages of rows through one of the built-in converters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dil.conversion.chain import ConversionChain
from dil.model.job import ClassRef
from dil.model.schema import ArrayType, Column, MapType, Primitive, RecordType, Schema
from dil.sections.conversion import NormalizerSection
from dil.spi.registry import BUILT_IN, PluginKind
from tests.unit.conversion.conversion_jobs import chain, facts

Rows = list[dict[str, Any]]


def columns(**words: str) -> Schema:
    return tuple(Column(name, Primitive(word)) for name, word in words.items())


def array_of(**words: str) -> ArrayType:
    return ArrayType(RecordType(columns(**words)))


def map_of(word: str) -> MapType:
    return MapType(Primitive(word))


def converter(name: str) -> ClassRef:
    module, _, qualname = BUILT_IN[PluginKind.CONVERTER][name].partition(":")
    return ClassRef(module, qualname)


def normalising(
    target: Schema, size: int = 500, *, breaks: bool = False, name: str = "json-normalizer"
) -> ConversionChain:
    return chain(
        converters=[converter(name)],
        target=target,
        sections=[NormalizerSection(batch_size=size, breaks=breaks)],
    )


def run(job: ConversionChain, pages: Sequence[pa.RecordBatch | Rows]) -> pa.Table:
    """Return everything that a chain makes of pages, as one table."""
    made = [batch for page in pages for batch in job.convert(as_batch(page), facts())]
    made += job.finish()
    for batch in made:
        batch.validate(full=True)
    return pa.Table.from_batches(made) if made else pa.table({})


def as_batch(page: pa.RecordBatch | Rows) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(page) if isinstance(page, list) else page


def rows(job: ConversionChain, *pages: pa.RecordBatch | Rows) -> Rows:
    """Return everything that a chain makes of pages, as dicts; maps are dicts as well."""
    return run(job, pages).to_pylist(maps_as_pydicts="strict")
