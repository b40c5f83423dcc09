"""The state store contract: the same behaviour for every backend.

All times are epoch milliseconds UTC. Every method is one transaction. The clock is an argument,
because tests and ``--now`` need it; leases use the real clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from dil.model.dataset import (
    Commit,
    Intent,
    Lease,
    LeaseHolder,
    PublishedFile,
    RunRecord,
    UnitEntry,
)
from dil.model.history import History, UnitStretches
from dil.model.json import JsonObject


@dataclass(frozen=True, slots=True)
class UnitState:
    """One row of ``dil state show``."""

    signature: str
    low: int
    high: int | None
    status: str
    attempts: int


# The checkpoint of the job's last publish: ``sequence`` and ``destination`` of its intent.
LAST_PUBLISH = "publish"


def changed_uris(block: JsonObject) -> tuple[list[str], list[str]]:
    """Return the URIs of the added files of a block, and the URIs of its removed files."""
    event: Any = block["event"]
    data = event.get("newData") or {}
    added, removed = data.get("parts") or (), data.get("removes") or ()
    return [str(part["path"]) for part in added], [str(part["path"]) for part in removed]


class StateStore(ABC):
    """State of one job; creates nothing on disk or server before the first write."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Release the connection."""

    # Lease

    @abstractmethod
    def acquire_lease(self, run_id: str, *, lease_s: int, upgrade: bool = False) -> Lease:
        """Take the job's lease with a new, larger fencing token; return the lease.

        If the holder's process ran on this host and has ended, its lease is taken over at once; any
        other lease is taken over ``lease_s`` seconds after its last heartbeat (rule C24). If
        ``upgrade`` is true, a store of an older format is copied and converted to the format of
        this release in the same transaction.

        Raises:
            LeaseHeldError: another run holds the lease, or a run of another job is active in an
                older store; the message names the holder and the time.
        """

    @abstractmethod
    def heartbeat(self, lease: Lease) -> None:
        """Prolong the lease.

        Raises:
            LeaseLostError: another run took the lease.
        """

    @abstractmethod
    def release_lease(self, lease: Lease) -> None:
        """Give the lease back; a lease that another run has taken over is left alone."""

    @abstractmethod
    def lease_holder(self) -> LeaseHolder | None:
        """Return the holder of the job's lease; None if the lease is free."""

    # Planning

    @abstractmethod
    def history(self) -> History:
        """Return the history for planning, as of one point in time."""

    # Runs, intent, commit

    @abstractmethod
    def begin_run(self, lease: Lease, run: RunRecord) -> None:
        """Record that a run started."""

    @abstractmethod
    def end_run(self, lease: Lease, run_id: str, status: str, *, rows: int, files: int) -> None:
        """Record the end of a run, with its status."""

    @abstractmethod
    def unfinished_runs(self) -> Sequence[RunRecord]:
        """Return all runs whose staging was not swept, oldest first, whatever their status is.

        A run that is recorded as running has crashed, because the caller holds the lease.
        ``commit`` sets the status of its run, and marks earlier runs as superseded: their staged
        files must not be used again.
        """

    @abstractmethod
    def runs(self, *, limit: int | None = None) -> Iterator[RunRecord]:
        """Yield the recorded runs, newest first, at most ``limit``."""

    @abstractmethod
    def mark_swept(self, lease: Lease, run_id: str) -> None:
        """Record that a run's staging folder no longer exists."""

    @abstractmethod
    def record_intent(self, lease: Lease, intent: Intent) -> None:
        """Keep the one intent of this job until it is committed.

        Raises:
            LeaseLostError: another run took the lease.
            CommitConflictError: the run is committed, or was planned on an older head.
            StateError: another intent is still pending.
        """

    @abstractmethod
    def replace_intent(self, lease: Lease, intent: Intent) -> None:
        """Replace the pending intent of the same run by the part of it that is still to be done.

        It is only for an operator's decision about a publish that cannot be finished.

        Raises:
            LeaseLostError: another run took the lease.
            StateError: no intent of this run is pending.
        """

    @abstractmethod
    def pending_intent(self) -> Intent | None:
        """Return the intent that was recorded and not yet committed, None if there is none."""

    def begun_publish(self) -> str | None:
        """Return the id of the run whose intent is pending, None if no intent is.

        The id is known even if the intent cannot be read.
        """
        intent = self.pending_intent()
        return None if intent is None else intent.commit.run_id

    @abstractmethod
    def commit(self, lease: Lease, commit: Commit) -> int | None:
        """Append the block, update work units and coverage, drop the intent: one transaction.

        It is idempotent by run id: a run that is already committed changes nothing. It returns the
        sequence of the new block, None if there was nothing to record (no block for a no-op, V23).
        An operator's act (``commit.act``) may take several blocks; then the result is the sequence
        of the last block.

        Raises:
            LeaseLostError: another run took the lease.
            CommitConflictError: another commit moved the head, so the plan is no longer valid.
        """

    @abstractmethod
    def last_rows(self) -> int | None:
        """Return the number of rows of the last run that published any, None if no run did."""

    # Details and checkpoints: JSON objects by kind, so that a new kind needs no new table

    @abstractmethod
    def run_detail(self, run_id: str, kind: str) -> JsonObject | None:
        """Return a run's document of a kind, None if none was kept."""

    @abstractmethod
    def run_details(
        self, kind: str, *, limit: int | None = None
    ) -> Iterator[tuple[str, JsonObject]]:
        """Yield run ids with their documents of a kind, newest run first.

        Runs that have no such document are left out; ``limit`` counts documents.
        """

    @abstractmethod
    def keep_run_details(
        self, lease: Lease, run_id: str, documents: Mapping[str, JsonObject]
    ) -> None:
        """Keep documents of a run by kind, in place of earlier documents; all of them or none.

        Raises:
            LeaseLostError: another run took the lease.
            StateError: the store has an older format, which keeps no documents.
        """

    @abstractmethod
    def checkpoint(self, kind: str) -> JsonObject:
        """Return the members of the job's checkpoint of a kind; empty without a checkpoint."""

    @abstractmethod
    def change_checkpoint(self, lease: Lease, kind: str, members: JsonObject) -> None:
        """Set members of the job's checkpoint of a kind.

        Other members stay unchanged, even members that only a later release knows.

        Raises:
            LeaseLostError: another run took the lease.
            StateError: the store has an older format, which keeps no documents.
        """

    # Inspection

    @abstractmethod
    def head(self) -> JsonObject | None:
        """Return the newest block with its ``hash``, None for an empty chain."""

    @abstractmethod
    def blocks(self) -> Iterator[JsonObject]:
        """Yield all blocks, newest first, each with its ``hash``."""

    @abstractmethod
    def blocks_of_kind(self, kind: str) -> Iterator[JsonObject]:
        """Yield the blocks of one kind of event, newest first, each with its ``hash``."""

    @abstractmethod
    def own_files(self, files: Iterable[PublishedFile]) -> frozenset[str]:
        """Return the URIs of the files that this job published, as far as the store knows.

        Jobs that append to one dataset share its manifest, which does not record which job wrote a
        file.
        """

    def live_uris(self, *, until: int | None = None) -> Iterator[str]:
        """Yield the URIs of the files that a block added and no block removed.

        Args:
            until: The sequence of a block; only files that this or an earlier block added are
                yielded. A file without rows may be left out if no rows came since.
        """
        settled: set[str] = set()
        for block in self.blocks():
            added, removed = changed_uris(block)
            if until is None or int(str(block["sequenceNumber"])) <= until:
                yield from (uri for uri in added if uri not in settled)
            settled.update(added)
            settled.update(removed)

    @abstractmethod
    def unit_states(self) -> Iterator[UnitState]:
        """Yield the work-unit index, ordered by partition start, then signature."""

    @abstractmethod
    def unit_entries(self, *, as_of: int | None = None) -> Iterator[UnitEntry]:
        """Yield the rows of the work-unit index, ordered by partition start, then signature.

        If ``as_of``, the sequence of a block, is given, the rows are as they were directly after
        that block.

        Raises:
            StateError: the chain is damaged.
        """

    @abstractmethod
    def unit_stretches(self) -> Iterator[UnitStretches]:
        """Yield, for each unit with a record, the ranges of time that were read; in any order.

        A pending record counts as none.
        """

    @abstractmethod
    def sequence_as_of(self, instant: int) -> int | None:
        """Return the sequence of the last block with a system time of ``instant`` or earlier.

        The result is None if the chain is empty or began later.
        """

    @abstractmethod
    def count_swept_runs(self, before: int) -> int:
        """Count the runs that began before an instant (epoch ms UTC) and have no staging folder."""

    def problems(self, live: Mapping[str, int | None]) -> Iterator[str]:
        """Yield the errors in the records that the store keeps beside its blocks, for ``verify``.

        Args:
            live: By URI, the first offset of each file that no block removed, as the blocks record
                it; None for a file without offset.

        Raises:
            StateError: the store cannot be read.
        """
        del live
        return iter(())

    # Shape (rule P33)

    @abstractmethod
    def recorded_shape(self) -> str | None:
        """Return the last kept text of ``from``, zone and partition type; None if none is kept."""

    @abstractmethod
    def record_shape(self, lease: Lease, shape: str) -> None:
        """Keep the shape of this run's watermark."""
