"""Reads the rows of a work unit as they would be written, without writing them.

No file is staged and no progress is kept. Rows that a run would put aside are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from dil.conversion.chain import build_chain
from dil.extraction.absent_columns import left_out_note
from dil.extraction.paging.notes import emphasized
from dil.extraction.paging.rules import PagingPosition, PagingRules
from dil.extraction.paging.walk import Walk, WalkProgress, no_log
from dil.extraction.parameters import ParameterScope
from dil.model.task import RunContext
from dil.model.work_unit import WorkUnit
from dil.observe.logs import bind
from dil.secrets.masking import masking
from dil.spi.connector import ByteSession, RequestValues, RowSession, Session, SessionContext
from dil.spi.converter import ConverterContext, PageFacts
from dil.spi.coordination import Coordinator
from dil.spi.extractor import Page
from dil.spi.plugin_failures import translated_plugin_errors
from dil.spi.registry import load
from dil.spi.shared import Shared
from dil.task.attempt import pages_of, refuse_too_few_rows
from dil.task.request_log import request_log
from dil.task.secondary_inputs import authentication_reader, validation_reader

if TYPE_CHECKING:
    import pyarrow as pa

Watch = Callable[["ByteSession | RowSession"], "ByteSession | RowSession"]


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
    job = run.job
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
    scope = ParameterScope.of(unit, full_extract=run.full_extract, secondary=run.secondary)
    log_request = request_log(clean, shows_curl=run.logging.shows_requests)
    reading = UnitReading(context, scope, run.known_schema, log_request)
    with (
        masking(clean),
        bind(job=job.name, run_id=run.run_id, unit=unit.signature, attempt=1),
        reading.opened() as rows,
    ):
        yield from rows
    refuse_too_few_rows(reading.progress, job.extraction.min_records)


class UnitReading:
    """Reads one work unit over one session; pages are requested only as rows are taken."""

    def __init__(
        self,
        context: SessionContext,
        scope: ParameterScope,
        known_schema: str,
        log_request: Callable[[Session, RequestValues], None] = no_log,
    ) -> None:
        self.progress = WalkProgress()
        self._context = context
        self._known_schema = known_schema
        self._chain = build_chain(
            ConverterContext(
                context.job,
                context.run_now,
                validation_rows=validation_reader(context.job),
                known_schema=known_schema,
            )
        )
        self._walk = Walk(
            context.job.extraction,
            scope,
            time,
            self.progress,
            on_page=self._between_pages,
            log_request=log_request,
        )
        self._pages: Iterator[tuple[Page, RequestValues]] = iter(())
        self._names_pages = self._is_over = False

    @property
    def dropped(self) -> int:
        """Return the number of rows that conversion left out so far."""
        return self._chain.dropped

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes about the answers so far, for a person."""
        left_out = left_out_note(tuple(self.progress.left_out))
        return (*map(emphasized, self.progress.notes), *left_out)

    @contextmanager
    def opened(self, watch: Watch | None = None) -> Iterator[Iterator[pa.RecordBatch]]:
        """Open a session, and yield the converted rows; ``watch`` wraps the session."""
        job = self._context.job
        with (
            translated_plugin_errors(job.source.connector.qualname),
            load(job.source.connector)().open(self._context) as session,
            closing(
                pages_of(watch(session) if watch else session, job, self._walk, self._known_schema)
            ) as pages,
        ):
            self._pages = pages
            rules = PagingRules.of(job.extraction)
            self._names_pages = rules.names_pages and isinstance(session, ByteSession)
            with closing(self._rows(pages)) as rows:
                yield rows

    def _rows(
        self, pages: Iterator[tuple[Page, RequestValues]]
    ) -> Generator[pa.RecordBatch, None, None]:
        for page, values in pages:
            facts = PageFacts(page, values.variables, self.progress.pages)
            with closing(page):
                for batch in page.batches:
                    self.progress.leave_out(page.left_out)
                    yield from self._chain.convert(batch, facts)
        yield from self._chain.finish()

    def end_page(self) -> None:
        """Let ``notes`` say whether another page follows, without requesting it.

        If answers name the next page, this page is read to its end.
        """
        if self._names_pages:
            self._is_over = True
            with suppress(_OverError):
                next(self._pages, None)

    def _between_pages(self, position: PagingPosition) -> None:
        del position
        if self._is_over:
            raise _OverError


class _OverError(Exception):
    """Ends a walk between two pages."""
