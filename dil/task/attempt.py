"""One work unit, from its first request to its staged files; knows no Spark.

Runs on an executor. Data and protocol errors never leave as exceptions: they come back in the
report, because Spark would keep only their text and would retry where we must decide.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from dil.conversion.chain import ConversionChain, build_chain
from dil.conversion.contract import extraction_of
from dil.coordination import joined
from dil.errors import (
    ConversionError,
    DilError,
    PluginFailureError,
    SourceContractError,
    UnknownOutcomeError,
    WriteError,
)
from dil.extraction.paging.walk import (
    ResumeRefusedError,
    Walk,
    WalkCounters,
    walk_pages,
    walk_rows,
)
from dil.extraction.parameters import Scope
from dil.extraction.preprocessing.chain import preprocessed
from dil.model.job import Job
from dil.model.schema_text import schema_text
from dil.model.task import Counters, Failure, RunContext, StagedFile, TaskReport
from dil.model.work_unit import WorkUnit
from dil.observe.logs import bind
from dil.observe.memory import peak_rss_bytes
from dil.observe.progress import counted
from dil.observe.redaction import redactor, secrets_of, shortened
from dil.publishing.decision import check_paths
from dil.publishing.dumps import check_places
from dil.publishing.staged import FORMAT, RESULT_NAME, StagedResult, write_result
from dil.spi.connector import ByteSession, RequestValues, RowSession, SessionContext
from dil.spi.converter import ConverterContext, PageFacts
from dil.spi.coordination import Coordinator
from dil.spi.extractor import Page
from dil.spi.registry import load
from dil.storage import Filesystem, filesystem_for
from dil.task.checkpoints import OTHER_FIT, STARTED_OVER, Attempt, Checkpoints, Earlier
from dil.task.secondary_access import renewal, validation_rows
from dil.task.sending import AttemptPlace, Outbox, must_not_repeat, sent_before
from dil.writing.dump import DumpWriter
from dil.writing.formats import writer_for
from dil.writing.output import OutputWriter, output_writer
from dil.writing.ownership import give
from dil.writing.quarantine import Origin, QuarantinePlace, QuarantineWriter
from dil.writing.rolling import Place
from dil.writing.staging import StagedWriter

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The clocks and chance of a task; tests bring their own.

    ``now_ms`` is the wall clock in epoch ms, ``monotonic`` a clock in seconds. ``rows`` are those
    that Spark reads for the task, None where the connector reads by itself.
    """

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    rows: Iterator[pa.RecordBatch] | None = None


def run_work_unit(
    run: RunContext, unit: WorkUnit, around: Surroundings | None = None
) -> TaskReport:
    """Run a work unit with its retries; return its staged files or its last failure.

    A failed attempt leaves nothing behind, unless the job keeps progress inside work units: then it
    leaves its complete pages, and the next one goes on from them. Retry k waits
    ``(k - 1) x task.retry.intervalinsec`` (behaviour.md B15.2) or, where that is unset, a jittered
    1 to 60 s (spec README 30).
    """
    around = around or Surroundings()
    clean = _cleaner(run)
    earlier = Earlier.OF_ANY_RUN

    def attempt(number: int) -> TaskReport:
        nonlocal earlier
        try:
            return _attempt(run, unit, number, around, clean, earlier)
        except ResumeRefusedError as refusal:
            earlier = Earlier.OF_THIS_RUN
            cause = refusal.__cause__
            why = OTHER_FIT if isinstance(cause, ConversionError) else STARTED_OVER
            log.warning("%s: %s", why, cause or "other rows to send")
            report = _attempt(run, unit, number, around, clean, Earlier.NOTHING)
            return replace(report, notes=(why, *report.notes))

    return sent_before(run, unit) or in_attempts(run, unit, attempt, around)


def run_attempt(
    run: RunContext, unit: WorkUnit, attempt: int, rows: Iterator[pa.RecordBatch]
) -> TaskReport:
    """Run one attempt over rows that Spark reads; ``in_attempts`` repeats it, with rows anew."""
    with bind(job=run.job.name, run_id=run.run_id, unit=unit.signature, attempt=attempt):
        around = Surroundings(rows=rows)
        return _attempt(run, unit, attempt, around, _cleaner(run), Earlier.NOTHING)


def in_attempts(
    run: RunContext,
    unit: WorkUnit,
    attempt: Callable[[int], TaskReport],
    around: Surroundings,
) -> TaskReport:
    """Make attempts, from 1 on, until one succeeds, no other can help, or none is left.

    Returns:
        The report of the last one, with what all of them spent.
    """
    spent = Counters(seconds_waited=_pace(unit, around))
    report = TaskReport(unit.signature, unit.low, unit.high, 0)
    for number in range(1, run.job.running.max_retries + 2):
        with bind(job=run.job.name, run_id=run.run_id, unit=unit.signature, attempt=number):
            report = attempt(number)
            spent = _added(spent, report.counters)
            report = replace(report, counters=spent)
            if report.failure is None:
                return report
            log.warning("attempt %d failed: %s", number, report.failure.error)
            if not report.failure.retryable:
                return report
        if number <= run.job.running.max_retries:
            waited = _wait_for_retry(run, number, around)
            spent = replace(spent, seconds_waited=spent.seconds_waited + waited)
    return report


def _cleaner(run: RunContext) -> Callable[[str], str]:
    return redactor((*secrets_of(run.job), *run.secondary.secrets))


def _attempt(
    run: RunContext,
    unit: WorkUnit,
    attempt: int,
    around: Surroundings,
    clean: Callable[[str], str],
    earlier: Earlier,
) -> TaskReport:
    """Run one attempt in a staging folder of its own.

    Raises:
        ResumeRefusedError: the source does not go on from where an ``earlier`` attempt came to;
            what attempts of this run left is deleted.
    """
    started = around.monotonic()
    counters = WalkCounters()
    out = _outputs(run, unit, attempt, around, clean)
    checkpoints: Checkpoints | None = None
    try:
        chain = _chain(run, out.rejects)
        checkpoints = Checkpoints(
            run,
            unit,
            Attempt(
                out.filesystem,
                out.folder,
                out.writer,
                chain,
                counters,
                around.monotonic,
                clean,
                out.outbox.refused,
            ),
        )
        start = checkpoints.resume(earlier)
        walk = replace(
            _walk(run, unit, around, counters, out.outbox),
            start=start,
            refused_before=checkpoints.refused_before,
            on_page=checkpoints.page_done,
        )
        with _going_on(run.job, checkpoints):
            context = _session_context(run, unit, attempt, around, out.outbox)
            _write(_rows(run, context, chain, walk, out.outbox), out.sink)
            _check_enough(counters, run.job.extraction.min_records)
            report = TaskReport(
                signature=unit.signature,
                low=unit.low,
                high=unit.high,
                attempts=attempt,
                files=out.finish(run, unit),
                schema="" if out.sink.schema is None else schema_text(out.sink.schema),
                notes=(*_notes(counters, chain.warnings), *chain.notes, *out.outbox.notes),
                quarantined=out.rejects.finish(),
                rejects=out.rejects.reasons(),
                discarded=out.rejects.discarded(),
                refused=out.outbox.files(),
                answers=out.outbox.answers(counters.warned),
            )
        report = replace(
            report,
            counters=_counted(counters, report.rows, chain.dropped, around.monotonic() - started),
        )
        _stage(run, unit, report, out, checkpoints.read_since)
        checkpoints.close()
    except ResumeRefusedError:
        out.discard(also_earlier=True)
        raise
    except BaseException as error:
        out.close()
        if checkpoints is None or not checkpoints.keep():
            out.discard()
        if not isinstance(error, Exception):
            raise
        failure = out.outbox.fail(failure_of(error, run.job.source.connector.qualname, clean))
        return TaskReport(
            signature=unit.signature,
            low=unit.low,
            high=unit.high,
            attempts=attempt,
            failure=failure,
            counters=_counted(counters, 0, 0, around.monotonic() - started),
            notes=_notes(counters, 0),
        )
    else:
        return report


@contextmanager
def _going_on(job: Job, checkpoints: Checkpoints) -> Iterator[None]:
    """Decide what becomes of an attempt that cannot go on from where an earlier one came to.

    Types that were found in its pages are fixed by its files; rows that do not fit may well fit
    what is found in all pages together, so reading starts over. Rows that were sent are not sent
    again because others stand before them now.

    Raises:
        ResumeRefusedError: the attempt is to start over.
        UnknownOutcomeError: the rows to send are others than before, and may not be sent twice.
    """
    try:
        yield
    except ResumeRefusedError:
        if must_not_repeat(job) and not job.extraction.egress.sends_again:
            raise UnknownOutcomeError(
                "the rows to send are others than those that an earlier attempt had sent in part;"
                " nothing is sent again",
                "Bring back the rows as they were, new ones behind them, and run with"
                " -D ms.egress.send.again=true: it goes on where the earlier attempt stopped. With"
                " other rows it sends all of them from the first.",
            ) from None
        raise
    except ConversionError as error:
        finds_types = job.extraction.output_schema is None
        if not checkpoints.has_resumed or not finds_types or job.has_input("payload"):
            raise
        raise ResumeRefusedError from error


def _chain(run: RunContext, rejects: QuarantineWriter) -> ConversionChain:
    context = ConverterContext(
        run.job,
        run.run_now,
        validation_rows=validation_rows(run.job),
        rejects=rejects,
        known_schema=run.known_schema,
    )
    return build_chain(context)


def _walk(
    run: RunContext,
    unit: WorkUnit,
    around: Surroundings,
    counters: WalkCounters,
    outbox: Outbox,
) -> Walk:
    """Return what decides how pages are walked, from the first one."""
    scope = Scope.of(unit, full_extract=run.full_extract, secondary=run.secondary)
    return Walk(
        run.job.extraction,
        scope,
        around,
        counters=counters,
        payload=outbox.payload(scope),
        refused=outbox.refused,
    )


def _session_context(
    run: RunContext, unit: WorkUnit, attempt: int, around: Surroundings, outbox: Outbox
) -> SessionContext:
    """Return what the session is told, but for the coordinator."""
    return SessionContext(
        run.job,
        unit,
        run.run_id,
        run.run_now,
        attempt,
        renewed=renewal(run.job),
        audit=outbox.trail,
        rows=around.rows,
    )


def _write(
    rows: Generator[pa.RecordBatch, None, None], sink: StagedWriter | DumpWriter | OutputWriter
) -> None:
    """Write all rows; a write that fails closes what they come from at once."""
    with closing(rows):
        for batch in rows:
            sink.write(batch)


def _rows(
    run: RunContext,
    context: SessionContext,
    chain: ConversionChain,
    walk: Walk,
    outbox: Outbox,
) -> Generator[pa.RecordBatch, None, None]:
    """Yield converted batches, one page at a time; the session is closed at the end."""
    job = run.job
    connector = load(job.source.connector)()
    told = _Told(walk.counters.rows)
    with (
        joined(run, walk.clock.sleep) as coordinator,
        connector.open(replace(context, coordinator=coordinator)) as session,
    ):
        try:
            for page, values in pages_of(outbox.audited(session), job, walk):
                facts = PageFacts(page, values.variables, walk.counters.pages)
                with closing(page):
                    for batch in page.batches:
                        yield from chain.convert(batch, facts)
                told.tell(coordinator, walk.counters, page.rows)
        finally:
            walk.counters.seconds_waited += session.seconds_waited
    yield from chain.finish()


@dataclass(slots=True)
class _Told:
    """What the driver knows of a task's progress; it is told after each page."""

    rows: int
    requests: int = 0
    bytes: int = 0

    def tell(self, coordinator: Coordinator, counters: WalkCounters, rows_of_page: int) -> None:
        """Tell what came since the last time; the page's own rows are not counted yet."""
        requests, rows = counters.requests, counters.rows + rows_of_page
        coordinator.progress(
            requests=requests - self.requests,
            rows=rows - self.rows,
            size=counters.bytes - self.bytes,
        )
        self.requests, self.rows, self.bytes = requests, rows, counters.bytes


@dataclass(frozen=True, slots=True)
class _Outputs:
    """Where an attempt's rows go: those to publish, those put aside, and those that are sent."""

    filesystem: Filesystem
    folder: str
    writer: StagedWriter
    rejects: QuarantineWriter
    outbox: Outbox
    other: DumpWriter | OutputWriter | None = None

    @property
    def sink(self) -> StagedWriter | DumpWriter | OutputWriter:
        """Return where converted batches go."""
        return self.writer if self.other is None else self.other

    def finish(self, run: RunContext, unit: WorkUnit) -> tuple[StagedFile, ...]:
        """Finish and return the files to publish.

        Raises:
            WriteError: the file system refused, or a file could not be where it has to be.
            ConversionError: rows do not fit each other.
        """
        files = self.sink.finish()
        if isinstance(self.other, DumpWriter):
            check_places(run.job.publishing, self.filesystem, files)
        else:
            check_paths(run, unit, files, self.filesystem)
        chosen = run.job.properties
        give(files, chosen.text("writer.file.owner"), chosen.text("writer.file.group"))
        return files

    def close(self) -> None:
        """Close the files of a failed attempt that no later one takes over."""
        self.rejects.abort()
        self.outbox.abort()

    def discard(self, *, also_earlier: bool = False) -> None:
        """Delete what a failed attempt wrote; its result first, which alone makes it count."""
        folder = self.folder.rpartition("/")[0] if also_earlier else self.folder
        try:
            self.filesystem.delete_file(f"{self.folder}/{RESULT_NAME}")
            self.close()
            self.sink.abort()
            self.filesystem.delete_tree(folder)
        except WriteError as error:
            log.warning("a failed attempt is left for a later sweep: %s", error.message)


def _outputs(
    run: RunContext,
    unit: WorkUnit,
    attempt: int,
    around: Surroundings,
    clean: Callable[[str], str],
) -> _Outputs:
    """Return what an attempt writes, in a staging folder of its own."""
    folder = f"{run.staging_dir}/{unit.hash}/{attempt}-{uuid.uuid4().hex}"
    spec = run.job.writing
    filesystem = filesystem_for(folder, spec.blocks)
    place = AttemptPlace(filesystem, folder, attempt, around.now_ms, around.monotonic, clean)
    writer = StagedWriter(filesystem, folder, spec, writer_for(spec.format))
    other: DumpWriter | OutputWriter | None
    if spec.file_name:
        other = DumpWriter(filesystem, folder)
    else:
        rows = Place(filesystem, folder, spec, writer_for(spec.format))
        other = output_writer(
            run,
            unit,
            writer,
            rows,
            extracted_ms=around.now_ms(),
            label_at=_label_at(run.job),
        )
    return _Outputs(
        filesystem,
        folder,
        writer,
        QuarantineWriter(
            QuarantinePlace(filesystem, folder, spec.target_bytes),
            run.job.conversion.quarantine,
            Origin(unit.signature, run.run_id, attempt),
        ),
        Outbox(run, unit, place),
        other,
    )


def _label_at(job: Job) -> Callable[[int], str] | None:
    """Return what labels an instant in epoch ms UTC, None for a job without timelabels."""
    if job.planning.timelabel is None:
        return None
    from dil.planning.timelabels import label_at  # few jobs have labels

    return label_at(job.planning.timelabel)


def _stage(
    run: RunContext, unit: WorkUnit, report: TaskReport, out: _Outputs, read_since: int
) -> None:
    """Complete an attempt: from now on it counts, and what it sent is known to be sent."""
    result = StagedResult(
        FORMAT, run.run_id, read_since, run.full_extract, run.job.digest, unit, report
    )
    write_result(out.filesystem, out.folder, result)
    out.outbox.complete()


def pages_of(
    session: ByteSession | RowSession, job: Job, walk: Walk
) -> Iterator[tuple[Page, RequestValues]]:
    """Yield the pages of a session with the values of their requests; bytes are unpacked first."""
    if not isinstance(session, ByteSession):
        yield from walk_rows(session, walk)
        return
    extractor = load(job.extraction.extractor)(extraction_of(job))
    with preprocessed(job.extraction, extractor) as reader:
        yield from walk_pages(session, reader, walk)


def _check_enough(counters: WalkCounters, least: int) -> None:
    if counters.rows < least:
        counters.is_void = True
        raise SourceContractError(
            f"the source gave {counted(counters.rows, 'row')}, ms.work.unit.min.records asks for"
            f" {least}",
            "Look whether the source is late or empty; lower the property if few rows are normal.",
        )


def failure_of(error: Exception, connector: str, clean: Callable[[str], str]) -> Failure:
    """Return why an attempt failed, without secrets; failures travel as data."""
    if isinstance(error, DilError):
        failure = Failure.of(error)
    else:
        log.error("unexpected failure in %s or behind it", connector, exc_info=error)
        # The text of a foreign exception may hold a whole payload.
        reason = shortened(clean(f"{type(error).__name__}: {error}"))
        failure = Failure.of(PluginFailureError(f"{connector}: {reason}"))
    return replace(failure, error=clean(failure.error), fix=clean(failure.fix))


def _pace(unit: WorkUnit, around: Surroundings) -> float:
    """Hold the task back until its start time; return the seconds waited (B5.11)."""
    seconds = (unit.not_before - around.now_ms()) / 1000
    if seconds <= 0:
        return 0.0
    around.sleep(seconds)
    return seconds


def _wait_for_retry(run: RunContext, retry: int, around: Surroundings) -> float:
    interval = run.job.running.retry_interval_s
    if interval is None:
        seconds = min(60.0, 2.0 ** (retry - 1)) * (0.5 + around.chance() / 2)
        seconds = max(1.0, seconds)
    else:
        seconds = float((retry - 1) * interval)
    log.info("retry %d in %.0f s", retry, seconds)
    around.sleep(seconds)
    return seconds


def _added(before: Counters, last: Counters) -> Counters:
    """Return the counters of all attempts: what was spent adds up, rows are the last one's."""
    return replace(
        last,
        requests=before.requests + last.requests,
        pages=before.pages + last.pages,
        bytes_read=before.bytes_read + last.bytes_read,
        warnings=before.warnings + last.warnings,
        seconds=before.seconds + last.seconds,
        seconds_waited=before.seconds_waited + last.seconds_waited,
    )


def _notes(counters: WalkCounters, fallen_back: int) -> tuple[str, ...]:
    notes = list(counters.notes)
    if counters.warnings:
        notes.append(
            "the source answered with a status that is only a warning; those answers gave no rows"
        )
    if fallen_back:
        notes.append("a derived field of type epoc found no number and became 0")
    return tuple(notes)


def _counted(counters: WalkCounters, written: int, dropped: int, seconds: float) -> Counters:
    """Return the counters of an attempt; ``dropped`` are the rows that conversion put aside."""
    return Counters(
        requests=counters.requests,
        pages=counters.pages,
        rows_read=counters.rows,
        rows_written=written,
        rows_dropped=counters.dropped + dropped,
        bytes_read=counters.bytes,
        warnings=counters.warnings,
        seconds=seconds,
        seconds_waited=counters.seconds_waited,
        peak_rss_bytes=peak_rss_bytes(),
    )
