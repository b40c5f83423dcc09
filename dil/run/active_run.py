"""A run as all its steps see it: the job, its lease, and the places of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from dil.execution.stages import Executors
from dil.model.dataset import Lease, RunRecord
from dil.model.job import Job
from dil.model.stream import MicroBatch
from dil.model.task import TaskReport
from dil.publishing.layout import run_staging_dir
from dil.publishing.own_folders import own_runs
from dil.publishing.publisher import Publisher
from dil.run.lease import take_lease
from dil.run.options import RunOptions
from dil.run.schedules import with_schedules
from dil.spi.destination import Destination
from dil.spi.state_store import StateStore
from dil.state import LeaseKeeper, open_store
from dil.storage import Filesystem


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """A run that holds its job's lease.

    Attributes:
        job: The job.
        options: The caller's decisions.
        run_id: Identity of the run.
        store: The job's state.
        lease: The job's lease.
        keeper: Renews the lease, and knows when it is lost.
        executors: Runs the tasks.
        publisher: Makes commits visible, and records them.
        staging: Folder of the staged files of this run.
        received: The reports of tasks that were received so far.
        batch: The micro-batch of a stream, None if the run is not part of a stream.
        newest_high: The greatest high watermark of earlier micro-batches of this plan in epoch ms
            UTC, None if none succeeded.
    """

    job: Job
    options: RunOptions
    run_id: str
    store: StateStore
    lease: Lease
    keeper: LeaseKeeper
    executors: Executors
    publisher: Publisher
    staging: str
    received: list[TaskReport] = field(default_factory=list)
    batch: MicroBatch | None = None
    newest_high: int | None = None

    @property
    def filesystem(self) -> Filesystem:
        """Where rows are staged, and published as files."""
        return self.publisher.filesystem

    @property
    def destination(self) -> Destination:
        """Where rows are published."""
        return self.publisher.destination

    def unswept_runs(self) -> list[RunRecord]:
        """Return the runs that may have files in the staging folder, this run included."""
        recorded = self.store.unfinished_runs()
        return own_runs(recorded, self.job.publishing, self.job.name, self.filesystem)


@contextmanager
def active_run(job: Job, options: RunOptions, run_id: str) -> Iterator[ActiveRun]:
    """Take the job's lease; give it back, and stop Spark, when the block ends.

    Raises:
        LeaseHeldError: another run of the job is under way.
    """
    with open_store(job.state, job.name, clock=options.clock) as store:
        lease = take_lease(job, store, run_id, options.wait_lease_s)
        with LeaseKeeper(store, lease, job.running.lease_s) as keeper:
            job = with_schedules(job, store)
            with closing(options.executors(job, is_kept=job.stream is not None)) as executors:
                publisher = Publisher.of(job, store)
                _ = publisher.destination  # no run begins whose destination cannot be made
                yield ActiveRun(
                    job,
                    options,
                    run_id,
                    store,
                    lease,
                    keeper,
                    executors,
                    publisher,
                    run_staging_dir(job.publishing, job.name, run_id),
                )
