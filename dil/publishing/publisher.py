"""Staged files become the dataset: record the intent, carry it out, commit (spec README 27).

Before the intent nothing is visible and a crash costs nothing. After it, the publish is only ever
finished, by this run or by the next: each step, done again, changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from dil.errors import CommitUnknownError, WriteError
from dil.model.dataset import Commit, Intent, Lease, PublishedFile
from dil.model.job import PublishingSpec, PublishMode
from dil.model.json import JsonObject
from dil.publishing import layout, manifest, start_marker
from dil.publishing.dumps import is_lost
from dil.spi.state_store import StateStore
from dil.storage import Filesystem

log = logging.getLogger(__name__)


def publish(
    store: StateStore, lease: Lease, commit: Commit, spec: PublishingSpec, filesystem: Filesystem
) -> JsonObject | None:
    """Make a commit visible and remember it; return the new block, None when none was due.

    Raises:
        LeaseLostError: another run took over before anything became visible.
        WriteError: a file could not be moved; the next run finishes the rest.
    """
    dataset = layout.dataset_dir(spec)
    if commit.all_moves or commit.removes or commit.quarantine_removes:
        sequence = manifest.newest(filesystem, dataset).sequence + 1
        intent = Intent(commit, lease.token, dataset, sequence)
        store.record_intent(lease, intent)
        carry_out(intent, spec, filesystem)
    block = store.commit(lease, commit)
    start_marker.forget(filesystem, layout.sending_dir(spec, lease.job), commit)
    return block


def finish_pending(
    store: StateStore, lease: Lease, spec: PublishingSpec, filesystem: Filesystem
) -> Commit | None:
    """Finish what an earlier run decided; return its commit, None when nothing was pending."""
    intent = store.pending_intent()
    if intent is None:
        return None
    log.info("finishing the publish of run %s", intent.commit.run_id)
    _refuse_lost_files(intent, filesystem)
    carry_out(intent, spec, filesystem)
    store.commit(lease, intent.commit)
    start_marker.forget(filesystem, layout.sending_dir(spec, lease.job), intent.commit)
    return intent.commit


def _refuse_lost_files(intent: Intent, filesystem: Filesystem) -> None:
    """Stop when a file that was to be published is neither staged nor published any more."""
    for move in intent.commit.all_moves:
        target = filesystem.path_of(move.target.uri)
        if is_lost(move, filesystem):
            raise CommitUnknownError(
                f"run {intent.commit.run_id} began to publish, and its file {move.source} is gone; "
                f"it is not at {target} either",
                "Nothing was deleted and no watermark moved. Restore the file from a copy of the "
                "staging folder, then run again: the publish is finished first. Or let it be "
                "finished without it: dil runs finish JOB.conf --without-lost",
            )


def carry_out(intent: Intent, spec: PublishingSpec, filesystem: Filesystem) -> None:
    """Move files in, switch the manifest, take files away; every step may be done again."""
    commit = intent.commit
    targets = [(move, filesystem.path_of(move.target.uri)) for move in commit.all_moves]
    folders = {path.rpartition("/")[0] for _, path in targets}
    for folder in sorted(folders):
        filesystem.make_folder(folder, mode=spec.dir_mode)
    for move, path in targets:
        put = filesystem.replace if move.target.is_dump else filesystem.move
        put(move.source, path, mode=spec.file_mode)
    filesystem.sync_folders(folders)
    if commit.moves or commit.removes:
        manifest.advance(filesystem, intent.dataset_dir, commit, intent.sequence)
    # A dumped file took the place of the one that it replaces.
    written = {move.target.uri for move in commit.moves}
    for uri in (*(file.uri for file in commit.removes), *commit.quarantine_removes):
        if uri not in written:
            filesystem.delete_file(filesystem.path_of(uri))


def quarantined_files(spec: PublishingSpec, filesystem: Filesystem) -> tuple[str, ...]:
    """Return the URIs of the rows put aside so far, where a run may take such files away.

    Those that broke the contract and those that the receiver refused.
    """
    if spec.mode is PublishMode.APPEND:
        return ()
    folders = (layout.quarantine_dir(spec), layout.refused_dir(spec))
    return tuple(filesystem.uri(file.path) for each in folders for file in filesystem.files(each))


def strays(
    spec: PublishingSpec, live: Sequence[PublishedFile], filesystem: Filesystem
) -> tuple[PublishedFile, ...]:
    """Return visible files of the dataset that no manifest knows.

    A replace takes them away (behaviour.md B14.4). A window replace looks among them for those of
    its own work units, whose names tell: a manifest may have been lost. Datasets of their own
    below this one are left alone.
    """
    if spec.mode is PublishMode.APPEND:
        return ()
    base = layout.dataset_dir(spec)
    known = {file.uri for file in live}
    found = list(filesystem.files(base))
    nested = {
        root
        for file in found
        if (root := file.path.partition(f"/{layout.META}/")[0]) not in (base, file.path)
    }
    return tuple(
        PublishedFile(filesystem.uri(file.path), "", 0, file.size, "", "")
        for file in found
        if not _is_hidden(file.path[len(base) :])
        and not any(file.path.startswith(f"{root}/") for root in nested)
        and filesystem.uri(file.path) not in known
    )


def sweep(filesystem: Filesystem, staging_dir: str) -> bool:
    """Delete a run's staging folder; tell whether it is gone.

    A task of a crashed run may still write there for a moment; then the next run sweeps.
    """
    try:
        filesystem.delete_tree(staging_dir)
    except WriteError as error:
        log.warning("cannot sweep %s now: %s", staging_dir, error.message)
        return False
    return True


def _is_hidden(relative: str) -> bool:
    return any(part.startswith(("_", ".")) for part in relative.split("/") if part)
