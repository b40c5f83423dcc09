"""Reads the rows of a work unit as they would be written, without writing them.

No file is staged and no progress is kept. Rows that a run would put aside are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import closing
from typing import TYPE_CHECKING

from dil.conversion.chain import build_chain
from dil.extraction.paging.walk import Walk, WalkCounters
from dil.extraction.parameters import ParameterScope
from dil.model.task import RunContext
from dil.model.work_unit import WorkUnit
from dil.observe.logs import bind
from dil.secrets.masking import masking
from dil.spi.connector import SessionContext
from dil.spi.converter import ConverterContext, PageFacts
from dil.spi.coordination import Coordinator
from dil.spi.plugin_failures import translated_plugin_errors
from dil.spi.registry import load
from dil.spi.shared import Shared
from dil.task.attempt import pages_of, refuse_too_few_rows
from dil.task.request_log import request_log
from dil.task.secondary_inputs import authentication_reader, validation_reader

if TYPE_CHECKING:
    import pyarrow as pa


def read_rows(
    run: RunContext,
    unit: WorkUnit,
    coordinator: Coordinator,
    shared: Shared,
    clean: Callable[[str], str],
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the converted rows of a work unit, page by page; runs on an executor.

    Close the generator: the session stays open until then. ``clean`` masks the job's secrets in a
    text.

    Raises:
        DilError: the source refuses, or its rows do not fit the job's declarations.
    """
    job, counters = run.job, WalkCounters()
    chain = build_chain(
        ConverterContext(
            job,
            run.run_now,
            validation_rows=validation_reader(job),
            known_schema=run.known_schema,
        )
    )
    scope = ParameterScope.of(unit, full_extract=run.full_extract, secondary=run.secondary)
    log_request = request_log(clean, shows_curl=run.shows_requests)
    walk = Walk(job.extraction, scope, time, counters, log_request=log_request)
    context = SessionContext(
        job,
        unit,
        run.run_id,
        run.run_now,
        1,
        coordinator,
        renewed=authentication_reader(job),
        shared=shared,
    )
    with (
        masking(clean),
        bind(job=job.name, run_id=run.run_id, unit=unit.signature, attempt=1),
        translated_plugin_errors(job.source.connector.qualname),
        load(job.source.connector)().open(context) as session,
        closing(pages_of(session, job, walk, run.known_schema)) as pages,
    ):
        for page, values in pages:
            facts = PageFacts(page, values.variables, counters.pages)
            with closing(page):
                for batch in page.batches:
                    yield from chain.convert(batch, facts)
    yield from chain.finish()
    refuse_too_few_rows(counters, job.extraction.min_records)
