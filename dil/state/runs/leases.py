"""The job's lease: one row with a fencing token that only grows (rule C24), kept by a thread.

A server that fails over to a replica may lose the row of a lease, and the next run then gets the
same token. So a lease is compared by its token and its run.
"""

from __future__ import annotations

import json
import logging
import threading
from types import TracebackType
from typing import Self

from dil.errors import DilError, LeaseHeldError, LeaseLostError
from dil.model.dataset import Lease, LeaseHolder
from dil.spi.state_store import StateStore
from dil.state.blocks.canonical import watermark_text
from dil.state.databases import sql
from dil.state.databases.database import Row, Transaction
from dil.state.databases.outage import without_waiting
from dil.state.runs.processes import is_gone, is_in_sight, this_process

log = logging.getLogger(__name__)

# The advice about another run of the same job.
WAIT = "Wait for it to end."


def acquire(tx: Transaction, job: str, run_id: str, now: int, lease_s: int) -> Lease:
    """Take the lease if it is free or expired, or if its holder on this host is gone.

    Raises:
        LeaseHeldError: another run holds the lease.
    """
    row = tx.row(sql.LEASE, job)
    if row is not None:
        _require_free(row, job, now)
    token = 1 if row is None else row[0] + 1
    holder = this_process(run_id, now)
    length = lease_s * 1000
    tx.change(
        sql.FIRST_LEASE if row is None else sql.TAKE_LEASE,
        token, run_id, holder.host, holder.pid, holder.process_start,
        now, now, now + length, length, job,
    )  # fmt: skip
    return Lease(job, token, holder)


def holder(tx: Transaction, job: str, now: int) -> LeaseHolder | None:
    """Return the lease's holder, None if the lease is free or expired, or the holder is gone."""
    row = tx.row(sql.LEASE, job)
    return None if row is None else _holder(row, now)


def require_idle(tx: Transaction, job: str, now: int) -> None:
    """Refuse to upgrade a store while this job, or another job in it, is running.

    The other run may be of a release that does not know the next format.

    Raises:
        LeaseHeldError: the message names the run.
    """
    own = tx.row(sql.LEASE, job)
    if own is not None:
        _require_free(own, job, now)
    for other, *row in tx.rows(sql.LEASES_OF_OTHERS, job):
        found = _holder(tuple(row), now)
        if found is not None:
            raise LeaseHeldError(
                f"the state store has an older format, and DIL can upgrade it only while no job in "
                f"it runs; job {json.dumps(other)} is being run by {found.run_id}: process "
                f"{found.pid} on {found.host}, since {watermark_text(found.since)}",
                "Wait until that run ends.",
            )


def prolong(tx: Transaction, lease: Lease, now: int) -> None:
    """Record a heartbeat.

    Raises:
        LeaseLostError: the lease was released or taken over.
    """
    if tx.change(sql.PROLONG_LEASE, now, now, *_key(lease)) != 1:
        raise _lost(tx, lease)


def release(tx: Transaction, lease: Lease) -> None:
    """Release the lease; the token stays, so that the next one is larger."""
    tx.change(sql.RELEASE_LEASE, *_key(lease))


def require_newest(tx: Transaction, job: str, lease: Lease) -> None:
    """Lock the lease's row until the transaction ends.

    Raises:
        LeaseLostError: another run took the lease, or the lease is of another job.
    """
    if lease.job != job:
        raise LeaseLostError(
            f"the lease is of job {json.dumps(lease.job)}, not of {json.dumps(job)}"
        )
    if tx.change(sql.HOLD_LEASE, *_key(lease)) != 1:
        raise _lost(tx, lease)


def _key(lease: Lease) -> tuple[str, int, str]:
    return lease.job, lease.token, lease.holder.run_id


def _require_free(row: Row, job: str, now: int) -> None:
    found = _holder(row, now)
    if found is None:
        return
    advice = WAIT
    if not is_in_sight(found):
        # This process cannot see whether the holder runs. A holder that it sees is alive.
        advice += f" If that host crashed, the lease expires at {watermark_text(row[7])}."
    raise LeaseHeldError(
        f"job {json.dumps(job)} is being run by {found.run_id}: process {found.pid} on "
        f"{found.host}, since {watermark_text(found.since)}",
        advice,
    )


def _holder(row: Row, now: int) -> LeaseHolder | None:
    _, run_id, host, pid, process_start, since, heartbeat, expires, released = row
    if released or now >= expires:
        return None
    found = LeaseHolder(run_id, host, pid, process_start, since, heartbeat)
    return None if is_gone(found) else found


def _lost(tx: Transaction, lease: Lease) -> LeaseLostError:
    row = tx.row(sql.LEASE, lease.job)
    newer = "it was given back"
    if row is None or row[0] < lease.token:
        newer = "the state store is an older copy of itself, without this lease"
    elif row[1] != lease.holder.run_id:
        newer = f"run {row[1]} took it over at {watermark_text(row[5])}"
    return LeaseLostError(
        f"the lease of job {json.dumps(lease.job)} is lost: {newer}",
        "This run changed nothing more. Its finished work is recovered by the next run.",
    )


class LeaseKeeper:
    """Sends heartbeats from a thread of its own until the block ends, then releases the lease.

    ``lost`` becomes true if another run took the lease: then the run should start no more work.
    Publishing needs no such hint, because the store checks the lease itself.

    Neither a heartbeat nor the release waits for a server that is away: the next heartbeat tries
    again, and a lease that is not released expires.
    """

    def __init__(self, store: StateStore, lease: Lease, lease_s: int) -> None:
        self.lost = False
        self._store = store
        self._lease = lease
        self._pause_s = max(lease_s / 4, 0.25)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True, name="dil-lease")

    def __enter__(self) -> Self:
        try:
            self._thread.start()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._release()
        except KeyboardInterrupt:
            self._release()  # the first signal raises this, and the second ends the process
            raise

    def _release(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        try:
            with without_waiting():
                self._store.release_lease(self._lease)
        except DilError as failure:
            # The lease expires by itself; the run's results must still be reported.
            log.warning("the lease could not be released: %s", failure.message)

    def _beat(self) -> None:
        while not self._over.wait(self._pause_s):
            try:
                with without_waiting():
                    self._store.heartbeat(self._lease)
            except LeaseLostError as error:
                log.warning("the lease is lost: %s", error.message)
                self.lost = True
                return
            except DilError as error:
                log.warning("a heartbeat failed, trying again: %s", error.message)
