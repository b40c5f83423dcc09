"""Earlier runs of a job, for operators: what they left in staging, and how to be rid of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dil import publishing
from dil.errors import StateError
from dil.model.dataset import Intent, Lease, Move, RunRecord
from dil.model.job import Job
from dil.publishing import salvage
from dil.spi.state_store import StateStore
from dil.storage import Filesystem, filesystem_for

log = logging.getLogger(__name__)

_OPEN = frozenset({"running", "failed", "interrupted"})


@dataclass(frozen=True, slots=True)
class Leftover:
    """A staging folder that is still there.

    ``run`` is None for a folder that no record names. ``planned`` and ``complete`` count work
    units, ``bytes`` is everything in the folder. ``reusable`` tells that the next run may take
    over what is complete.
    """

    run_id: str
    folder: str
    run: RunRecord | None
    planned: int
    complete: int
    bytes: int

    @property
    def reusable(self) -> bool:
        """Tell whether the next run may still publish or adopt what is complete."""
        run = self.run
        return run is not None and not run.committed and run.status in _OPEN and self.complete > 0


def leftovers(job: Job, store: StateStore) -> tuple[Leftover, ...]:
    """Return what earlier runs left in staging, those without a record last."""
    files = filesystem_for(job.publishing.final_dir)
    root = publishing.run_staging_dir(job.publishing, job.name, "").rstrip("/")
    known = {run.run_id: run for run in store.unfinished_runs()}
    folders = files.folders(root)
    found = [_leftover(files, run.staging_dir, run.run_id, run) for run in known.values()]
    orphans = [
        _leftover(files, f"{root}/{name}", name, None)
        for name in sorted(folders)
        if name not in known
    ]
    return (*found, *orphans)


def clean(job: Job, store: StateStore, lease: Lease, wanted: Sequence[Leftover]) -> int:
    """Delete these staging folders under the job's lease; return how many are gone.

    No row is lost by it: a work unit whose staged work goes has no watermark yet, and is due.

    Raises:
        StateError: a run began to publish; what it staged is needed to finish that.
    """
    pending = store.pending_intent()
    if pending is not None:
        raise StateError(
            f"run {pending.commit.run_id} began to publish, and what it staged is needed for that",
            "The next `dil run` finishes it first; clean afterwards.",
        )
    files = filesystem_for(job.publishing.final_dir)
    gone = 0
    for each in wanted:
        if not publishing.sweep(files, each.folder):
            continue
        gone += 1
        log.info("swept the staging of run %s", each.run_id)
        if each.run is not None:
            store.mark_swept(lease, each.run_id)
    return gone


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A publish that was begun and not finished; ``lost`` names files that are gone."""

    intent: Intent
    lost: tuple[Move, ...]

    @property
    def lost_work_units(self) -> tuple[str, ...]:
        """Return the signatures that lost a file."""
        return tuple(dict.fromkeys(move.target.signature for move in self.lost))


def unfinished(job: Job, store: StateStore) -> Unfinished | None:
    """Return the publish that the next run has to finish first, None without one."""
    intent = store.pending_intent()
    if intent is None:
        return None
    files = filesystem_for(job.publishing.final_dir)
    return Unfinished(intent, salvage.lost_moves(intent, files))


def finish(job: Job, store: StateStore, lease: Lease, found: Unfinished) -> Intent:
    """Finish a publish under the job's lease, without what is lost; return what was published."""
    files = filesystem_for(job.publishing.final_dir)
    return salvage.finish_without_lost(store, lease, found.intent, job.publishing, files)


def _leftover(files: Filesystem, folder: str, run_id: str, run: RunRecord | None) -> Leftover:
    return Leftover(
        run_id=run_id,
        folder=folder,
        run=run,
        planned=len(publishing.read_plan(files, folder).work_units),
        complete=sum(1 for _ in publishing.read_results(files, folder)),
        bytes=sum(_sizes(files, folder)),
    )


def _sizes(files: Filesystem, folder: str) -> Iterator[int]:
    return (info.size for info in files.files(folder))
