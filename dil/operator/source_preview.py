"""Previews a source: reads the first rows of one work unit, as a run would write them.

The requests to the source are real. Nothing else happens: no lease, no state, no file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from dil.coordination import local_coordinator
from dil.errors import ConfigError, DilError
from dil.execution.worker import memory_limited
from dil.model.job import Job
from dil.model.secondary import SecondaryRows
from dil.model.work_unit import WorkUnit
from dil.observe.progress import counted
from dil.observe.redaction import redactor, secrets_of
from dil.operator.previewed_units import RUN_ID, ChosenUnits, choose_units, scope_of
from dil.run import plan_builder
from dil.run.inputs import read_inputs
from dil.secrets.masking import masking
from dil.spi.connector import (
    ByteSession,
    Connector,
    RequestValues,
    Response,
    RowSession,
    SessionContext,
)
from dil.spi.plugin_failures import translated_plugin_errors
from dil.spi.registry import load
from dil.spi.request_view import RequestView
from dil.task.memory import out_of_memory, ran_out_of_memory
from dil.task.reading import UnitReading
from dil.task.secondary_inputs import authentication_reader
from dil.types.widening import Widening, conform


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """The answer to one request.

    ``seconds`` is the time until the answer's headers, or its first rows, came. ``location`` names
    the source, without secrets. ``request`` is the request, None if the connector cannot describe
    it; secrets in ``request`` are not masked yet.
    """

    location: str
    status: int
    content_type: str
    seconds: float
    warning: str = ""
    request: RequestView | None = None


@dataclass(frozen=True, slots=True)
class PreviewLimits:
    """The limits of a preview.

    Attributes:
        may_send: Whether the preview may send requests that may change data at the source.
        skips_empty: Whether the next due work units are tried if the first one has no rows.
        on_request: Called with each request before it is sent; secrets are not masked. None
            calls nothing.
    """

    may_send: bool = False
    skips_empty: bool = False
    on_request: Callable[[RequestView], None] | None = None


@dataclass(frozen=True, slots=True)
class SourcePreview:
    """The first rows of one work unit, and the answers that had them.

    ``is_due`` is False if the next run would not take the work unit. ``rows`` are converted as for
    writing, all with one schema; ``dropped`` counts rows that conversion put aside. ``work_unit``
    is None if the source lists no units; ``notes`` then say so.
    """

    work_unit: WorkUnit | None
    is_due: bool
    answers: tuple[SourceAnswer, ...]
    rows: pa.Table
    dropped: int
    notes: tuple[str, ...] = ()


def preview_source(
    job: Job,
    *,
    now_ms: int,
    rows: int,
    signature: str | None = None,
    clock: Callable[[], int] | None = None,
    rules: PreviewLimits = PreviewLimits(),
) -> SourcePreview:
    """Read the first rows of one work unit; change nothing.

    Args:
        job: The job; its secrets have to be resolved.
        now_ms: The now of planning, epoch ms UTC.
        rows: The number of rows to return; whole pages are requested.
        signature: The work unit to read; by default the first one due, else the newest one.
        clock: The real clock of the state store, epoch ms UTC; ``now_ms`` by default.
        rules: The limits of the preview, and the observer of its requests.

    Raises:
        ConfigError: the job has no such work unit, or would send rows although the rules forbid it.
        SourceError: the source refuses, or its answer differs from the job's declaration or needs
            more memory than a worker may take.
        ConversionError: the rows differ from the job's declaration.
    """
    _refuse_sending(job, may_send=rules.may_send)
    secondary = read_inputs(job)
    chosen = choose_units(job, secondary, now_ms, signature, clock)
    if not chosen.work_units:
        notes = (*secondary.notes, plan_builder.nothing_listed(job))
        return SourcePreview(
            None, is_due=False, answers=(), rows=pa.table({}), dropped=0, notes=notes
        )
    reading = _Reading(job, now_ms, rows, chosen, secondary, rules.on_request)
    first = found = reading.of(chosen.work_units[0])
    if rules.skips_empty and not first.rows.num_rows:
        for number, unit in enumerate(chosen.work_units[1:], start=2):
            try:
                found = reading.of(unit)
            except DilError as error:
                empty = f"the first {counted(number - 1, 'due work unit')} had no rows"
                error.message = f"{error.message} ({empty}; this is {unit.signature})"
                raise
            if found.rows.num_rows:
                note = f"the first {counted(number - 1, 'due work unit')} had no rows: this is the"
                return replace(found, notes=(*found.notes, f"{note} next one with some"))
        tried = len(chosen.work_units)
        if tried > 1:
            note = f"the first {counted(tried, 'due work unit')} had no rows; this is the first"
            return replace(first, notes=(*first.notes, note))
    return first


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads work units for a preview."""

    job: Job
    now_ms: int
    rows: int
    chosen: ChosenUnits
    secondary: SecondaryRows
    on_request: Callable[[RequestView], None] | None

    def of(self, work_unit: WorkUnit) -> SourcePreview:
        """Return the first rows of a work unit, within the memory limit of a worker."""
        job = self.job
        try:
            with memory_limited(self.job) as job:
                return self._read(job, work_unit)
        except Exception as error:
            if ran_out_of_memory(error):
                raise out_of_memory(job) from error
            raise

    def _read(self, job: Job, work_unit: WorkUnit) -> SourcePreview:
        watcher = _Watcher(self.on_request)
        variables = self.secondary.variables
        scope = scope_of(work_unit, variables, full_extract=self.chosen.full_extract)
        coordinator, renewed = local_coordinator(job), authentication_reader(job)
        context = SessionContext(job, work_unit, RUN_ID, self.now_ms, 1, coordinator, renewed)
        reading = UnitReading(context, scope, self.chosen.known_schema)
        with (
            masking(redactor((*secrets_of(job), *variables.secrets))),
            reading.opened(watcher.watched) as rows,
        ):
            table = _first(rows, self.rows)
            reading.end_page()  # only the walk's next step shows if there is another page
        notes = (*self.secondary.notes, *reading.notes)
        return SourcePreview(
            work_unit, self.chosen.is_due, tuple(watcher.answers), table, reading.dropped, notes
        )


def _refuse_sending(job: Job, *, may_send: bool) -> None:
    if job.has_input("payload"):
        raise ConfigError.single(
            "ms.secondary.input",
            "has payload rows, which a preview would send",
            "`dil plan --show-request` shows the first request and sends nothing; `dil run` sends.",
            job.properties.origin("ms.secondary.input"),
        )
    if may_send:
        return
    connector = load(job.source.connector)
    with translated_plugin_errors(job.source.connector.qualname):
        problem = connector.changes(job) if issubclass(connector, Connector) else None
    if problem is not None:
        raise ConfigError([replace(problem, fix="Give --send if that is harmless.")])


def _first(batches: Iterator[pa.RecordBatch], rows: int) -> pa.Table:
    """Return the first rows, in one schema."""
    widening, held, count = Widening(), list[pa.RecordBatch](), 0
    for batch in batches:
        widening.add(batch)
        held.append(batch)
        count += batch.num_rows
        if count >= rows:
            break
    if widening.schema is None:
        return pa.table({})
    alike = [conform(batch, widening.schema) for batch in held]
    return pa.Table.from_batches(alike, widening.schema).slice(0, rows)


@dataclass(frozen=True, slots=True)
class _Watcher:
    """Keeps the answers of the session that it watches, and passes each request to a caller."""

    on_request: Callable[[RequestView], None] | None
    answers: list[SourceAnswer] = field(default_factory=list)

    def watched(self, session: ByteSession | RowSession) -> ByteSession | RowSession:
        """Return a session that passes requests on to the given one, which its opener closes."""
        if isinstance(session, ByteSession):
            return _WatchedByteSession(session, self)
        return _WatchedRowSession(session, self)

    def asked(self, session: ByteSession | RowSession, values: RequestValues) -> RequestView | None:
        """Return the request that is about to be sent."""
        view = session.describe(values)
        if view is not None and self.on_request is not None:
            self.on_request(view)
        return view


class _WatchedByteSession(ByteSession):
    """Passes requests on and watches their answers."""

    def __init__(self, session: ByteSession, watcher: _Watcher) -> None:
        self._session = session
        self._watcher = watcher

    def fetch(self, values: RequestValues) -> Response:
        """Send one request and keep the facts of its answer."""
        view = self._watcher.asked(self._session, values)
        begun = time.monotonic()
        found = self._session.fetch(values)
        seconds = time.monotonic() - begun
        self._watcher.answers.append(
            SourceAnswer(
                found.location, found.status, found.content_type, seconds, found.warning, view
            )
        )
        return found

    def waits_to_repeat(self, response: Response, failure: str, repeats: int) -> bool:
        """Wait as the session does."""
        return self._session.waits_to_repeat(response, failure, repeats)


class _WatchedRowSession(RowSession):
    """Passes requests on and watches their answers, if the inner session has a ``location``."""

    def __init__(self, session: RowSession, watcher: _Watcher) -> None:
        self._session = session
        self._watcher = watcher

    def read(self, values: RequestValues) -> Iterator[pa.RecordBatch]:
        """Send one request and keep the facts of its answer."""
        view = self._watcher.asked(self._session, values)
        begun = time.monotonic()
        batches = iter(self._session.read(values))
        first = next(batches, None)
        location = self._session.location
        if location:
            seconds = time.monotonic() - begun
            self._watcher.answers.append(SourceAnswer(location, 0, "", seconds, request=view))
        if first is not None:
            self.left_out = self._session.left_out
            yield first
            yield from batches
