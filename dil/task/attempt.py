"""One attempt at a work unit: from its first request to its staged files; knows no Spark.

An attempt runs on an executor. It never raises errors of data and protocol: it returns them in its
report, because Spark would keep only their text, and would decide about retries itself.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from traceback import clear_frames
from typing import TYPE_CHECKING

from msgspec import UNSET

from dil.conversion.chain import ConversionChain, build_chain
from dil.conversion.contract import extraction_of
from dil.coordination import task_coordinator
from dil.errors import (
    ConversionError,
    DilError,
    SourceContractError,
    UnknownOutcomeError,
)
from dil.extraction.absent_columns import left_out_note
from dil.extraction.paging.notes import EMPHASIS, SOURCE_BEHIND, emphasized
from dil.extraction.paging.walk import ResumeRefusedError, Walk, WalkProgress, walk_pages, walk_rows
from dil.extraction.preprocessing.chain import preprocessed
from dil.model.job import Job
from dil.model.settings import flat_parameters
from dil.model.task import Counters, Failure, TaskReport
from dil.model.work_unit import WorkUnit
from dil.observe.memory import peak_rss_bytes
from dil.observe.progress import counted
from dil.publishing.staged import FORMAT, StagedResult, write_result
from dil.spi.connector import ByteSession, RequestValues, RowSession, SessionContext
from dil.spi.converter import ConverterContext, PageFacts
from dil.spi.coordination import Coordinator
from dil.spi.extractor import Page
from dil.spi.plugin_failures import plugin_failure
from dil.spi.registry import load
from dil.task.checkpoints import STARTED_OVER, TYPES_CHANGED, Checkpoints, ResumeFrom
from dil.task.context import AttemptContext, TaskContext
from dil.task.delivery import Delivery, must_not_repeat
from dil.task.memory import out_of_memory, ran_out_of_memory
from dil.task.outputs import Outputs
from dil.task.request_log import request_log
from dil.task.secondary_inputs import authentication_reader, validation_reader

if TYPE_CHECKING:
    import pyarrow as pa

    from dil.task.event_time import EventRows

log = logging.getLogger(__name__)


def attempts_of(task: TaskContext, unit: WorkUnit) -> Callable[[int], TaskReport]:
    """Return the function that runs an attempt at a work unit, given its number.

    Attempts resume earlier ones. If that is refused, the same attempt reads from the beginning, and
    later attempts resume only attempts of this run.
    """
    resume_from = ResumeFrom.ANY_RUN

    def attempt(number: int) -> TaskReport:
        nonlocal resume_from
        try:
            return run_attempt(AttemptContext.of(task, unit, number), resume_from)
        except ResumeRefusedError as refusal:
            resume_from = ResumeFrom.THIS_RUN
            cause = refusal.__cause__
            why = TYPES_CHANGED if isinstance(cause, ConversionError) else STARTED_OVER
            log.warning("%s: %s", why, cause or "other rows to send")
            report = run_attempt(AttemptContext.of(task, unit, number), ResumeFrom.NOTHING)
            return replace(report, notes=(why, *report.notes))

    return attempt


def run_attempt(attempt: AttemptContext, resume_from: ResumeFrom) -> TaskReport:
    """Read the work unit into the attempt's staging folder; return its files or its failure.

    Raises:
        ResumeRefusedError: the source does not resume where an earlier attempt stopped. The files
            of this run's attempts are deleted, so that the next attempt starts from the beginning.
    """
    under_way = _Attempt(attempt)
    try:
        return under_way.read(resume_from)
    except BaseException as error:
        under_way.abandon(error)
        if isinstance(error, ResumeRefusedError) or not isinstance(error, Exception):
            raise
        return under_way.failure_report(error)


class _Attempt:
    """An attempt that is under way: it ends in a recorded result, or is abandoned."""

    def __init__(self, context: AttemptContext) -> None:
        unit = context.unit
        self._context = context
        self._started = context.clocks.monotonic()
        self._progress = WalkProgress()
        self._outputs = Outputs(context)
        self._delivery = Delivery(context)
        self._checkpoints: Checkpoints | None = None  # until the converters are built
        self._blank = TaskReport(unit.signature, unit.low, unit.high, context.id.number)

    def read(self, resume_from: ResumeFrom) -> TaskReport:
        """Read all rows, and record the result; from then on, no run reads them again."""
        attempt, run, job = self._context, self._context.run, self._context.job
        progress, outputs, delivery = self._progress, self._outputs, self._delivery
        chain = build_chain(
            ConverterContext(
                job,
                run.run_now,
                validation_rows=validation_reader(job),
                rejects=outputs.quarantine,
                known_schema=run.known_schema,
            )
        )
        events = _event_rows(attempt, outputs)
        checkpoints = Checkpoints(attempt, outputs.staged, chain, progress, delivery.refused)
        self._checkpoints = checkpoints
        start = checkpoints.resume(resume_from)
        walk = Walk(
            job.extraction,
            attempt.scope,
            attempt.clocks,
            progress,
            start=start,
            payload=delivery.payload(),
            refused=delivery.refused,
            refused_before=checkpoints.refused_before,
            on_page=checkpoints.page_done,
            log_request=request_log(attempt.task.clean, shows_curl=run.logging.shows_requests),
        )
        with (
            _translate_resume_errors(job, checkpoints),
            closing(_converted_rows(attempt, chain, walk, delivery)) as rows,
        ):
            for batch in rows if events is None else events.judged(rows):
                outputs.write(batch)
            refuse_too_few_rows(progress, job.extraction.min_records)
            report = self._finish(chain, events)
        put_aside = chain.dropped + (0 if events is None else events.put_aside)
        report = replace(report, counters=self._counters(report.rows, put_aside))
        result = StagedResult(
            FORMAT,
            run.run_id,
            checkpoints.read_since,
            run.full_extract,
            job.digest,
            attempt.unit,
            report,
        )
        if attempt.task.results is None:
            write_result(attempt.folder.filesystem, attempt.folder.path, result)  # now valid
        else:
            attempt.task.results.add(result)  # the attempt counts when the log is written
        delivery.complete()
        checkpoints.close()
        return report

    def _finish(self, chain: ConversionChain, events: EventRows | None) -> TaskReport:
        """Finish the files; return the report, but for its counters."""
        progress, outputs, delivery = self._progress, self._outputs, self._delivery
        sends_rows = self._context.job.has_input("payload")
        return replace(
            self._blank,
            files=outputs.finish(),
            schema=sys.intern(outputs.schema_text),  # most work units have the same one
            notes=(
                *_notes(progress, chain.warnings),
                *_clock_notes(self._context, progress),
                *chain.notes,
                *delivery.notes,
            ),
            quarantined=outputs.quarantine.finish(),
            rejects=outputs.quarantine.reasons(),
            discarded=outputs.quarantine.discarded(),
            refused=delivery.finish(),
            answers=delivery.answers(progress.warned),
            events=UNSET if events is None else events.tally(),
            late=UNSET if outputs.late is None else outputs.finish_late(),
            closed=outputs.closed_rows(),
            left_out=tuple(progress.left_out) or UNSET,
            first_rows=(not sends_rows and progress.first_rows) or UNSET,
            short_of=progress.short_of or UNSET,
        )

    def abandon(self, error: BaseException) -> None:
        """Close everything, and keep only files that a later attempt can resume from."""
        attempt, outputs = self._context, self._outputs
        if ran_out_of_memory(error):
            attempt.task.out_of_memory_units.add(attempt.unit.signature)
            clear_frames(error.__traceback__)  # frees the rows, so that there is memory to end in
        outputs.close()
        self._delivery.close()
        if isinstance(error, ResumeRefusedError):
            outputs.discard(also_earlier=True)
        elif self._checkpoints is None or not self._checkpoints.keep():
            outputs.discard()

    def failure_report(self, error: Exception) -> TaskReport:
        """Return the report of an attempt that failed."""
        failure = failure_of(error, self._context.job, self._context.clean)
        return replace(
            self._blank,
            failure=self._delivery.fail(failure),
            counters=self._counters(),
            notes=_notes(self._progress),
        )

    def _counters(self, rows_written: int = 0, rows_put_aside: int = 0) -> Counters:
        """Return the counters; ``rows_put_aside`` are rows that conversion put aside."""
        progress = self._progress
        return Counters(
            requests=progress.asked + progress.resent,
            resent=progress.resent or UNSET,
            pages=progress.pages,
            rows_read=progress.rows,
            rows_written=rows_written,
            rows_dropped=progress.dropped + rows_put_aside,
            bytes_read=progress.bytes,
            warnings=progress.warnings,
            seconds=self._context.clocks.monotonic() - self._started,
            seconds_waited=progress.seconds_waited,
            peak_rss_bytes=peak_rss_bytes(),
        )


def _event_rows(attempt: AttemptContext, outputs: Outputs) -> EventRows | None:
    """Return the judge of rows by their event time, None if the job has no event column."""
    run, spec = attempt.run, attempt.job.events
    if spec is None or run.events is None:
        return None
    from dil.task.event_time import EventRows, is_read_again  # few jobs have event time
    from dil.task.new_rows import NewRows

    rows = EventRows(
        spec,
        run.events,
        attempt.unit,
        run.run_now,
        outputs.quarantine,
        run.known_schema,
        outputs.late if spec.late_action == "side_table" else None,
    )
    if run.events.meter is not None:
        rows.measure_by(
            NewRows(
                attempt.job,
                run.events.meter,
                attempt.unit.signature,
                is_read_again=is_read_again(spec, run.events, attempt.unit),
                known_schema=run.known_schema,
            )
        )
    return rows


def _converted_rows(
    attempt: AttemptContext, chain: ConversionChain, walk: Walk, delivery: Delivery
) -> Generator[pa.RecordBatch, None, None]:
    """Yield converted batches, one page at a time; the session is closed at the end."""
    run, job = attempt.run, attempt.job
    connector = load(job.source.connector)()
    with task_coordinator(run, attempt.clocks.sleep, attempt.task.shared) as coordinator:
        context = SessionContext(
            job,
            attempt.unit,
            run.run_id,
            run.run_now,
            attempt.id.number,
            coordinator,
            renewed=authentication_reader(job),
            audit=delivery.trail,
            rows=attempt.rows,
            shared=attempt.task.shared,
        )
        reporter = _ProgressReporter(coordinator, walk.progress.rows)
        with (
            connector.open(context) as session,
            closing(pages_of(delivery.record(session), job, walk, run.known_schema)) as pages,
        ):
            try:
                for page, values in pages:
                    facts = PageFacts(page, values.variables, walk.progress.pages)
                    with closing(page):
                        for batch in page.batches:
                            yield from chain.convert(batch, facts)
                    reporter.report(walk.progress, page.rows)
            finally:
                walk.progress.seconds_waited += session.seconds_waited
                walk.progress.resent += session.retries
    yield from chain.finish()


def pages_of(
    session: ByteSession | RowSession, job: Job, walk: Walk, known_schema: str = ""
) -> Generator[tuple[Page, RequestValues], None, None]:
    """Yield pages with the values of their requests; preprocessors unpack bytes first.

    Close the generator: preprocessors hold processes and folders until then. ``known_schema`` is
    the member of RunContext.
    """
    if not isinstance(session, ByteSession):
        yield from walk_rows(session, walk)
        return
    extractor = load(job.extraction.extractor)(extraction_of(job, known_schema))
    with preprocessed(job.extraction, extractor) as reader:
        yield from walk_pages(session, reader, walk)


@dataclass(slots=True)
class _ProgressReporter:
    """Reports an attempt's progress to the driver; ``rows`` were resumed from earlier attempts."""

    coordinator: Coordinator
    rows: int
    asked: int = 0
    bytes: int = 0

    def report(self, progress: WalkProgress, rows_of_page: int) -> None:
        """Report the progress since the last call; ``progress`` lacks the rows of this page."""
        asked, rows = progress.asked, progress.rows + rows_of_page
        self.coordinator.progress(
            requests=asked - self.asked,
            rows=rows - self.rows,
            size=progress.bytes - self.bytes,
        )
        self.asked, self.rows, self.bytes = asked, rows, progress.bytes


@contextmanager
def _translate_resume_errors(job: Job, checkpoints: Checkpoints) -> Iterator[None]:
    """Decide what happens to an attempt that cannot resume an earlier one.

    Types that were inferred from the earlier pages are fixed by their files. If later rows do not
    fit these types, they may fit types that are inferred from all pages together, so reading starts
    again. If the payload does not begin with the rows that were sent, nothing is sent again.

    Raises:
        ResumeRefusedError: the attempt has to start again.
        UnknownOutcomeError: the rows to send have changed, and may not be sent twice.
    """
    try:
        yield
    except ResumeRefusedError:
        if must_not_repeat(job) and not job.extraction.egress.sends_again:
            raise UnknownOutcomeError(
                "the rows to send have changed since an earlier attempt sent part of them; "
                "nothing is sent again",
                "Restore the earlier rows, with new rows only after them, and run with -D "
                "ms.egress.send.again=true: the run resumes where the earlier attempt stopped. "
                "With other rows, the run sends all rows from the first.",
            ) from None
        raise
    except ConversionError as error:
        infers_types = job.extraction.output_schema is None
        if not checkpoints.has_resumed or not infers_types or job.has_input("payload"):
            raise
        raise ResumeRefusedError from error


def refuse_too_few_rows(progress: WalkProgress, least: int) -> None:
    """Refuse a work unit that gave fewer rows than the job asks for.

    Raises:
        SourceContractError: the work unit has fewer rows.
    """
    if progress.rows < least:
        progress.is_dead_end = True
        raise SourceContractError(
            f"the source gave {counted(progress.rows, 'row')}, but ms.work.unit.min.records asks "
            f"for {least}",
            "Check whether the source is late or empty; lower the property if few rows are normal.",
        )


def failure_of(error: Exception, job: Job, clean: Callable[[str], str]) -> Failure:
    """Return the failure of an attempt, without secrets."""
    connector = job.source.connector.qualname
    if ran_out_of_memory(error):
        failure = Failure.of(out_of_memory(job))
    elif isinstance(error, DilError):
        failure = Failure.of(error)
    else:
        what = type(error).__name__
        log.error("unexpected failure in %s or after it: %s", connector, what, exc_info=error)
        failure = Failure.of(plugin_failure(connector, error, clean))
    return replace(failure, error=clean(failure.error), fix=clean(failure.fix))


def _notes(progress: WalkProgress, fallen_back: int = 0) -> tuple[str, ...]:
    notes = list(map(emphasized, progress.notes))
    if progress.warnings:
        notes.append(
            "the source answered with a status that is only a warning; those answers gave no rows"
        )
    if fallen_back:
        notes.append("a derived field of type epoc found no number and became 0")
    notes += left_out_note(tuple(progress.left_out))
    return tuple(notes)


def _clock_notes(attempt: AttemptContext, progress: WalkProgress) -> tuple[str, ...]:
    """Return the note about rows that the source writes for a window after it was read.

    They are lost only if the window decides what is read, and no later run reads it again. A window
    that ends after now by our clock, as for forecasts, says nothing about the source's clock.
    """
    job = attempt.job
    asks_for_window = any(
        parameter.type == "watermark" for parameter in flat_parameters(job.extraction.parameters)
    )
    least_grace_ms, _ = job.planning.grace_range_ms
    is_over_here = attempt.unit.high <= attempt.run.run_now
    is_lost = asks_for_window and is_over_here and not job.reads_again(attempt.unit)
    is_behind = progress.behind_ms > least_grace_ms and not job.has_input("payload")
    return (EMPHASIS + SOURCE_BEHIND,) if is_lost and is_behind else ()
