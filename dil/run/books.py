"""Closed timelabels in a run: which labels are closed, and how a commit closes more."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dil.errors import DilError
from dil.model.books import BOOKS, Books
from dil.model.dataset import Commit, Lease
from dil.model.job import Job
from dil.model.task import TaskReport
from dil.model.timelabels import AfterClose
from dil.observe.progress import counted
from dil.spi.state_store import StateStore

if TYPE_CHECKING:
    from dil.publishing import PublishableResults, StagedResult
    from dil.storage import Filesystem

log = logging.getLogger(__name__)


def kept_books(job: Job, store: StateStore) -> Books | None:
    """Return the closed timelabels of a job; None if the job never closes any."""
    labels = job.planning.timelabel
    if labels is None or not labels.closes or not job.state.enabled:
        return None
    from dil.state.blocks.books import books_of  # few jobs close labels

    return books_of(store.checkpoint(BOOKS))


def books_for_side_table(job: Job, store: StateStore) -> Books | None:
    """Return the closed timelabels if a side table takes their rows, else None."""
    labels = job.planning.timelabel
    if labels is None or labels.after_close is not AfterClose.SIDE_TABLE:
        return None
    return kept_books(job, store)


def staged_with_same_closed_labels(
    job: Job, store: StateStore, staged: Iterable[StagedResult]
) -> tuple[StagedResult, ...]:
    """Return the staged results that were made with the timelabels that are closed now."""
    books = books_for_side_table(job, store)
    judge = "" if books is None else books.digest

    def judged_by(report: TaskReport) -> str:
        return "" if report.closed is UNSET else report.closed.judged_by

    return tuple(each for each in staged if judged_by(each.report) == judge)


def with_books(
    job: Job, store: StateStore, shaped: PublishableResults, commit: Commit, grace_ms: int
) -> tuple[Commit, Mapping[str, int]]:
    """Add the closing of timelabels to a commit; return the commit, and the rejected rows by label.

    ``grace_ms`` is how far back the next run reads what was read.
    """
    books = kept_books(job, store)
    if books is None:
        return commit, {}
    from dil import publishing  # planning does without it

    good = (each.report for each in shaped.finished if each.report.failure is None)
    own = {file.path for report in good for file in report.files}
    own.update(shared.file.path for shared in shaped.shared)
    kept = publishing.keep_books(job, books, commit, own, grace_ms=grace_ms)
    return kept.commit, kept.rejected


def rejected_notes(rows: Mapping[str, int]) -> tuple[str, ...]:
    """Return a note about rejected rows for closed labels; empty without such rows."""
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
    """Return a note about the rows for closed labels in the side table; empty without such rows."""
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


def settle_registry(job: Job, store: StateStore, lease: Lease, files: Filesystem) -> None:
    """Record closed and reopened labels in the database's registry of timelabels (rule T21).

    The chain decides which labels are closed, and the registry follows. If a crash or an outage of
    the database leaves the registry behind, the next run updates it.
    """
    from dil import publishing

    if not publishing.keeps_registry(job):
        return
    members: Mapping[str, Any] = store.checkpoint(BOOKS)
    marks = [publishing.LabelMark(*each) for each in members.get("marks", ())]
    if not marks:
        return
    try:
        publishing.mark_labels(job.publishing, files, marks)
        store.change_checkpoint(lease, BOOKS, {"marks": []})
    except DilError as error:
        log.warning(
            "the registry of timelabels does not yet show what is closed, the next run does it: %s",
            error.message,
        )
