"""Rows of a JSON source run through the chain of a job with a schema contract."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from dil.conversion.chain import build_chain
from dil.conversion.contract import extraction_of
from dil.extraction.json.extractor import JsonExtractor
from dil.model.job import ClassRef, Job
from dil.model.schema import ContractMode, Schema
from dil.spi.connector import Response
from dil.spi.converter import ConverterContext, PageFacts
from dil.spi.rejects import RejectedRow
from tests.unit.conversion.conversion_jobs import NOW, chain

JSON = ClassRef("dil.extraction.json.extractor", "JsonExtractor")


@dataclass
class Aside:
    """Keeps what was put aside, for a test to look at."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    reasons: list[RejectedRow] = field(default_factory=list)
    discarded: dict[str, int] = field(default_factory=dict)

    def begin(self, page: int, rows: int) -> None:
        """Take no note."""

    def add(self, batch: pa.RecordBatch, rejected: Sequence[RejectedRow]) -> None:
        found = batch.to_pylist()
        self.rows.extend(found[each.row] for each in rejected)
        self.reasons.extend(rejected)

    def discard(self, column: str, values: int) -> None:
        self.discarded[column] = self.discarded.get(column, 0) + values


@dataclass
class Outcome:
    """What became of rows: written ones, those put aside, the schema, and the counts."""

    written: list[dict[str, Any]]
    aside: Aside
    schema: pa.Schema | None
    read: int
    dropped: int


def contracted_job(mode: ContractMode, schema: Schema | None = None, **conversion: Any) -> Job:
    """Return a job that reads JSON under a contract."""
    (step, *_) = chain(schema=schema, contract=mode, **conversion)._steps[-1:]
    job = step.context.job
    return replace(job, extraction=replace(job.extraction, extractor=JSON))


def ingest(
    pages: Sequence[Sequence[dict[str, Any]]],
    mode: ContractMode,
    *,
    known: str = "",
    schema: Schema | None = None,
    **conversion: Any,
) -> Outcome:
    """Run pages of JSON rows through extractor and chain."""
    job = contracted_job(mode, schema, **conversion)
    aside = Aside()
    steps = build_chain(ConverterContext(job, NOW, rejects=aside, known_schema=known))
    extractor = JsonExtractor(extraction_of(job))
    written, read, found = [], 0, None
    for number, rows in enumerate(pages, 1):
        body = io.BytesIO(json.dumps(rows).encode())
        page = extractor.extract(Response(body, content_type="application/json"))
        for batch in page.batches:
            read += batch.num_rows
            for result in steps.convert(batch, PageFacts(page, {}, number)):
                result.validate(full=True)
                written.extend(result.to_pylist())
                found = result.schema
    return Outcome(written, aside, found, read, steps.dropped)
