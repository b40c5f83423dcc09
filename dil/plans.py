"""The plan of a job: its configuration, its secondary input and its state brought together."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from msgspec import structs

from dil import admission, planning
from dil.model.job import Job
from dil.model.work_unit import Plan
from dil.planning import SavedPlan
from dil.spi.state_store import StateStore
from dil.state import open_store

log = logging.getLogger(__name__)

_PATTERN = "ms.source.files.pattern"
_LOGIN = re.compile(r"\A([^/]*//)[^/]*@")


def plan_job(
    job: Job, *, now_ms: int, clock: Callable[[], int] | None = None, explain: bool = False
) -> SavedPlan:
    """Return what a run at ``now_ms`` (epoch ms UTC) would do; reads state, changes nothing.

    ``explain`` keeps what is not due, with the reason. What is returned can be kept as a file and
    given to a run.
    """
    with open_store(job.state, job.name, clock=clock or (lambda: now_ms)) as store:
        problem = admission.changed_shape(job, store)
        if problem is not None:
            log.warning("a run would refuse this plan: %s", problem.message)
        head = store.head()  # before the plan: one that is older than the plan refuses too much
        units = units_of(job, now_ms, _activation(job))
        plan = due(job, store, now_ms, units, explain=explain)
    return SavedPlan(
        job=job.name,
        digest=job.digest,
        backfill=job.planning.backfill,
        head=None if head is None else str(head["hash"]),
        plan=plan,
    )


def due(
    job: Job,
    store: StateStore,
    now_ms: int,
    units: Sequence[str] | None,
    *,
    explain: bool = False,
) -> Plan:
    """Return what is due at ``now_ms`` (epoch ms UTC) with these units (``units_of``)."""
    history = store.history() if job.state.enabled else planning.BareHistory({})
    return planning.plan(
        job.planning, now_ms=now_ms, history=history, activation=units, explain=explain
    )


def units_of(
    job: Job, now_ms: int, activation: Sequence[str] | None = None
) -> Sequence[str] | None:
    """Return the units as compact JSON: those of the source, if it names them, and warn of none.

    Raises:
        SourceError: the source cannot be asked.
    """
    found = listed_units(job, now_ms, activation)
    if job.planning.of_source and not found:
        log.warning("%s", nothing_listed(job))
    return found


def listed_units(
    job: Job, now_ms: int, activation: Sequence[str] | None = None
) -> Sequence[str] | None:
    """Return the units as compact JSON; does not warn when there are none.

    Raises:
        SourceError: the source cannot be asked.
    """
    if not job.planning.of_source:
        return activation
    # Imported here: other jobs plan without their connector.
    from dil.model.json import compact
    from dil.spi.connector import Connector
    from dil.spi.registry import load

    connector: type[Connector] = load(job.source.connector)
    return tuple(compact(unit) for unit in connector.units(job, now_ms))


def nothing_listed(job: Job) -> str:
    """Return what to tell of a source that names no units: what was listed, and what matched."""
    uri, pattern = job.source.uri, job.properties.text(_PATTERN)
    place = "ms.source.uri" if uri.startswith("ENC(") else _LOGIN.sub(r"\1", uri)
    units = "files" if job.planning.once else "units"
    matching = f" that match {_PATTERN}={pattern}" if job.planning.once and pattern != ".*" else ""
    return (
        f"{place} was listed and has 0 {units} to read{matching}. Where that is a failure, "
        "ms.work.unit.min.units=1 makes each run that finds nothing new an error"
    )


def approved(job: Job, store: StateStore, now_ms: int, saved: SavedPlan) -> Plan:
    """Return a plan that was kept in a file, its pacing counted from ``now_ms`` (epoch ms UTC).

    Raises:
        ConfigError: it is of another job or another configuration.
        PlanningError: state has changed since it was made.
    """
    admission.refuse_stale_plan(job, saved, store.head())
    late = now_ms - saved.plan.now
    work_units = tuple(
        structs.replace(unit, not_before=unit.not_before + late) if unit.not_before else unit
        for unit in saved.plan.work_units
    )
    return replace(saved.plan, work_units=work_units)


def _activation(job: Job) -> tuple[str, ...] | None:
    if not job.properties.get("ms.secondary.input"):
        return None
    # Imported here: a job without secondary input plans without what reads it.
    from dil.extraction.secondary import read_activation
    from dil.secondary_access import access

    return read_activation(job.properties, access(job))
