"""Runs a work unit until an attempt succeeds, no retry can help, or no retry is left."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import UNSET

from dil.errors import PluginFailureError, SourceContractError
from dil.model.task import Counters, Failure, RunContext, TaskReport
from dil.model.work_unit import WorkUnit
from dil.observe.logs import bind
from dil.secrets.masking import masking
from dil.task.attempt import attempts_of, run_attempt
from dil.task.checkpoints import ResumeFrom
from dil.task.context import AttemptContext, Clocks, TaskContext
from dil.task.delivery import sent_before
from dil.text.zones import iso

if TYPE_CHECKING:
    import pyarrow as pa

# Errors that the same source and code cause again; a server may recover meanwhile.
_REPEATED_ALIKE = {SourceContractError.code, PluginFailureError.code}

log = logging.getLogger(__name__)


def run_work_unit(run: RunContext, unit: WorkUnit, clocks: Clocks | None = None) -> TaskReport:
    """Run a work unit that has a task for itself; see ``run_in_task``."""
    with closing(TaskContext(run, clocks)) as task:
        return run_in_task(task, unit)


def run_in_task(task: TaskContext, unit: WorkUnit) -> TaskReport:
    """Run a work unit with its retries; return its staged files or its last failure.

    A failed attempt usually leaves nothing behind. If the job keeps progress inside work units, the
    attempt leaves its complete pages, and the next attempt resumes after them.
    """
    run, attempt = task.run, attempts_of(task, unit)
    with masking(task.clean):
        return sent_before(run, unit) or repeat_attempts(run, unit, attempt, task.clocks)


def run_attempt_over(
    rows: Iterator[pa.RecordBatch], run: RunContext, unit: WorkUnit, number: int
) -> TaskReport:
    """Run one attempt over rows that Spark reads; each attempt needs a new reading."""
    with _logged(run, unit, number), closing(TaskContext(run)) as task, masking(task.clean):
        context = AttemptContext.of(task, unit, number, rows)
        return run_attempt(context, ResumeFrom.NOTHING)


def repeat_attempts(
    run: RunContext,
    unit: WorkUnit,
    attempt: Callable[[int], TaskReport],
    clocks: Clocks,
) -> TaskReport:
    """Call ``attempt`` with 1, 2 and so on, until success, a lasting failure or the last retry.

    Returns:
        The report of the last attempt, with the counters of all attempts.
    """
    # The plan spreads the starts of work units (rule P38).
    wait_s = max(0.0, (unit.not_before - clocks.now_ms()) / 1000)
    if wait_s:
        clocks.sleep(wait_s)
    spent = Counters(seconds_waited=wait_s)
    report = TaskReport(unit.signature, unit.low, unit.high, 0)
    before: Failure | None = None
    for number in range(1, run.job.running.max_retries + 2):
        with _logged(run, unit, number):
            report = attempt(number)
            spent = _add(spent, report.counters)
            report = replace(report, counters=spent)
            if report.failure is None:
                return report
            # The log line of a micro-batch says why it failed.
            level = logging.WARNING if run.job.stream is None else logging.INFO
            log.log(level, "attempt %d failed: %s", number, report.failure.error)
            # After too few rows, a retry is worth the wait: more may come.
            is_short = report.counters.rows_read < run.job.extraction.min_records
            # If an attempt failed like the attempt before, waiting does not help.
            is_alike = (
                before is not None
                and report.failure.code in _REPEATED_ALIKE
                and (report.failure.code, report.failure.error) == (before.code, before.error)
            )
            if not report.failure.retryable or (is_alike and not is_short):
                return report
            before = report.failure
        if number <= run.job.running.max_retries:
            waited = _wait_for_retry(run, number, clocks)
            spent = replace(spent, seconds_waited=spent.seconds_waited + waited)
    return report


def _logged(run: RunContext, unit: WorkUnit, attempt: int) -> AbstractContextManager[None]:
    """Add the work unit and the number of the attempt to log lines."""
    begins = iso(unit.partition.low) if run.job.planning.is_dated else None
    return bind(
        job=run.job.name, run_id=run.run_id, unit=unit.signature, begins=begins, attempt=attempt
    )


def _wait_for_retry(run: RunContext, retry: int, clocks: Clocks) -> float:
    """Wait before a retry, counted from 1; return the seconds waited.

    Retry k waits ``(k - 1) x task.retry.intervalinsec`` or, if that is unset, a jittered 1 to 60 s
    (rule P36).
    """
    interval = run.job.running.retry_interval_s
    if interval is None:
        seconds = min(60.0, 2.0 ** (retry - 1)) * (0.5 + clocks.chance() / 2)
        seconds = max(1.0, seconds)
    else:
        seconds = float((retry - 1) * interval)
    log.info("retry %d in %.0f s", retry, seconds)
    clocks.sleep(seconds)
    return seconds


def _add(before: Counters, last: Counters) -> Counters:
    """Return the counters of all attempts: summed costs, and the rows of the last attempt."""
    return replace(
        last,
        requests=before.requests + last.requests,
        resent=before.requests_resent + last.requests_resent or UNSET,
        pages=before.pages + last.pages,
        bytes_read=before.bytes_read + last.bytes_read,
        warnings=before.warnings + last.warnings,
        seconds=before.seconds + last.seconds,
        seconds_waited=before.seconds_waited + last.seconds_waited,
    )
