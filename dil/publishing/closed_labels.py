"""Decides which timelabels a commit closes, and keeps their registry (rules T21, T31, T32)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dil.errors import DilError
from dil.model.closed_labels import (
    CLOSED_LABELS,
    ClosedLabelChanges,
    ClosedLabels,
    LabelMark,
    LabelWindow,
)
from dil.model.dataset import Commit, Lease, Move, PublishedFile
from dil.model.destination import TableKind
from dil.model.event_time import Strategy
from dil.model.job import Job, PublishingSpec
from dil.model.timelabels import AfterClose, LabelClosing
from dil.model.work_unit import WorkUnit
from dil.publishing.results import PublishableResults
from dil.storage import Filesystem
from dil.text.windows import Windows, label_start, windows_of

if TYPE_CHECKING:
    from dil.publishing.publisher import Publisher  # tasks, which ask for windows, do without

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommitWithClosedLabels:
    """A commit that changes which labels are closed; ``rejected`` counts rejected rows by label."""

    commit: Commit
    rejected: dict[str, int]


def with_closed_labels(
    job: Job,
    closed_labels: ClosedLabels | None,
    commit: Commit,
    shaped: PublishableResults,
    *,
    grace_ms: int,
) -> CommitWithClosedLabels:
    """Return a commit with its changes to the closed labels, and without the rejected rows.

    If the job keeps rows of closed labels beside the dataset, tasks have already taken these rows
    out of the files to publish, and the published files of these labels stay. Rows that were sent
    cannot be read again. So if a label was closed after sent rows were staged for it, the label is
    reopened.

    Args:
        job: The job.
        closed_labels: The closed labels before the commit, None if the job never closes any.
        commit: The commit to publish.
        shaped: The results that the commit publishes.
        grace_ms: The next run begins to read this many milliseconds before its watermark.
    """
    spec = job.planning.timelabel
    if closed_labels is None or spec is None:
        return CommitWithClosedLabels(commit, {})
    good = [each for each in shaped.finished if each.report.failure is None]
    # Other files of the commit hold rows that are already published.
    own = {file.path for each in good for file in each.report.files}
    own.update(shared.file.path for shared in shaped.shared)
    windows = windows_of(spec)
    read = {each.signature for each in commit.run.outcomes if each.succeeded}
    if commit.act is not None:
        read |= {each.signature for each in commit.act.changed}
    touched = sorted(
        {
            *(move.target.timelabel or "" for move in commit.moves if move.source in own),
            *(file.timelabel or "" for file in commit.removes if read & file.signatures),
        }
        - {""}
    )
    named = [window_of(label, windows) for label in touched]
    read_units = [each.work_unit for each in good if each.work_unit.signature in read]
    named += [each for each in _read_again(closed_labels, read_units) if each.label not in touched]
    closed = [each for each in named if closed_labels.is_closed(each)]
    rejected: dict[str, int] = {}
    if closed and spec.after_close is not AfterClose.REOPEN:
        labels = {each.label for each in closed}
        if spec.after_close is AfterClose.SIDE_TABLE and commit.act is None:
            labels -= {move.target.timelabel for move in commit.moves if _is_read(move, own, read)}
        commit, rejected = _without(commit, labels, own, read)
        closed = [each for each in closed if each.label not in labels]
        named = [each for each in named if each.label not in labels]
    has_files = bool(commit.moves or commit.removes)
    changes = ClosedLabelChanges(
        reopens=tuple(closed) if has_files else (),
        closes=tuple(named),
        sweeps=spec if spec.closing is LabelClosing.AUTO and commit.act is None else None,
        wait_ms=max(0, grace_ms - job.planning.abstinent_ms),
        again=spec.closing is LabelClosing.MANUAL,
        by_event_time=waits_for_events(job),
        marks=keeps_registry(job),
    )
    return CommitWithClosedLabels(replace(commit, closed_labels=changes), rejected)


def waits_for_events(job: Job) -> bool:
    """Return whether an event-time watermark decides when a label has all its rows."""
    return job.events is not None and job.events.strategy is not Strategy.NONE


def keeps_registry(job: Job) -> bool:
    """Return whether a database has a registry of the job's labels (rule T21)."""
    warehouse = job.publishing.warehouse
    return warehouse is not None and warehouse.kind is TableKind.TIMESERIES


def settle_registry(publisher: Publisher, lease: Lease) -> None:
    """Record closed and reopened labels in the database's registry of timelabels (rule T21).

    The chain decides which labels are closed, and the registry follows. If a crash or an outage of
    the database leaves the registry behind, the next run updates it.
    """
    job, store = publisher.job, publisher.store
    if not keeps_registry(job):
        return
    members: Mapping[str, Any] = store.checkpoint(CLOSED_LABELS)
    marks = [LabelMark(*each) for each in members.get("marks", ())]
    if not marks:
        return
    try:
        mark_labels(job.publishing, publisher.filesystem, marks)
        store.change_checkpoint(lease, CLOSED_LABELS, {"marks": []})
    except DilError as error:
        log.warning(
            "the registry of timelabels does not yet show what is closed, the next run does it: %s",
            error.message,
        )


def mark_labels(spec: PublishingSpec, filesystem: Filesystem, marks: Sequence[LabelMark]) -> None:
    """Write into the registry which labels are closed or reopened, in this order; repeatable.

    Raises:
        WriteError: the database refused to write.
    """
    from dil.publishing.timeseries.access import open_access  # Few runs close labels of a database.

    open_access(spec, filesystem).mark(marks)


def window_of(label: str, windows: Windows) -> LabelWindow:
    """Return the time window of a label.

    Raises:
        ValueError: the text is not a timelabel.
    """
    low = label_start(label)
    return LabelWindow(low, windows.at(low).high, label)


def _read_again(closed_labels: ClosedLabels, units: Sequence[WorkUnit]) -> Iterator[LabelWindow]:
    """Yield the reopened labels whose time work units have read, also if it has no rows.

    A work unit that goes on where an earlier reading ended has not read the labels before, and the
    label in which it begins only in part.
    """
    for label, end in closed_labels.reopened.items():
        low = label_start(label)
        if any(
            each.low < end and each.high > low and each.low <= max(low, each.partition.low)
            for each in units
        ):
            yield LabelWindow(low, end, label)


def _is_read(move: Move, own: Collection[str], read: Collection[str]) -> bool:
    """Return whether a file has rows that this run read, not only rows of an earlier file."""
    of = move.target.signatures
    return move.source in own and (not of or not of.isdisjoint(read))


def _without(
    commit: Commit, labels: Collection[str], own: Collection[str], read: Collection[str]
) -> tuple[Commit, dict[str, int]]:
    """Return a commit without changes to these labels, and the number of rows left out by label."""

    def stays(move: Move) -> bool:
        return not (move.source in own and move.target.timelabel in labels)

    def goes(file: PublishedFile) -> bool:
        return not (file.timelabel in labels and file.signatures & set(read))

    rejected: dict[str, int] = {}
    for move in commit.moves:
        if not stays(move) and _is_read(move, own, read):
            label = move.target.timelabel or ""
            rejected[label] = rejected.get(label, 0) + move.target.rows
    rest = replace(
        commit,
        moves=tuple(filter(stays, commit.moves)),
        removes=tuple(filter(goes, commit.removes)),
    )
    return rest, dict(sorted(rejected.items()))
