"""Makes staged files visible: record the intent, carry it out, commit (rule C26).

Before the intent is recorded, nothing is visible and a crash has no effect. After that, this run or
the next one can only finish the publish: repeating a step changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import compress

from dil.errors import CommitUnknownError, WriteError
from dil.model.dataset import Commit, Intent, Lease, Move, PublishedFile
from dil.model.destination import TableFormat
from dil.model.job import Job, PublishingSpec, PublishMode
from dil.model.json import JsonObject
from dil.publishing import dumps, layout, own_folders, set_aside, start_marker
from dil.publishing.destination import (
    connected,
    destination_for,
    destination_text,
    place_files,
)
from dil.publishing.lost_state import refuse_older_state
from dil.spi.destination import Destination
from dil.spi.state_store import StateStore
from dil.storage import Filesystem, filesystem_for
from dil.storage.side_by_side import call_each

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Publisher:
    """Publishes the commits of a job: makes their files visible, and records them in the state.

    A method that changes the state takes the job's lease; previews have none.

    Attributes:
        job: The job.
        store: The job's state.
        filesystem: Where rows are staged, and published as files.
    """

    job: Job
    store: StateStore
    filesystem: Filesystem

    @classmethod
    def of(cls, job: Job, store: StateStore) -> Publisher:
        """Return the publisher of a job to the filesystem that its properties name."""
        return cls(job, store, filesystem_for(job.publishing.final_dir))

    @cached_property
    def destination(self) -> Destination:
        """The destination of the job, made at its first use, because many commands need none."""
        return destination_for(self.job.publishing, self.filesystem)

    def publish(self, lease: Lease, commit: Commit) -> JsonObject | None:
        """Make an operator's commit visible and record it; return the new block, None if no block.

        Raises:
            StateError: the state is older than the dataset.
            DilError: see ``make_visible`` and ``append_block``.
        """
        self._refuse_older_state()
        self.make_visible(lease, commit)
        sequence = self.append_block(lease, commit)
        return None if sequence is None else self.store.head()

    def make_visible(self, lease: Lease, commit: Commit) -> None:
        """Record a commit's intent, then move its files to their visible places.

        A commit that moves and removes no file needs neither step.

        Raises:
            LeaseLostError: another run took over before anything became visible.
            WriteError: a file could not be moved, and the next run moves the rest; or a file does
                not fit its destination, or its path is too long, and nothing was decided.
            CommitConflictError: another program changed published files; nothing was decided.
            StateError: the state is older than the dataset, or rows that another program marked as
                deleted would come back; nothing was decided.
        """
        if not (commit.all_moves or commit.removes or commit.quarantine_removes):
            return
        spec, destination = self.job.publishing, self.destination
        folder, text = layout.dataset_dir(spec), destination_text(spec, destination)
        with ExitStack() as shared:
            shared.enter_context(connected(destination))
            self._refuse_unfit(commit)
            intent = Intent(commit, lease.token, folder, destination.next_sequence(), text)
            if commit.act is not None or commit.run.watermarks:
                # A run with another copy of the state may have published since this run began.
                self._refuse_older_state()
            self.store.record_intent(lease, intent)
            if commit.quarantine:
                shared.close()  # These files are moved first, which may take long.
            self.carry_out(intent)

    def append_block(self, lease: Lease, commit: Commit) -> int | None:
        """Record a visible commit; return its block's sequence, None if it needs no block.

        Raises:
            LeaseLostError: another run took over; the next run finishes this publish.
            CommitConflictError: the head of the chain moved, so the plan is no longer valid.
        """
        sequence = self.store.commit(lease, commit)
        markers = layout.sending_dir(self.job.publishing, self.job.name)
        start_marker.forget(self.filesystem, markers, commit)
        return sequence

    def finish_pending(self, lease: Lease) -> Commit | None:
        """Finish the publish that an earlier run decided; return its commit, None if none pends.

        Raises:
            CommitUnknownError: the job's destination is another one now, or files are gone; nothing
                was changed.
        """
        intent = self.store.pending_intent()
        if intent is None:
            return None
        log.info("finishing the publish of run %s", intent.commit.run_id)
        job = self.job
        self.refuse_other_destination(intent)
        own_folders.refuse_outside_intent(intent, job.publishing, job.name, self.filesystem)
        self.refuse_given_up(intent)
        for move in self.lost_moves(intent):
            raise CommitUnknownError(
                f"run {intent.commit.run_id} began to publish, and its file {move.source} is gone; "
                f"it is not at {move.target.uri} either",
                "Nothing was deleted and no watermark moved. Restore the file from a copy of the"
                " staging folder, then run the job again, which finishes the publish first. Or"
                " finish the publish without it: dil runs finish JOB.conf --without-lost",
            )
        self.carry_out(intent)
        self.append_block(lease, intent.commit)
        return intent.commit

    def refuse_unpublishable(self, commit: Commit) -> None:
        """Raise the errors that ``publish`` raises before anything is decided; for previews.

        Raises:
            WriteError: a file does not fit its destination, or is outside of the job's folders.
            CommitConflictError: another program changed published files.
            StateError: the state is older than the dataset, or rows that another program marked as
                deleted would come back.
        """
        self._refuse_older_state()
        if commit.all_moves or commit.removes or commit.quarantine_removes:
            self._refuse_unfit(commit)

    def refuse_other_destination(self, intent: Intent) -> None:
        """Raise if the job's destination is not the destination of the publish.

        Raises:
            CommitUnknownError: the job's destination is another one now; nothing was touched.
        """
        now = destination_text(self.job.publishing, self.destination)
        if intent.destination not in ("", now):
            raise CommitUnknownError(
                f"run {intent.commit.run_id} began to publish to {intent.destination}, but the job"
                f" now publishes to {now}",
                "Nothing was changed. Set the destination back (if that run had -D options, repeat"
                " them) and run the job again, which finishes the publish. Then change the"
                " destination.",
            )

    def refuse_given_up(self, intent: Intent) -> None:
        """Raise if a publish was being given up, because it can no longer land.

        Raises:
            CommitUnknownError: the publish was being given up; nothing was touched.
        """
        has_files = bool(intent.commit.moves or intent.commit.removes)
        if has_files and self.destination.is_given_up(intent):
            raise CommitUnknownError(
                f"the publish of run {intent.commit.run_id} was being given up, but that was not"
                " finished",
                "Finish giving it up: dil runs abandon JOB.conf --yes",
            )

    def lost_moves(self, intent: Intent) -> tuple[Move, ...]:
        """Return the moves of a publish whose file is neither staged nor published.

        The publish began to the job's present destination: see ``refuse_other_destination``.
        """
        quarantine = dumps.lost_moves(intent.commit.quarantine, self.filesystem)
        return (*self.destination.lost(intent), *quarantine)

    def carry_out(self, intent: Intent) -> None:
        """Publish the files of an intent; each step may be repeated.

        Rows that move between the dataset and the folders beside it are in both for a moment, and
        never in neither.
        """
        spec, filesystem = self.job.publishing, self.filesystem
        brought: list[Move] = []
        taken: list[Move] = []
        for move in intent.commit.quarantine:
            (taken if set_aside.is_taken(move, spec, filesystem) else brought).append(move)
        place_files(brought, spec, filesystem)
        self.destination.carry_out(intent)
        place_files(taken, spec, filesystem)
        removed = map(filesystem.path_of, intent.commit.quarantine_removes)
        call_each(filesystem, filesystem.delete_file, removed)

    def _refuse_older_state(self) -> None:
        job = self.job
        refuse_older_state(job.name, self.store, job.publishing, self.destination)

    def _refuse_unfit(self, commit: Commit) -> None:
        spec = self.job.publishing
        self.destination.require_fit(commit)
        if spec.keeps_files:
            _refuse_unfit_names(commit, self.filesystem)
        own_folders.refuse_outside_files(commit, spec, self.job.name, self.filesystem)


def _refuse_unfit_names(commit: Commit, filesystem: Filesystem) -> None:
    """Raise if a file could not be moved to its name, before anything is decided.

    Raises:
        WriteError: a path is too long, or a folder on it is a file.
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
            "Nothing was published. Move that file away, then run the job again.",
        )


def quarantined_files(spec: PublishingSpec, filesystem: Filesystem) -> tuple[str, ...]:
    """Return the URIs of the files of put-aside rows; empty if a run must not delete such files.

    Put-aside rows are rows that broke the contract and rows that the receiver refused; late rows
    are handled separately.
    """
    if spec.mode is PublishMode.APPEND:
        return ()
    folders = (layout.quarantine_dir(spec), layout.refused_dir(spec))
    return tuple(
        filesystem.uri(file.path)
        for folder in folders
        for file in own_folders.without_links(filesystem.files(folder), folder, filesystem)
    )


def untracked_files(
    spec: PublishingSpec, live: Sequence[PublishedFile], filesystem: Filesystem
) -> tuple[PublishedFile, ...]:
    """Return the visible files of the dataset that no manifest lists.

    A replace removes these files (rule U16). A window replace removes such a file if its name
    belongs to one of the replaced work units, because a manifest may have been lost. The result
    contains no files of other datasets below this one, and no files behind links. A table knows all
    its live files, and keeps other files for readers of its earlier versions; for a table, the
    result is its live files without a work unit.
    """
    if spec.mode in (PublishMode.APPEND, PublishMode.MERGE) or spec.destination is not None:
        return ()
    if spec.table.format is not TableFormat.FILES:
        is_searched = spec.mode is PublishMode.WINDOW_REPLACE
        return tuple(file for file in live if not file.unit_rows) if is_searched else ()
    base = layout.dataset_dir(spec)
    known = {file.uri for file in live}
    found = own_folders.without_links(filesystem.files(base), base, filesystem)
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


def delete_staging(filesystem: Filesystem, staging_dir: str) -> bool:
    """Delete a run's staging folder; return whether it no longer exists.

    A task of a crashed run may still write there for a moment; then the next run deletes the
    folder.
    """
    try:
        filesystem.delete_tree(staging_dir)
    except WriteError as error:
        log.warning("cannot delete the staging folder %s now: %s", staging_dir, error.message)
        return False
    return True


def is_hidden(relative: str) -> bool:
    """Return whether a path in the dataset's folder is not published data."""
    return any(part.startswith(("_", ".")) for part in relative.split("/") if part)
