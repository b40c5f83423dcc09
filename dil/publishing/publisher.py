"""Staged files become the dataset: record the intent, carry it out, commit (rule C26).

Before the intent nothing is visible and a crash costs nothing. After it, the publish is only ever
finished, by this run or by the next: each step, done again, changes nothing.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import compress

from dil.errors import CommitUnknownError, WriteError
from dil.model.dataset import Commit, Intent, Lease, Move, PublishedFile
from dil.model.destination import TableFormat
from dil.model.job import PublishingSpec, PublishMode
from dil.model.json import JsonObject
from dil.publishing import dumps, layout, own_folders, start_marker
from dil.publishing.destination import described, destination_for, place
from dil.publishing.lost_state import refuse_older_state
from dil.spi.destination import Destination
from dil.spi.state_store import StateStore
from dil.storage import FileInfo, Filesystem
from dil.storage.side_by_side import call_each

log = logging.getLogger(__name__)


def publish(
    store: StateStore,
    lease: Lease,
    commit: Commit,
    spec: PublishingSpec,
    filesystem: Filesystem,
    destination: Destination | None = None,
) -> JsonObject | None:
    """Make a commit of an operator visible and remember it; return the new block, if one was due.

    Raises:
        StateError: the state is older than the dataset.
        DilError: as ``make_visible`` and ``append_block`` do.
    """
    refuse_older_state(lease.job, store, spec, filesystem, destination)
    make_visible(store, lease, commit, spec, filesystem, destination)
    sequence = append_block(store, lease, commit, spec, filesystem)
    return None if sequence is None else store.head()


def make_visible(
    store: StateStore,
    lease: Lease,
    commit: Commit,
    spec: PublishingSpec,
    filesystem: Filesystem,
    destination: Destination | None = None,
) -> None:
    """Record a commit's intent, then put its files where readers find them.

    A commit that moves and removes nothing needs neither. ``destination`` is that of ``spec``,
    if the caller has it: it may have cached facts about a table.

    Raises:
        LeaseLostError: another run took over before anything became visible.
        WriteError: a file could not be moved, and the next run finishes the rest; or one does not
            fit its destination, or its path is too long, and nothing was decided.
        CommitConflictError: another program changed what is published; nothing was decided.
        StateError: the state is older than the dataset, or rows that another program marked as
            deleted would be back; nothing was decided.
    """
    if not (commit.all_moves or commit.removes or commit.quarantine_removes):
        return
    destination = destination or destination_for(spec, filesystem)
    _refuse_unfit(commit, spec, lease.job, filesystem, destination)
    sequence = destination.next_sequence()
    folder = layout.dataset_dir(spec)
    intent = Intent(commit, lease.token, folder, sequence, described(spec, filesystem))
    if commit.act is not None or commit.run.watermarks:
        # A run with another copy of the state may have published since this one began.
        refuse_older_state(lease.job, store, spec, filesystem, destination)
    store.record_intent(lease, intent)
    carry_out(intent, spec, filesystem, destination)


def refuse_unpublishable(
    job: str, store: StateStore, commit: Commit, spec: PublishingSpec, filesystem: Filesystem
) -> None:
    """Raise what ``make_visible`` raises while nothing is decided; for previews.

    Raises:
        WriteError: a file does not fit, or is not the job's to touch.
        CommitConflictError: another program changed what is published.
        StateError: the state is older than the dataset, or rows that another program marked as
            deleted would be back.
    """
    destination = destination_for(spec, filesystem)
    refuse_older_state(job, store, spec, filesystem, destination)
    if commit.all_moves or commit.removes or commit.quarantine_removes:
        _refuse_unfit(commit, spec, job, filesystem, destination)


def _refuse_unfit(
    commit: Commit,
    spec: PublishingSpec,
    job: str,
    filesystem: Filesystem,
    destination: Destination,
) -> None:
    destination.require_fit(commit)
    if spec.keeps_files:
        _refuse_unfit_names(commit, filesystem)
    own_folders.refuse_outside_files(commit, spec, job, filesystem)


def _refuse_unfit_names(commit: Commit, filesystem: Filesystem) -> None:
    """Refuse files that could not be moved to their names, while nothing is decided.

    Raises:
        WriteError: a path is too long, or a folder of it is a file.
    """
    paths = [filesystem.path_of(move.target.uri) for move in commit.all_moves]
    for path in paths:
        filesystem.check_path(path)

    def is_file(folder: str) -> bool:
        return filesystem.exists(folder) and not filesystem.is_folder(folder)

    folders = sorted({path.rpartition("/")[0] for path in paths})
    for folder in compress(folders, call_each(filesystem, is_file, folders)):
        raise WriteError(
            f"{folder} is a file, so no file can be below it",
            "Move it away, then run again: nothing was published.",
        )


def append_block(
    store: StateStore, lease: Lease, commit: Commit, spec: PublishingSpec, filesystem: Filesystem
) -> int | None:
    """Remember a commit that is visible; return its block's sequence, None when none was due.

    Raises:
        LeaseLostError: another run took over; the next one finishes what was begun.
        CommitConflictError: the head of the chain moved, and the plan does not hold any more.
    """
    sequence = store.commit(lease, commit)
    start_marker.forget(filesystem, layout.sending_dir(spec, lease.job), commit)
    return sequence


def finish_pending(
    store: StateStore, lease: Lease, spec: PublishingSpec, filesystem: Filesystem
) -> Commit | None:
    """Finish what an earlier run decided; return its commit, None when nothing was pending.

    Raises:
        CommitUnknownError: the job publishes elsewhere now, or files are gone; nothing was done.
    """
    intent = store.pending_intent()
    if intent is None:
        return None
    log.info("finishing the publish of run %s", intent.commit.run_id)
    refuse_other_destination(intent, spec, filesystem)
    own_folders.refuse_outside_intent(intent, spec, lease.job, filesystem)
    refuse_given_up(intent, destination_for(spec, filesystem))
    _refuse_lost_files(intent, spec, filesystem)
    carry_out(intent, spec, filesystem)
    append_block(store, lease, intent.commit, spec, filesystem)
    return intent.commit


def refuse_given_up(intent: Intent, destination: Destination) -> None:
    """Refuse to finish a publish that was being given up: it can land no more.

    Raises:
        CommitUnknownError: it was; nothing was touched.
    """
    has_files = bool(intent.commit.moves or intent.commit.removes)
    if has_files and destination.is_given_up(intent):
        raise CommitUnknownError(
            f"the publish of run {intent.commit.run_id} was being given up, and that was cut off",
            "Give it up to the end: dil runs abandon JOB.conf --yes",
        )


def lost_moves(intent: Intent, spec: PublishingSpec, filesystem: Filesystem) -> tuple[Move, ...]:
    """Return the moves whose file is neither staged nor published any more.

    Raises:
        CommitUnknownError: the job publishes elsewhere now, so the outcome is unknown.
    """
    refuse_other_destination(intent, spec, filesystem)
    quarantine = dumps.lost_moves(intent.commit.quarantine, filesystem)
    return (*destination_for(spec, filesystem).lost(intent), *quarantine)


def refuse_other_destination(intent: Intent, spec: PublishingSpec, filesystem: Filesystem) -> None:
    """Refuse to finish under a job that publishes elsewhere now.

    Raises:
        CommitUnknownError: it does; nothing was touched.
    """
    now = described(spec, filesystem)
    if intent.destination not in ("", now):
        raise CommitUnknownError(
            f"run {intent.commit.run_id} began to publish to {intent.destination}, and the job now"
            f" publishes to {now}",
            "Nothing was changed. Set back what differs and run again: the publish is finished. "
            "Then change it.",
        )


def _refuse_lost_files(intent: Intent, spec: PublishingSpec, filesystem: Filesystem) -> None:
    """Stop when a file that was to be published is neither staged nor published any more."""
    for move in lost_moves(intent, spec, filesystem):
        raise CommitUnknownError(
            f"run {intent.commit.run_id} began to publish, and its file {move.source} is gone; "
            f"it is not at {move.target.uri} either",
            "Nothing was deleted and no watermark moved. Restore the file from a copy of the "
            "staging folder, then run again: the publish is finished first. Or let it be "
            "finished without it: dil runs finish JOB.conf --without-lost",
        )


def carry_out(
    intent: Intent,
    spec: PublishingSpec,
    filesystem: Filesystem,
    destination: Destination | None = None,
) -> None:
    """Publish what an intent says, rows that were put aside first; each step may be done again.

    ``destination`` as in ``make_visible``.
    """
    place(intent.commit.quarantine, spec, filesystem)
    (destination or destination_for(spec, filesystem)).carry_out(intent)
    removed = map(filesystem.path_of, intent.commit.quarantine_removes)
    call_each(filesystem, filesystem.delete_file, removed)


def quarantined_files(spec: PublishingSpec, filesystem: Filesystem) -> tuple[str, ...]:
    """Return the URIs of the rows put aside so far, where a run may take such files away.

    Those that broke the contract and those that the receiver refused; late rows have a way of
    their own.
    """
    if spec.mode is PublishMode.APPEND:
        return ()
    folders = (layout.quarantine_dir(spec), layout.refused_dir(spec))
    return tuple(
        filesystem.uri(file.path)
        for folder in folders
        for file in _without_links(filesystem.files(folder), folder, filesystem)
    )


def untracked_files(
    spec: PublishingSpec, live: Sequence[PublishedFile], filesystem: Filesystem
) -> tuple[PublishedFile, ...]:
    """Return the visible files of the dataset that no manifest lists.

    A replace removes them (rule U16). A window replace removes those whose names are of
    its own work units, because a manifest may have been lost. Other datasets below this one are
    left alone, and so is what links lead to. A table knows all its live files, and keeps others for
    readers of its earlier versions; a window replace is given the live ones without a work unit.
    """
    if spec.mode in (PublishMode.APPEND, PublishMode.MERGE) or spec.destination is not None:
        return ()
    if spec.table.format is not TableFormat.FILES:
        is_searched = spec.mode is PublishMode.WINDOW_REPLACE
        return tuple(file for file in live if not file.unit_rows) if is_searched else ()
    base = layout.dataset_dir(spec)
    known = {file.uri for file in live}
    found = _without_links(filesystem.files(base), base, filesystem)
    nested = {
        root
        for file in found
        if (root := file.path.partition(f"/{layout.META}/")[0]) not in (base, file.path)
    }
    return tuple(
        PublishedFile(filesystem.uri(file.path), "", 0, file.size, "", "")
        for file in found
        if not is_hidden(file.path[len(base) :])
        and not any(file.path.startswith(f"{root}/") for root in nested)
        and filesystem.uri(file.path) not in known
    )


def _without_links(files: Iterable[FileInfo], base: str, filesystem: Filesystem) -> list[FileInfo]:
    """Return the files whose folders are where their paths say, seen from a folder."""
    root = filesystem.real_path(base)
    by_folder: dict[str, list[FileInfo]] = defaultdict(list)
    for file in files:
        by_folder[file.path.rpartition("/")[0]].append(file)
    return [
        file
        for folder, inside in by_folder.items()
        if filesystem.real_path(folder) == f"{root}{folder[len(base) :]}"
        for file in inside
    ]


def sweep(filesystem: Filesystem, staging_dir: str) -> bool:
    """Delete a run's staging folder; say whether it is gone.

    A task of a crashed run may still write there for a moment; then the next run sweeps.
    """
    try:
        filesystem.delete_tree(staging_dir)
    except WriteError as error:
        log.warning("cannot sweep %s now: %s", staging_dir, error.message)
        return False
    return True


def is_hidden(relative: str) -> bool:
    """Return whether a path in the dataset's folder belongs to no published data."""
    return any(part.startswith(("_", ".")) for part in relative.split("/") if part)
