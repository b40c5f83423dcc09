"""Jobs that convert, and one call that runs rows through their chain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from dil.conversion.chain import ConversionChain, build_chain
from dil.model.arrow import raw_schema
from dil.model.job import (
    ClassRef,
    ConversionSpec,
    ExtractionSpec,
    KeySpec,
    OutputFormat,
    SourceSpec,
    WritingSpec,
)
from dil.model.json import JsonObject
from dil.model.path import MISSING
from dil.model.properties import Properties
from dil.model.schema import Schema
from dil.model.secondary import SecondaryInput, SecondarySpec
from dil.model.secret import Secret
from dil.model.section import Section
from dil.model.settings import DerivedField, Formula, SchemaCleansing
from dil.spi.converter import ConverterContext, PageFacts
from dil.spi.extractor import Page
from tests.jobs import bare_job

NOW = 1579084200000
"""2020-01-15T10:30:00Z."""


def derived(name: str, **formula: str) -> DerivedField:
    return DerivedField(name, Formula(**formula))


def chain(
    *,
    schema: Schema | None = None,
    data_field: str = "",
    output_format: OutputFormat = OutputFormat.PARQUET,
    cleansing: SchemaCleansing | None = None,
    properties: Mapping[str, object] | None = None,
    sections: Iterable[Section] = (),
    passwords: tuple[str, ...] = (),
    secondary: tuple[SecondaryInput, ...] = (),
    validation_rows: Iterable[JsonObject] | None = None,
    known_schema: str = "",
    **conversion: Any,
) -> ConversionChain:
    """Return the chain of a job; ``conversion`` are members of ConversionSpec."""
    members = {name: tuple(v) if isinstance(v, list) else v for name, v in conversion.items()}
    any_class = ClassRef("acme", "Any")
    csv = ClassRef("dil.extraction.csv.extractor", "CsvExtractor")
    job = bare_job(
        properties=Properties(properties or {}, sections=sections),
        source=SourceSpec(any_class, "http://localhost"),
        extraction=ExtractionSpec(
            csv, output_schema=schema, data_field=data_field, cleansing=cleansing
        ),
        conversion=ConversionSpec(**members),
        writing=WritingSpec(format=output_format),
        keys=KeySpec(tuple(map(Secret, passwords))),
        secondary=SecondarySpec(secondary),
    )
    rows = None if validation_rows is None else lambda: validation_rows
    context = ConverterContext(job, NOW, validation_rows=rows, known_schema=known_schema)
    return build_chain(context)


def facts(
    variables: Mapping[str, Any] | None = None, root: Mapping[str, Any] | None = None
) -> PageFacts:
    members = root or {}
    return PageFacts(Page(iter(()), lambda path: members.get(path, MISSING)), variables or {})


def convert(
    rows: pa.RecordBatch | list[dict[str, Any]],
    *,
    variables: Mapping[str, Any] | None = None,
    root: Mapping[str, Any] | None = None,
    schema: Schema | None = None,
    **job: Any,
) -> pa.RecordBatch:
    """Run one batch through a chain; rows as dicts are put in the raw form of ``schema`` first."""
    batch = rows
    if isinstance(rows, list):
        batch = pa.RecordBatch.from_pylist(rows, schema=raw_schema(schema or ()))
    (result,) = chain(schema=schema, **job).convert(batch, facts(variables, root))
    result.validate(full=True)
    return result
