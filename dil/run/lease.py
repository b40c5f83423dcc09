"""The lease of a job, which a run or an operator's act holds."""

from __future__ import annotations

import contextlib
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta

from dil.errors import LeaseHeldError
from dil.model.dataset import Lease
from dil.model.job import Job
from dil.spi.state_store import StateStore
from dil.state import LeaseKeeper
from dil.state.runs.leases import WAIT
from dil.text.zones import EPOCH

log = logging.getLogger(__name__)

_RETRY_S = 0.5
# The start of a run's id. The id of an act has the verb before it.
_RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-")


def new_run_id(now_ms: int) -> str:
    """Return a new id that sorts by the real time ``now_ms`` (epoch ms UTC) and fits file names."""
    moment = EPOCH + timedelta(milliseconds=now_ms)
    return f"{moment:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:6]}"


def is_run(lease_id: str) -> bool:
    """Return whether a lease is held by a run, and not by an operator's act."""
    return _RUN_ID.match(lease_id) is not None


def take_lease(job: Job, store: StateStore, run_id: str, wait_s: float) -> Lease:
    """Take a run's lease, trying again until ``wait_s`` seconds have passed.

    A state store of an earlier release is upgraded in the same transaction.

    Raises:
        LeaseHeldError: another run of the job held the lease all that time.
    """
    deadline = time.monotonic() + wait_s
    is_waiting = False
    while True:
        try:
            return store.acquire_lease(run_id, lease_s=job.running.lease_s, upgrade=True)
        except LeaseHeldError as error:
            left = deadline - time.monotonic()
            if left <= 0:
                raise _advised(job, error) from error
            if not is_waiting:
                log.info("waiting for the lease, at most %g s: %s", wait_s, error.message)
                is_waiting = True
            time.sleep(min(_RETRY_S, left))


@contextlib.contextmanager
def leased(job: Job, store: StateStore, verb: str, clock: Callable[[], int]) -> Iterator[Lease]:
    """Hold the job's lease for an operator's act; the run id of the lease names the act.

    Args:
        job: The job.
        store: The job's store.
        verb: The operator's verb, with which the run id begins.
        clock: The real clock, epoch ms UTC.

    Raises:
        LeaseHeldError: a run is under way.
    """
    try:
        lease = store.acquire_lease(f"{verb}-{new_run_id(clock())}", lease_s=job.running.lease_s)
    except LeaseHeldError as error:
        raise _advised(job, error) from error
    with LeaseKeeper(store, lease, job.running.lease_s):
        yield lease


def _advised(job: Job, error: LeaseHeldError) -> LeaseHeldError:
    """Return the error; if the job is a service, the error gets advice on how to stop it."""
    stream = job.stream
    if stream is None or not stream.is_service:
        return error
    stop = f"make the file {stream.stop_file}" if stream.stop_file else "send it SIGTERM"
    advice = f"The job is a service, which does not end by itself: {stop}, and it ends soon."
    return LeaseHeldError(error.message, error.fix.replace(WAIT, advice))
