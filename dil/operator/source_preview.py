"""Previews a source: reads the first rows of one work unit, as a run would write them.

The requests to the source are real. Nothing else happens: no lease, no state, no file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from dil import planning, publishing
from dil.conversion.chain import ConversionChain, build_chain
from dil.coordination import local
from dil.errors import ConfigError
from dil.extraction.paging.walk import Walk, WalkCounters
from dil.extraction.parameters import Scope
from dil.extraction.secondary import read_secondary_inputs
from dil.model.job import Job
from dil.model.secondary import SecondaryRows
from dil.model.work_unit import WorkUnit
from dil.planning import BareHistory
from dil.run import plan_builder
from dil.spi.connector import (
    ByteSession,
    Connector,
    RequestValues,
    Response,
    RowSession,
    SessionContext,
)
from dil.spi.converter import ConverterContext, PageFacts
from dil.spi.extractor import Page
from dil.spi.registry import load
from dil.state import open_store
from dil.task.attempt import pages_of
from dil.task.secondary_inputs import (
    authentication_reader,
    secondary_access,
    validation_reader,
)
from dil.writing.widening import Widening, conform

RUN_ID = "preview"


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """The answer to one request; ``seconds`` until its headers, or its first rows, came.

    ``location`` names the source, without secrets.
    """

    location: str
    status: int
    content_type: str
    seconds: float
    warning: str = ""


@dataclass(frozen=True, slots=True)
class _ChosenUnit:
    """The work unit to read, None where there is none, and what a run would know of it."""

    work_unit: WorkUnit | None
    is_due: bool
    full_extract: bool
    known_schema: str


@dataclass(frozen=True, slots=True)
class SourcePreview:
    """The first rows of one work unit, and the answers that they came in.

    ``is_due`` is False where the next run would not take it. ``rows`` are as they would be written,
    all of one schema; ``dropped`` counts those that conversion put aside. ``work_unit`` is None
    where the source was asked for its units and has none, which ``notes`` mention.
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
    may_send: bool = False,
) -> SourcePreview:
    """Read the first rows of one work unit; change nothing.

    Args:
        job: The job; its secrets have to be resolved.
        now_ms: The now of planning, epoch ms UTC.
        rows: Stop once so many are read; whole pages are requested.
        signature: The work unit to read; by default the first one due, else the newest one.
        clock: The real clock of the state store, epoch ms UTC; ``now_ms`` by default.
        may_send: Whether requests may be sent that may change something at the source.

    Raises:
        ConfigError: the job has no such signature, or it sends and ``may_send`` is off.
        SourceError: the source refuses, or its answer is not what the job says.
        ConversionError: the rows are not what the job says.
    """
    _refuse_sending(job, may_send=may_send)
    secondary = read_secondary_inputs(job.secondary, secondary_access(job))
    chosen = _chosen(job, secondary, now_ms, signature, clock)
    work_unit = chosen.work_unit
    if work_unit is None:
        notes = (*secondary.notes, plan_builder.nothing_listed(job))
        return SourcePreview(
            None, is_due=False, answers=(), rows=pa.table({}), dropped=0, notes=notes
        )
    chain = build_chain(
        ConverterContext(
            job,
            now_ms,
            validation_rows=validation_reader(job),
            known_schema=chosen.known_schema,
        )
    )
    counters, answers = WalkCounters(), list[SourceAnswer]()
    scope = Scope.of(work_unit, full_extract=chosen.full_extract, secondary=secondary.variables)
    walk = Walk(job.extraction, scope, time, counters=counters)
    renewed = authentication_reader(job)
    context = SessionContext(job, work_unit, RUN_ID, now_ms, 1, local(job), renewed)
    with load(job.source.connector)().open(context) as session:
        pages = pages_of(_recording(session, answers), job, walk, chosen.known_schema)
        table = _first(_batches(pages, walk, chain), rows)
    notes = (*secondary.notes, *counters.notes)
    return SourcePreview(work_unit, chosen.is_due, tuple(answers), table, chain.dropped, notes)


def _refuse_sending(job: Job, *, may_send: bool) -> None:
    if job.has_input("payload"):
        raise ConfigError.single(
            "ms.secondary.input",
            "has payload rows, which a look would send",
            "`dil run` sends them; -D ms.audit.enabled=true shows each request.",
            job.properties.origin("ms.secondary.input"),
        )
    if may_send:
        return
    connector = load(job.source.connector)
    problem = connector.changes(job) if issubclass(connector, Connector) else None
    if problem is not None:
        raise ConfigError([replace(problem, fix="Give --send when that is harmless.")])


def _chosen(
    job: Job,
    secondary: SecondaryRows,
    now_ms: int,
    signature: str | None,
    clock: Callable[[], int] | None,
) -> _ChosenUnit:
    """Return the work unit to read, and whether the next run would take it."""
    units = plan_builder.listed_units(job, now_ms, secondary.activation)
    with open_store(job.state, job.name, clock=clock or (lambda: now_ms)) as store:
        due = plan_builder.due(job, store, now_ms, units)
        known_schema = publishing.recorded_schema(store)

    def chosen(unit: WorkUnit | None, *, is_due: bool) -> _ChosenUnit:
        return _ChosenUnit(unit, is_due, due.full_extract, known_schema)

    for unit in due.work_units:
        if signature in (None, unit.signature):
            return chosen(unit, is_due=True)
    anew = replace(job.planning, ignore_history=True, backfill=False, limit=None)
    every = planning.plan_on_demand(
        anew, now_ms=now_ms, history=BareHistory({}), activation=units
    ).work_units
    if signature is None and every:
        return chosen(every[-1], is_due=False)
    if signature is None and job.planning.of_source and not units:
        return chosen(None, is_due=False)
    found = next((unit for unit in every if unit.signature == signature), None)
    if found is None:
        raise _no_such_unit(job, signature)
    return chosen(found, is_due=False)


def _no_such_unit(job: Job, signature: str | None) -> ConfigError:
    if signature is None:
        return ConfigError.single(
            "", f"{job.name} has no work unit at all", "`dil plan --all` tells why."
        )
    return ConfigError.single(
        "--signature", f"{signature} is no work unit of {job.name}", "`dil plan --all` names them."
    )


def _batches(
    pages: Iterator[tuple[Page, RequestValues]], walk: Walk, chain: ConversionChain
) -> Iterator[pa.RecordBatch]:
    """Yield converted batches; pages are requested only as batches are taken."""
    for page, values in pages:
        facts = PageFacts(page, values.variables, walk.counters.pages)
        for batch in page.batches:
            yield from chain.convert(batch, facts)
    yield from chain.finish()


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


def _recording(
    session: ByteSession | RowSession, answers: list[SourceAnswer]
) -> ByteSession | RowSession:
    """Return a session that records the answers of this one."""
    if isinstance(session, ByteSession):
        return _RecordingByteSession(session, answers)
    return _RecordingRowSession(session, answers)


class _RecordingByteSession(ByteSession):
    """Passes requests on and records answers; whoever opened the inner session closes it."""

    def __init__(self, session: ByteSession, answers: list[SourceAnswer]) -> None:
        self._session = session
        self._answers = answers

    def fetch(self, values: RequestValues) -> Response:
        """Send one request and record the answer."""
        begun = time.monotonic()
        found = self._session.fetch(values)
        seconds = time.monotonic() - begun
        self._answers.append(
            SourceAnswer(found.location, found.status, found.content_type, seconds, found.warning)
        )
        return found


class _RecordingRowSession(RowSession):
    """Passes requests on and records answers where the inner session has a ``location``."""

    def __init__(self, session: RowSession, answers: list[SourceAnswer]) -> None:
        self._session = session
        self._answers = answers

    def read(self, values: RequestValues) -> Iterator[pa.RecordBatch]:
        """Send one request and record the answer."""
        begun = time.monotonic()
        batches = iter(self._session.read(values))
        first = next(batches, None)
        location = self._session.location
        if location:
            self._answers.append(SourceAnswer(location, 0, "", time.monotonic() - begun))
        if first is not None:
            yield first
            yield from batches
