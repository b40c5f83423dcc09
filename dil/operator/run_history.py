"""Earlier runs of a job, for operators: their staged files, and how to delete them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dil.errors import StateError
from dil.model.dataset import Intent, Lease, LeaseHolder, Move, RunRecord
from dil.model.job import CommitPolicy, Job, PublishMode
from dil.operator.rebuilt_intent import rebuilt_intent
from dil.publishing import abandoning
from dil.publishing.layout import SENDING, run_staging_dir
from dil.publishing.own_folders import split_runs
from dil.publishing.publisher import Publisher, delete_staging
from dil.publishing.staged import StagedResult, read_plan, read_results
from dil.run.lease import is_run
from dil.spi.state_store import StateStore
from dil.storage import Filesystem, filesystem_for

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A recorded run; ``holder`` is the process that runs it now, None if no process does."""

    record: RunRecord
    holder: LeaseHolder | None

    @property
    def status(self) -> str:
        """Return the run's status; ``crashed`` if no end is recorded and no process runs it."""
        is_dead = self.record.status == "running" and self.holder is None
        return "crashed" if is_dead else self.record.status


def known_runs(store: StateStore, *, limit: int | None = None) -> Iterator[KnownRun]:
    """Yield the recorded runs, newest first, ``limit`` at most."""
    holder = store.lease_holder()
    return (_known(store, run, holder) for run in store.runs(limit=limit))


def _known(store: StateStore, run: RunRecord, before: LeaseHolder | None) -> KnownRun:
    """Return a run with the process that runs it, if ``before`` or the present lease names it.

    A stream holds the lease for its micro-batches, which begin later and have other ids.
    """
    if run.status == "running":
        for holder in (before, store.lease_holder()):
            if holder is not None and (
                holder.run_id == run.run_id
                or (is_run(holder.run_id) and run.started >= holder.since)
            ):
                return KnownRun(run, holder)
    return KnownRun(run, None)


@dataclass(frozen=True, slots=True)
class Leftover:
    """The files of a run in staging.

    ``run`` is None for a folder that no record names. ``planned`` and ``complete`` count work
    units, ``bytes`` is the size of the folder. ``reusable`` says that the next run may publish or
    adopt the complete work units, if it has the same configuration. ``is_strange`` says that the
    record names a folder that the job does not use for staging. Such a folder is never read or
    deleted: only its record is forgotten.
    """

    run_id: str
    folder: str
    run: KnownRun | None
    planned: int
    complete: int
    bytes: int
    reusable: bool
    is_strange: bool = False


def leftovers(job: Job, store: StateStore) -> tuple[Leftover, ...]:
    """Return the staged files of runs; folders without a record come last."""
    filesystem = filesystem_for(job.publishing.final_dir)
    root = run_staging_dir(job.publishing, job.name, "").rstrip("/")
    holder = store.lease_holder()
    own, strange = split_runs(store.unfinished_runs(), job.publishing, job.name, filesystem)
    known = {run.run_id: _known(store, run, holder) for run in own}
    folders = filesystem.folders(root)
    found = [
        _leftover(job, filesystem, run.record.staging_dir, run_id, run)
        for run_id, run in known.items()
    ]
    orphans = [
        _leftover(job, filesystem, f"{root}/{name}", name, None)
        for name in sorted(folders)
        if name not in known and name != SENDING  # start markers outlive all runs
    ]
    elsewhere = (
        Leftover(run.run_id, run.staging_dir, _known(store, run, holder), 0, 0, 0,
                 reusable=False, is_strange=True)
        for run in strange
    )  # fmt: skip
    return (*found, *elsewhere, *orphans)


def clean(job: Job, store: StateStore, lease: Lease, wanted: Sequence[Leftover]) -> int:
    """Delete these staging folders under the job's lease; return how many were deleted.

    No row is lost: a work unit whose staged work is deleted has no watermark yet, so it is due.

    Raises:
        StateError: a run began to publish, and needs its staged files to finish.
    """
    pending = store.pending_intent()
    if pending is not None:
        raise StateError(
            f"run {pending.commit.run_id} began to publish, and finishing needs its staged files",
            "Run `dil run`, which finishes the publish first; then clean.",
        )
    filesystem = filesystem_for(job.publishing.final_dir)
    gone = 0
    for each in wanted:
        if not each.is_strange and not delete_staging(filesystem, each.folder):
            continue
        gone += 1
        log.info("swept the staging of run %s", each.run_id)
        if each.run is not None:
            store.mark_swept(lease, each.run_id)
    return gone


@dataclass(frozen=True, slots=True)
class RecordedPublish:
    """An unfinished publish; ``lost`` names files that are gone.

    ``left_out`` are the results that finishing would leave out, None if no file is lost.
    """

    intent: Intent
    lost: tuple[Move, ...]
    left_out: abandoning.OmittedFromPublish | None = None

    @property
    def lost_work_units(self) -> tuple[str, ...]:
        """Return the signatures that lost a file."""
        return tuple(dict.fromkeys(move.target.signature for move in self.lost))


def recorded_publish(job: Job, store: StateStore) -> RecordedPublish | None:
    """Return the begun publish that the next run has to finish first; None if there is none.

    Raises:
        CommitUnknownError: the job has another destination now, so that lost files are unknown.
    """
    intent = store.pending_intent()
    if intent is None:
        return None
    publisher = Publisher.of(job, store)
    publisher.refuse_other_destination(intent)
    lost = publisher.lost_moves(intent)
    left_out = abandoning.left_out(publisher, intent, lost) if lost else None
    return RecordedPublish(intent, lost, left_out)


def finish_publish(job: Job, store: StateStore, lease: Lease, found: RecordedPublish) -> Intent:
    """Finish a publish without its lost files, under the job's lease; return its intent."""
    return abandoning.finish_without_lost(Publisher.of(job, store), lease, found.intent)


@dataclass(frozen=True, slots=True)
class DoubtfulPublish:
    """A begun publish that may be given up.

    ``problem`` says why the record of the publish cannot be read; ``intent`` is then reconstructed.
    ``has_landed`` says that readers see the rows already; these rows stay.
    """

    intent: Intent
    has_landed: bool
    problem: str = ""


def doubtful_publish(job: Job, store: StateStore, now_ms: int) -> DoubtfulPublish | None:
    """Return the publish that was begun, None if none was; ``now_ms`` is the real clock's.

    Raises:
        CommitUnknownError: its record cannot be read, and giving it up would double rows; or the
            job has another destination now.
    """
    run_id, problem = store.begun_publish(), ""
    if run_id is None:
        return None
    try:
        intent = store.pending_intent()
    except StateError as error:
        problem = error.message
        intent = rebuilt_intent(job, store, run_id, now_ms)
    if intent is None:
        return None
    publisher = Publisher.of(job, store)
    publisher.refuse_other_destination(intent)
    return DoubtfulPublish(intent, publisher.destination.has_landed(intent), problem)


def abandon_publish(job: Job, store: StateStore, lease: Lease, found: DoubtfulPublish) -> Intent:
    """Give up a publish under the job's lease; return the rest of its intent."""
    return abandoning.abandon(Publisher.of(job, store), lease, found.intent)


def _leftover(
    job: Job, filesystem: Filesystem, folder: str, run_id: str, run: KnownRun | None
) -> Leftover:
    results = tuple(read_results(filesystem, folder))
    return Leftover(
        run_id=run_id,
        folder=folder,
        run=run,
        planned=len(read_plan(filesystem, folder).work_units),
        complete=len(results),
        bytes=sum(info.size for info in filesystem.files(folder)),
        reusable=run is not None and _is_reusable(run.record, results, job),
    )


def _is_reusable(run: RunRecord, results: Sequence[StagedResult], job: Job) -> bool:
    """Return whether a run of this configuration may publish or adopt some of the results.

    A replace adopts nothing: it publishes a snapshot of one time. A second reading is published
    only together with its own run's results, under the policy ``successful`` (rule C29).
    """
    is_snapshot = job.publishing.mode is PublishMode.REPLACE
    if not run.is_open or run.digest not in job.known_digests or is_snapshot:
        return False
    is_published = run.policy == CommitPolicy.SUCCESSFUL.value
    return any(is_published or each.work_unit.last_high is None for each in results)
