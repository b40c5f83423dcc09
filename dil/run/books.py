"""Closed timelabels in a run: which labels are closed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import UNSET

from dil.model.books import BOOKS, Books
from dil.model.job import Job
from dil.model.task import TaskReport
from dil.model.timelabels import AfterClose
from dil.spi.state_store import StateStore

if TYPE_CHECKING:
    from dil.publishing.staged import StagedResult  # planning does without that package


def kept_books(job: Job, store: StateStore) -> Books | None:
    """Return the closed timelabels of a job; None if the job never closes any."""
    labels = job.planning.timelabel
    if labels is None or not labels.closes or not job.state.enabled:
        return None
    return Books.of(store.checkpoint(BOOKS))


def books_for_side_table(job: Job, store: StateStore) -> Books | None:
    """Return the closed timelabels if a side table takes their rows, else None."""
    labels = job.planning.timelabel
    if labels is None or labels.after_close is not AfterClose.SIDE_TABLE:
        return None
    return kept_books(job, store)


def staged_with_same_closed_labels(
    job: Job, store: StateStore, staged: Iterable[StagedResult]
) -> tuple[StagedResult, ...]:
    """Return the staged results whose attempts saw the same timelabels closed as are closed now."""
    books = books_for_side_table(job, store)
    judge = "" if books is None else books.digest

    def judged_by(report: TaskReport) -> str:
        return "" if report.closed is UNSET else report.closed.judged_by

    return tuple(each for each in staged if judged_by(each.report) == judge)
