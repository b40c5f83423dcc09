"""Services of the driver that the tasks of one run share: a rate, a budget, tokens, progress.

While stages run, the driver serves tasks on a port of its own; each task uses one connection. The
package is light to import, because every task imports it, and few jobs share anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from dil.coordination.services import RequestLimits, RunServices, TaskCoordinator
from dil.model.job import Job
from dil.model.task import CoordinatorAddress, RunContext
from dil.model.work_unit import Reason, WorkUnit
from dil.spi.connector import Connector
from dil.spi.coordination import Coordinator, Uncoordinated
from dil.spi.registry import load
from dil.spi.shared import Shared

if TYPE_CHECKING:
    from dil.coordination.client import DriverServices

__all__ = [
    "in_starting_order",
    "is_spent",
    "local_coordinator",
    "services_of",
    "task_coordinator",
]


def services_of(job: Job) -> RunServices | None:
    """Return the services of a run, None if its tasks share nothing; runs on the driver."""
    limits, connector = RequestLimits.of(job), load(job.source.connector)
    source = connector.credentials(job) if issubclass(connector, Connector) else None
    return RunServices(limits, source) if limits or source is not None else None


def in_starting_order(job: Job, units: Sequence[WorkUnit]) -> Sequence[WorkUnit]:
    """Return work units in the order in which they begin.

    If the job has a budget of requests, work units that are read again begin last. Otherwise a
    grace period could use up the whole budget in each run, and leave no requests for a new work
    unit.
    """
    if not RequestLimits.of(job).most_requests:
        return units
    return sorted(units, key=lambda unit: unit.reason is Reason.INCREMENTAL)


def local_coordinator(job: Job, sleep: Callable[[float], None] = time.sleep) -> Coordinator:
    """Return a coordinator for a job if this process sends all its requests."""
    services = services_of(job)
    return Uncoordinated() if services is None else TaskCoordinator(services, sleep)


@contextmanager
def task_coordinator(
    run: RunContext, sleep: Callable[[float], None] = time.sleep, shared: Shared | None = None
) -> Iterator[Coordinator]:
    """Yield the coordinator of one task; it sends no message before its first use.

    ``shared`` keeps the connection to the driver for the next work unit of the task.
    """
    if run.coordinator is None:
        yield Uncoordinated()
        return
    with _driver_services(run.coordinator, run.job, shared) as services:
        yield TaskCoordinator(services, sleep)


def is_spent(run: RunContext, shared: Shared | None = None) -> bool:
    """Return whether the run's quota is spent, so that no more work units need to begin."""
    if run.coordinator is None:
        return False
    with _driver_services(run.coordinator, run.job, shared) as services:
        return bool(services.spent())


@contextmanager
def _driver_services(
    address: CoordinatorAddress, job: Job, shared: Shared | None
) -> Iterator[DriverServices]:
    from dil.coordination.client import DriverServices

    def make() -> DriverServices:
        return DriverServices(address, RequestLimits.of(job))

    if shared is None:
        with closing(make()) as services:
            yield services
        return
    services = shared.get(DriverServices, make)
    if services.is_lost:  # another work unit may reach the driver again
        shared.drop(DriverServices)
        services = shared.get(DriverServices, make)
    yield services
