"""Forget: a replace removes the records of work units whose rows it removes (rule U16).

Runs that do not replace rely on the records: a record of a success without rows would keep them
from reading the rows again. The next run may be one of them, by its options or a changed job file.
The replace may be a run without state, which leaves only the other records as they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from dil.config.state import DATASET_KIND, ENABLED, KIND
from dil.model.dataset import RunWork, UnitEntry, WorkUnitOutcome
from dil.model.job import Job, PublishMode
from dil.model.work_unit import Plan
from dil.spi.state_store import StateStore
from dil.state.blocks.source_state import PENDING


def forgotten_by_plan(job: Job, store: StateStore, plan: Plan) -> tuple[UnitEntry, ...]:
    """Return the records that a run of a plan would remove, ordered by partition start."""
    if not (plan.work_units and _forgets(job)):
        return ()
    return _not_reached_by(store, plan)


def forgotten_by_run(
    job: Job, store: StateStore, outcomes: Iterable[WorkUnitOutcome]
) -> tuple[UnitEntry, ...]:
    """Return the records that the commit of a run's outcomes removes, ordered by partition start.

    A work unit that the run read is among them if an earlier run read it further: the rows after
    the run's end are gone, and the high watermark must not hide them.
    """
    if not _forgets(job):
        return ()
    return _not_reached(
        store, ((each.signature, each.high) for each in outcomes if each.high is not None)
    )


def unrecorded_by_run(job: Job, store: StateStore, work: RunWork) -> tuple[str, ...]:
    """Return the work units that the next run would append again because this one has no state.

    Empty unless ``-D`` switches the state off for this run and earlier runs recorded successes.
    """
    is_off = not job.state.enabled and job.publishing.usually_appends
    if not (is_off and job.properties.is_of_one_run(ENABLED, DATASET_KIND, KIND)):
        return ()
    highs = {each.signature: each.high for each in store.unit_entries() if each.high is not None}
    if not highs:
        return ()
    for signature in work.forgotten:
        del highs[signature]
    once = job.planning.once  # a file is read once, whatever the high watermark
    return tuple(
        each.signature
        for each in work.outcomes
        if each.high is not None
        and each.high > highs.get(each.signature, each.low)
        and not (once and each.signature in highs)
    )


def _not_reached_by(store: StateStore, plan: Plan) -> tuple[UnitEntry, ...]:
    """Return the records of successes that a run of a plan does not read as far as before."""
    return _not_reached(store, ((unit.signature, unit.high) for unit in plan.work_units))


def is_partial(store: StateStore, plan: Plan) -> bool:
    """Return whether a run of a plan leaves out rows that earlier runs read.

    A work unit that an operator forgot counts as never read, but its rows may be published.
    """
    planned = {unit.signature for unit in plan.work_units}
    return bool(_not_reached_by(store, plan)) or any(
        entry.status == PENDING and entry.signature not in planned for entry in store.unit_entries()
    )


def _forgets(job: Job) -> bool:
    is_replace = job.publishing.mode is PublishMode.REPLACE
    return is_replace and job.query is None


def _not_reached(store: StateStore, read: Iterable[tuple[str, int]]) -> tuple[UnitEntry, ...]:
    highs = dict(read)
    return tuple(
        entry
        for entry in store.unit_entries()
        if entry.high is not None and entry.high > highs.get(entry.signature, entry.low)
    )
