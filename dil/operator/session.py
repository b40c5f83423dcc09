"""The session in which an operator changes the state of a job: its store, lease and clocks."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from dil import planning
from dil.errors import ConfigError, StateError
from dil.model.dataset import Lease, OperatorAct, PublishedFile
from dil.model.job import Job, PublishMode
from dil.planning.partitions import partition
from dil.publishing.own_folders import own_runs
from dil.publishing.page_log import drop_logs
from dil.publishing.publisher import Publisher
from dil.run import plan_checks
from dil.run.lease import leased
from dil.run.schedules import with_schedules
from dil.spi.state_store import StateStore
from dil.state.amendments.last_act import watermark_at
from dil.state.chain.recorded_files import file_of, late_parts
from dil.storage import Filesystem


@dataclass(frozen=True)
class OperatorSession:
    """A job and its open store, for one act of an operator.

    ``lease`` is None in a dry run that takes no lease. ``now_ms`` is the now of planning, ``clock``
    the real clock, both epoch ms UTC.
    """

    job: Job
    store: StateStore
    now_ms: int
    clock: Callable[[], int]
    lease: Lease | None

    @property
    def act_id(self) -> str | None:
        """Return the id of the act, which is the lease's run id; None if there is no lease."""
        return None if self.lease is None else self.lease.holder.run_id

    def require_lease(self) -> Lease:
        """Return the lease, without which nothing may be changed.

        Raises:
            AssertionError: the session is a dry run.
        """
        if self.lease is None:
            raise AssertionError("an act needs the lease")
        return self.lease

    @cached_property
    def publisher(self) -> Publisher:
        """The publisher of the job, made at its first use, because some acts need none."""
        return Publisher.of(self.job, self.store)

    @property
    def filesystem(self) -> Filesystem:
        """The filesystem that holds the dataset."""
        return self.publisher.filesystem

    def live_files(self) -> tuple[PublishedFile, ...]:
        """Return the dataset's live files, including files of other jobs that append to it."""
        return self.publisher.destination.live()

    def own_live_files(self) -> tuple[PublishedFile, ...]:
        """Return the live files that this job published; only jobs that append share a dataset."""
        live = self.live_files()
        if self.job.publishing.mode is not PublishMode.APPEND:
            return live
        own = self.store.own_files(live)
        return tuple(file for file in live if file.uri in own)

    def late_files(self) -> Mapping[str, PublishedFile]:
        """Return all files of late rows that the job has published, by URI."""
        return {uri: file_of(part) for uri, part in late_parts(self.store).items()}

    def watermark(self) -> int | None:
        """Return the dataset's watermark, epoch ms UTC; None if there is none."""
        head = self.store.head()
        if head is None:
            return None
        return watermark_at(self.store.blocks(), int(str(head["sequenceNumber"])))

    def partition_ends(self) -> Mapping[int, int]:
        """Return the ends of the job's partitions by their starts; empty if their shape changed."""
        recorded, spec = self.store.recorded_shape(), self.job.planning
        if recorded is not None and not planning.is_shape(spec, recorded):
            refusal = plan_checks.changed_shape(self.job, self.store, self.now_ms)
            if spec.backfill or refusal is not None:
                return {}
        partitions = partition(self.job.planning, now_ms=self.now_ms)
        return dict(zip(partitions.starts, partitions.ends, strict=True))

    def drop_page_logs(self, act: OperatorAct) -> None:
        """Delete the page logs of work units that an act changed: they are next read in full."""
        changed = {*act.removed, *(entry.signature for entry in act.changed)}
        filesystem, recorded = self.filesystem, self.store.unfinished_runs()
        spec, name = self.job.publishing, self.job.name
        for run in own_runs(recorded, spec, name, filesystem):
            drop_logs(filesystem, run.staging_dir, changed)


@contextlib.contextmanager
def open_session(
    job: Job,
    store: StateStore,
    verb: str,
    *,
    now_ms: int,
    clock: Callable[[], int],
    is_dry_run: bool = False,
) -> Iterator[OperatorSession]:
    """Hold the job's lease for one act.

    Args:
        job: The job whose state is to change.
        store: The job's store; it stays open.
        verb: The operator's verb, with which the act's id begins.
        now_ms: The now of planning, epoch ms UTC.
        clock: The real clock, epoch ms UTC.
        is_dry_run: Whether the act is only previewed. Then an empty store is left without a
            lease, because taking one would create the store.

    Raises:
        ConfigError: the job keeps no state.
        LeaseHeldError: a run is under way.
        StateError: an earlier publish is unfinished.
    """
    if not job.state.enabled:
        raise ConfigError.single(
            "state.store.enabled",
            f"is off, so {job.name} keeps no state",
            "There is no state to change.",
            job.properties.origin("state.store.enabled"),
        )
    job = with_schedules(job, store)
    if is_dry_run and store.head() is None:
        yield OperatorSession(job, store, now_ms, clock, None)
        return
    with leased(job, store, verb, clock) as lease:
        refuse_unfinished_publish(job, store)
        yield OperatorSession(job, store, now_ms, clock, lease)


def refuse_unfinished_publish(job: Job, store: StateStore) -> None:
    """Refuse to change state that an unfinished publish is about to change.

    Raises:
        StateError: there is an unfinished publish.
    """
    intent = store.pending_intent()
    if intent is not None:
        raise unfinished_publish(job, intent.commit.run_id)


def unfinished_publish(job: Job, run_id: str) -> StateError:
    """Return the error that refuses to change state while a publish is unfinished."""
    return StateError(
        f"job {json.dumps(job.name)}: {run_id} began to publish and has not finished, so the state "
        "will still change",
        "Run `dil run`, which finishes the publish; then try again.",
    )
