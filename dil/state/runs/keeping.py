"""Keeps a lease alive while a run lasts."""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import Self

from dil.errors import DilError, LeaseLostError
from dil.model.dataset import Lease
from dil.spi.state_store import StateStore
from dil.state.databases.outage import without_waiting

log = logging.getLogger(__name__)


class LeaseKeeper:
    """Sends heartbeats from a thread of its own until the block ends, then releases the lease.

    ``lost`` becomes true if a newer token exists: then the run should start no more work.
    Publishing needs no such hint, because the store checks the token itself.

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
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
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
