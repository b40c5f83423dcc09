"""Earlier runs of a job, for operators: what they left in staging, and how to be rid of it."""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from dil import publishing
from dil.errors import LeaseHeldError, StateError
from dil.model.dataset import Intent, Lease, LeaseHolder, Move, RunRecord
from dil.model.job import CommitPolicy, Job, PublishMode
from dil.model.work_unit import Plan, Reason
from dil.publishing import salvage
from dil.publishing.layout import SENDING
from dil.spi.state_store import StateStore
from dil.state import LeaseKeeper
from dil.state.work_units.signatures import parts_of_signature
from dil.storage import Filesystem, filesystem_for
from dil.text.zones import EPOCH

log = logging.getLogger(__name__)

_LEASE_GLANCE_S = 0.5


def new_run_id(now_ms: int) -> str:
    """Return a new id that sorts by the real time ``now_ms`` (epoch ms UTC) and fits file names."""
    moment = EPOCH + timedelta(milliseconds=now_ms)
    return f"{moment:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:6]}"


def take_lease(store: StateStore, run_id: str, lease_s: int, wait_s: float) -> Lease:
    """Take the lease, trying again until ``wait_s`` seconds have passed."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return store.acquire_lease(run_id, lease_s=lease_s)
        except LeaseHeldError:
            left = deadline - time.monotonic()
            if left <= 0:
                raise
            time.sleep(min(_LEASE_GLANCE_S, left))


@contextlib.contextmanager
def leased(job: Job, store: StateStore, verb: str, clock: Callable[[], int]) -> Iterator[Lease]:
    """Hold the job's lease for what an operator does; its run id names the act.

    Args:
        job: Whose lease it is.
        store: The job's store.
        verb: What the id begins with.
        clock: The real clock, epoch ms UTC.

    Raises:
        LeaseHeldError: a run is under way.
    """
    lease = store.acquire_lease(f"{verb}-{new_run_id(clock())}", lease_s=job.running.lease_s)
    with LeaseKeeper(store, lease, job.running.lease_s):
        yield lease


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A recorded run; ``holder`` is the process that is at it now, None when nobody is."""

    record: RunRecord
    holder: LeaseHolder | None

    @property
    def status(self) -> str:
        """Return its status; ``crashed`` where it has no end and nobody is at it any more."""
        is_dead = self.record.status == "running" and self.holder is None
        return "crashed" if is_dead else self.record.status


def known_runs(store: StateStore, *, limit: int | None = None) -> Iterator[KnownRun]:
    """Yield the recorded runs, newest first, ``limit`` at most."""
    holder = store.lease_holder()
    return (_known(store, run, holder) for run in store.runs(limit=limit))


def _known(store: StateStore, run: RunRecord, before: LeaseHolder | None) -> KnownRun:
    """Return a run with who is at it: of one without an end, who held the lease before or does."""
    if run.status == "running":
        for holder in (before, store.lease_holder()):
            if holder is not None and holder.run_id == run.run_id:
                return KnownRun(run, holder)
    return KnownRun(run, None)


def failed_and_gone(
    job: Job, store: StateStore, plan: Plan, units: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the signatures of files, read once each, that failed and are not listed any more.

    Nobody tries them again: they are gone, or are there in another version. ``units`` are those
    that the source lists now. The work-unit index is only looked through where the newest block
    counts more failures than the plan tries again.
    """
    if not (job.planning.once and job.state.enabled and units is not None):
        return ()
    retries = sum(unit.reason is Reason.RETRY for unit in plan.work_units)
    if _failed_count(store) <= retries:
        return ()
    listed = frozenset(units)
    failed = (state.signature for state in store.unit_states() if state.status == "FAILED")
    return tuple(
        signature
        for signature in failed
        if (parts := parts_of_signature(signature)) is not None and parts.unit_json not in listed
    )


def _failed_count(store: StateStore) -> int:
    """Return how many work units the newest block counts as failed."""
    found: object = store.head()
    for member in ("event", "newSourceState", "value", "counts", "FAILED"):
        found = found.get(member) if isinstance(found, Mapping) else None
    return found if isinstance(found, int) else 0


@dataclass(frozen=True, slots=True)
class Leftover:
    """A staging folder that is still there.

    ``run`` is None for a folder that no record names. ``planned`` and ``complete`` count work
    units, ``bytes`` is everything in the folder. ``reusable`` tells that the next run may publish
    or take over what is complete; a run of another configuration does neither.
    """

    run_id: str
    folder: str
    run: KnownRun | None
    planned: int
    complete: int
    bytes: int
    reusable: bool


def leftovers(job: Job, store: StateStore) -> tuple[Leftover, ...]:
    """Return what runs have in staging, those without a record last."""
    files = filesystem_for(job.publishing.final_dir)
    root = publishing.run_staging_dir(job.publishing, job.name, "").rstrip("/")
    holder = store.lease_holder()
    known = {run.run_id: _known(store, run, holder) for run in store.unfinished_runs()}
    folders = files.folders(root)
    found = [
        _leftover(job, files, run.record.staging_dir, run_id, run) for run_id, run in known.items()
    ]
    orphans = [
        _leftover(job, files, f"{root}/{name}", name, None)
        for name in sorted(folders)
        if name not in known and name != SENDING  # start markers outlive all runs
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
    return Unfinished(intent, publishing.lost_moves(intent, job.publishing, files))


def finish(job: Job, store: StateStore, lease: Lease, found: Unfinished) -> Intent:
    """Finish a publish under the job's lease, without what is lost; return what was published."""
    files = filesystem_for(job.publishing.final_dir)
    return salvage.finish_without_lost(store, lease, found.intent, job.publishing, files)


def _leftover(
    job: Job, files: Filesystem, folder: str, run_id: str, run: KnownRun | None
) -> Leftover:
    results = tuple(publishing.read_results(files, folder))
    return Leftover(
        run_id=run_id,
        folder=folder,
        run=run,
        planned=len(publishing.read_plan(files, folder).work_units),
        complete=len(results),
        bytes=sum(_sizes(files, folder)),
        reusable=run is not None and _is_of_use(run.record, results, job),
    )


def _is_of_use(run: RunRecord, results: Sequence[publishing.StagedResult], job: Job) -> bool:
    """Tell whether a run of this configuration may publish or take over some of the results.

    A replace takes nothing over: it publishes a snapshot of one time. Readings again are only
    published as what the run itself completed, under the policy ``successful`` (spec README 29).
    """
    is_snapshot = job.publishing.mode is PublishMode.REPLACE
    if not run.is_open or run.digest not in job.known_digests or is_snapshot:
        return False
    is_published = run.policy == CommitPolicy.SUCCESSFUL.value
    return any(is_published or each.work_unit.last_high is None for each in results)


def _sizes(files: Filesystem, folder: str) -> Iterator[int]:
    return (info.size for info in files.files(folder))
