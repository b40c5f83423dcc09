"""Where an operator's act is worked out: a job's state under its lease, no publish unfinished."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dil import planning, publishing
from dil.errors import ConfigError, StateError
from dil.model.dataset import Lease, PublishedFile
from dil.model.job import Job
from dil.planning.partitions import partition
from dil.run.runs import leased
from dil.spi.state_store import StateStore
from dil.state.acts.last_act import watermark_at
from dil.storage import Filesystem, filesystem_for


@dataclass(frozen=True, slots=True)
class Desk:
    """A job and its store; ``lease`` is None for a look at a store that holds nothing.

    ``now_ms`` is the now of planning, ``clock`` the real clock, both epoch ms UTC.
    """

    job: Job
    store: StateStore
    now_ms: int
    clock: Callable[[], int]
    lease: Lease | None

    @property
    def act_id(self) -> str | None:
        """Return what names the act, None for a look."""
        return None if self.lease is None else self.lease.holder.run_id

    def filesystem(self) -> Filesystem:
        """Return where the dataset is."""
        return filesystem_for(self.job.publishing.final_dir)

    def live_files(self) -> tuple[PublishedFile, ...]:
        """Return the dataset's files that are live now."""
        return publishing.destination_for(self.job.publishing, self.filesystem()).live()

    def grid(self) -> Mapping[int, int]:
        """Return the ends of the job's partitions by their starts; empty when the shape changed."""
        if self.store.recorded_shape() not in (None, planning.shape(self.job.planning)):
            return {}
        partitions = partition(self.job.planning, now_ms=self.now_ms)
        return dict(zip(partitions.starts, partitions.ends, strict=True))

    def watermark(self) -> int | None:
        """Return the dataset's watermark, epoch ms UTC, None when it has none."""
        head = self.store.head()
        if head is None:
            return None
        return watermark_at(self.store.blocks(), int(str(head["sequenceNumber"])))


@contextlib.contextmanager
def open_desk(
    job: Job,
    store: StateStore,
    verb: str,
    *,
    now_ms: int,
    clock: Callable[[], int],
    is_look: bool = False,
) -> Iterator[Desk]:
    """Take the job's lease for one act, and give it back.

    Args:
        job: Whose state is to change.
        store: The job's store; it stays open.
        verb: What is to be done; the act's id begins with it.
        now_ms: The now of planning, epoch ms UTC.
        clock: The real clock, epoch ms UTC.
        is_look: Nothing will be performed. A look at a store that holds nothing takes no lease,
            because that would create it.

    Raises:
        ConfigError: the job keeps no state.
        LeaseHeldError: a run is under way.
        StateError: a publish was begun and not finished.
    """
    if not job.state.enabled:
        raise ConfigError.single(
            "state.store.enabled",
            f"is off: nothing is remembered of {job.name}",
            "There is no state to change.",
            job.properties.origin("state.store.enabled"),
        )
    if is_look and store.head() is None:
        yield Desk(job, store, now_ms, clock, None)
        return
    with leased(job, store, verb, clock) as lease:
        _refuse_unfinished(job, store)
        yield Desk(job, store, now_ms, clock, lease)


def _refuse_unfinished(job: Job, store: StateStore) -> None:
    intent = store.pending_intent()
    if intent is not None:
        raise StateError(
            f"job {json.dumps(job.name)}: {intent.commit.run_id} began to publish and was not "
            "finished, so that its state is about to change",
            "It is finished by the next `dil run`; then try again.",
        )
