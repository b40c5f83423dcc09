"""Opens the coordinator of a run while its tasks run, if the tasks share anything."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dil.coordination import services_of
from dil.coordination.services import RunServices
from dil.errors import QuotaError
from dil.model.task import Failure, RunContext
from dil.observe.progress import counted, human_bytes
from dil.spi.connector import Connector
from dil.spi.registry import load
from dil.task.early_stop import quota_spent

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class BindAddress:
    """The driver's address, the host by which tasks reach it, and how many tasks run at once."""

    host: str = LOOPBACK
    reached_at: str = LOOPBACK
    tasks: int = 1


@dataclass(frozen=True, slots=True)
class CoordinatedRun:
    """A run whose tasks know their coordinator; ``services`` is None if tasks share nothing."""

    run: RunContext
    services: RunServices | None = None

    def spent(self) -> Failure | None:
        """Return why no further work unit may begin, None while work units may begin."""
        why = "" if self.services is None else self.services.spent()
        return quota_spent(why) if why else None

    def ends_by_itself(self, stopped: Failure) -> bool:
        """Return whether a stopped run may finish the work units that are running."""
        if self.services is None or stopped.code != QuotaError.code:
            return False
        self.services.quota_spent(stopped.error)
        return True


@contextmanager
def coordinated(run: RunContext, place: BindAddress) -> Iterator[CoordinatedRun]:
    """Open the coordinator if the job needs one, and always close it at the end.

    Raises:
        ExecutionError: the driver cannot listen.
    """
    services = services_of(run.job)
    if services is None:
        yield CoordinatedRun(run)
        return
    from dil.coordination.server import CoordinatorServer  # few runs share anything

    with CoordinatorServer(services, place.host, place.reached_at, place.tasks) as server:
        connector: type[Connector] = load(run.job.source.connector)
        coordinated = replace(run, job=connector.for_tasks(run.job), coordinator=server.address)
        yield CoordinatedRun(coordinated, services)
    totals = services.totals
    log.info(
        "the tasks shared %s, for %s and %s",
        counted(services.granted, "request"), counted(totals.rows, "row"), human_bytes(totals.size),
        extra={"event": "coordinator.totals"},
    )  # fmt: skip
