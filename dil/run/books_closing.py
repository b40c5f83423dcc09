"""Closed timelabels in a run: how a commit closes more of them, and the notes about their rows."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET

from dil.errors import DilError
from dil.model.books import BOOKS, LabelMark
from dil.model.dataset import Commit, Lease
from dil.model.job import Job
from dil.model.task import TaskReport
from dil.observe.progress import counted
from dil.publishing.books import CommitWithBooks, keep_books, keeps_registry, mark_labels
from dil.publishing.publisher import Publisher
from dil.publishing.results import PublishableResults
from dil.run.books import kept_books
from dil.spi.state_store import StateStore

log = logging.getLogger(__name__)


def with_books(
    job: Job,
    store: StateStore,
    shaped: PublishableResults,
    commit: Commit,
    grace_ms: int,
) -> CommitWithBooks:
    """Add the closing of timelabels to a commit, and leave rejected rows out.

    ``grace_ms`` is how far back the next run reads again.
    """
    books = kept_books(job, store)
    if books is None:
        return CommitWithBooks(commit, {})
    good = [each for each in shaped.finished if each.report.failure is None]
    own = {file.path for each in good for file in each.report.files}
    own.update(shared.file.path for shared in shaped.shared)
    units = [each.work_unit for each in good]
    return keep_books(job, books, commit, own, units, grace_ms=grace_ms)


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


def settle_registry(publisher: Publisher, lease: Lease) -> None:
    """Record closed and reopened labels in the database's registry of timelabels (rule T21).

    The chain decides which labels are closed, and the registry follows. If a crash or an outage of
    the database leaves the registry behind, the next run updates it.
    """
    job, store = publisher.job, publisher.store
    if not keeps_registry(job):
        return
    members: Mapping[str, Any] = store.checkpoint(BOOKS)
    marks = [LabelMark(*each) for each in members.get("marks", ())]
    if not marks:
        return
    try:
        mark_labels(job.publishing, publisher.filesystem, marks)
        store.change_checkpoint(lease, BOOKS, {"marks": []})
    except DilError as error:
        log.warning(
            "the registry of timelabels does not yet show what is closed, the next run does it: %s",
            error.message,
        )
