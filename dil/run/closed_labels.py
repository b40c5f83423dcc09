"""Closed timelabels in a run: which ones they are, and notes about their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import UNSET

from dil.model.closed_labels import CLOSED_LABELS, ClosedLabels
from dil.model.job import Job
from dil.model.task import TaskReport
from dil.model.timelabels import AfterClose
from dil.observe.progress import counted
from dil.spi.state_store import StateStore

if TYPE_CHECKING:
    from dil.publishing.staged import StagedResult  # planning does without that package


def load_closed_labels(job: Job, store: StateStore) -> ClosedLabels | None:
    """Return the closed timelabels of a job; None if the job never closes any."""
    labels = job.planning.timelabel
    if labels is None or not labels.closes or not job.state.enabled:
        return None
    return ClosedLabels.of(store.checkpoint(CLOSED_LABELS))


def closed_labels_for_side_table(job: Job, store: StateStore) -> ClosedLabels | None:
    """Return the closed timelabels if a side table takes their rows, else None."""
    labels = job.planning.timelabel
    if labels is None or labels.after_close is not AfterClose.SIDE_TABLE:
        return None
    return load_closed_labels(job, store)


def staged_with_same_closed_labels(
    job: Job, store: StateStore, staged: Iterable[StagedResult]
) -> tuple[StagedResult, ...]:
    """Return the staged results whose attempts saw the same timelabels closed as are closed now."""
    closed = closed_labels_for_side_table(job, store)
    judge = "" if closed is None else closed.digest

    def judged_by(report: TaskReport) -> str:
        return "" if report.closed is UNSET else report.closed.judged_by

    return tuple(each for each in staged if judged_by(each.report) == judge)


def rejected_notes(rows: Mapping[str, int]) -> tuple[str, ...]:
    """Return a note about rejected rows for closed labels; empty if there are no such rows."""
    if not rows:
        return ()
    labels = list(rows)
    return (
        f"REJECTED {counted(sum(rows.values()), 'row')} for {counted(len(rows), 'timelabel')} that"
        f" are closed, {labels[0]} the first and {labels[-1]} the last"
        " (ms.late.after.close=reject): they are not published. `dil timelabels reopen JOB.conf"
        f" {labels[0]}` lets the next run that reads them publish them",
    )


def side_table_notes(reports: Iterable[TaskReport]) -> tuple[str, ...]:
    """Return a note about rows for closed labels that are in the side table; empty if none are."""
    rows: Counter[str] = Counter()
    for report in reports:
        if report.closed is not UNSET:
            rows.update(dict(report.closed.rows))
    if not rows:
        return ()
    labels = sorted(rows)
    return (
        f"CLOSED: {counted(rows.total(), 'row')} for {counted(len(labels), 'timelabel')} that are"
        f" closed, {labels[0]} the first and {labels[-1]} the last: they are beside the dataset"
        " (ms.late.after.close=side_table)",
    )
