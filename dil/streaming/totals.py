"""Sums the reports of a stream's micro-batches into one report of bounded size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import TypeVar

from dil.errors import DilError
from dil.model.report import (
    MergedRows,
    ReplacedRows,
    ReportedFailure,
    RunReport,
    RunStatus,
    UnitCounts,
)
from dil.model.stream import Look
from dil.observe.drift import aside_of_both, drift_of_both
from dil.observe.progress import counted
from dil.observe.run_report import NO_ROWS

_FILES = 1_000
_COLUMNS = 1_000
_FAILURES = 100
_Counts = TypeVar("_Counts", MergedRows, ReplacedRows)


class Totals:
    """Sums reports of micro-batches; ``base`` is the report of a stream without micro-batches."""

    def __init__(self, base: RunReport) -> None:
        self._sum = base
        self._batches = 0
        self._left_out = 0
        self._has_failures = False
        self._notes: dict[str, None] = {}
        self._why_nothing = ""

    def add(self, batch: RunReport) -> None:
        """Add the report of a micro-batch."""
        before = self._sum
        self._batches += 1
        self._has_failures |= bool(batch.units.failed)
        files = (*before.files, *batch.files)
        self._left_out += max(0, len(files) - _FILES)
        self._note(batch.notes)
        events = batch.events or before.events
        if before.events is not None and batch.events is not None:
            # The event time after this micro-batch, with the counts of all of them so far.
            events = replace(batch.events, counts=before.events.counts.plus(batch.events.counts))
        aside = aside_of_both(before.aside, batch.aside)
        self._sum = replace(
            before,
            units=UnitCounts(
                *(
                    getattr(before.units, each.name) + getattr(batch.units, each.name)
                    for each in fields(UnitCounts)
                )
            ),
            rows=before.rows + batch.rows,
            bytes=before.bytes + batch.bytes,
            files=files[:_FILES],
            failures=_kept((*before.failures, *batch.failures)),
            requests=before.requests + batch.requests,
            rows_read=before.rows_read + batch.rows_read,
            rows_dropped=before.rows_dropped + batch.rows_dropped,
            rows_beside=before.rows_beside + batch.rows_beside,
            retries=before.retries + batch.retries,
            peak_rss_bytes=max(before.peak_rss_bytes, batch.peak_rss_bytes),
            aside=replace(
                aside, reasons=aside.reasons[:_COLUMNS], discarded=aside.discarded[:_COLUMNS]
            ),
            drift=drift_of_both(before, batch)[:_COLUMNS],
            merged=_sum(before.merged, batch.merged),
            replaced=_sum(before.replaced, batch.replaced),
            events=events,
            batch=batch.batch or before.batch,
        )

    def add_look(self, look: Look) -> None:
        """Add the earlier runs that ``look`` finished, and the reason why nothing is due."""
        self._why_nothing = look.why_nothing
        recovered = dict.fromkeys((*self._sum.recovered, *look.recovered))
        self._sum = replace(self._sum, recovered=tuple(recovered)[-_FAILURES:])
        self._note(look.notes)

    def _note(self, notes: Iterable[str]) -> None:
        for note in notes:
            if len(self._notes) < _FAILURES:
                self._notes.setdefault(note)

    def add_failure(self, error: DilError) -> None:
        """Add an error that kept a micro-batch from beginning."""
        failure = ReportedFailure(None, error.code, error.message, error.fix)
        self._sum = replace(self._sum, failures=_kept((*self._sum.failures, failure)))

    def report(
        self,
        run_id: str,
        seconds: float,
        *notes: str,
        failed: bool = False,
        was_stopped: bool = False,
    ) -> RunReport:
        """Return the report of the stream; a request to stop is no failure."""
        status = RunStatus.SUCCESS if self._sum.units.planned else RunStatus.NOTHING_DUE
        if failed:
            status = RunStatus.FAILED
        elif self._has_failures and not was_stopped:
            status = RunStatus.PARTIAL
        more = (f"and {counted(self._left_out, 'more file')}",) if self._left_out else ()
        first = counted(self._batches, "micro-batch") if self._batches else self._why_nothing
        # One micro-batch without rows says nothing about the others.
        has_rows = self._sum.rows or self._sum.rows_beside
        own = [note for note in self._notes if not (has_rows and note.startswith(NO_ROWS))]
        return replace(
            self._sum,
            run_id=run_id,
            status=status,
            seconds=round(seconds, 3),
            notes=(*([first] if first else ()), *notes, *more, *own),
        )


def _sum(first: _Counts | None, second: _Counts | None) -> _Counts | None:
    if first is None or second is None:
        return second if first is None else first
    return first.plus(second)


def _kept(failures: tuple[ReportedFailure, ...]) -> tuple[ReportedFailure, ...]:
    """Return the newest failures: the last failure of each work unit."""
    newest = {each.signature or each.error: each for each in failures}
    return tuple(newest.values())[-_FAILURES:]
