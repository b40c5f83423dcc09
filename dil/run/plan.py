"""Plan: find the due work units, and the units that earlier runs have staged already.

This step records nothing but the shape of the watermark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dil import planning
from dil.errors import ConfigError
from dil.model.closed_labels import ClosedLabels
from dil.model.event_tally import EventContext
from dil.model.job import Job, QuerySpec
from dil.model.secondary import SecondaryRows
from dil.model.task import TaskReport
from dil.model.work_unit import Plan, Reason, WorkUnit
from dil.planning import SavedPlan
from dil.publishing.recovery import AdoptableWork, ReusePolicy, SentResults, staged_work
from dil.publishing.run_commit import recorded_schema
from dil.publishing.staged import StagedPlan
from dil.run import plan_builder, plan_checks
from dil.run.active_run import ActiveRun
from dil.run.closed_labels import closed_labels_for_side_table, staged_with_same_closed_labels
from dil.run.event_time import event_context, staged_with_same_watermark
from dil.run.inputs import read_inputs
from dil.run.queries.slices import PlannedQuery, as_plan, awaited_slices
from dil.run.schedules import record_schedule
from dil.spi.state_store import StateStore
from dil.state.blocks.source_state import FAILED, failed_in
from dil.state.work_units.signatures import parts_of_signature


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """The work units of a run, and the state of the dataset before that run.

    Attributes:
        plan: The due work units.
        is_first: Whether state has no record of any work unit.
        secondary: The rows of secondary inputs.
        listed: The units that the source lists, if each of its files is read once; else, and for
            the caller's plan, empty.
        gone: Signatures of files that failed earlier and that the source no longer lists.
        remainders: Unread parts of partitions that would look read after a backfill.
        adopted: Reports of work units that earlier runs staged.
        fresh: The work units that have to be extracted.
        known_schema: Recorded schema of the dataset, empty if none is recorded.
        usual_rows: Rows of the last run that published any, None if none did.
        events: Judges rows by their event time; None for a job without event column.
        closed_labels: The closed timelabels; None if their rows are published like other rows.
        query: The slices of the inputs of a derived dataset; None if the job reads a source.
    """

    plan: Plan
    is_first: bool
    secondary: SecondaryRows
    listed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    remainders: tuple[WorkUnit, ...] = ()
    adopted: tuple[TaskReport, ...] = ()
    fresh: tuple[WorkUnit, ...] = ()
    known_schema: str = ""
    usual_rows: int | None = None
    events: EventContext | None = None
    closed_labels: ClosedLabels | None = None
    query: PlannedQuery | None = None

    @property
    def staged_plan(self) -> StagedPlan:
        """Return the plan in the form that is kept in staging."""
        plan = self.plan
        return StagedPlan(tuple(plan.work_units), plan.left_low, self.remainders, plan.missed)


def plan(run: ActiveRun) -> PlannedRun:
    """Return the due work units, or the unfinished work units of the caller's plan.

    Raises:
        ConfigError: the caller's plan is of another job or configuration.
        PlanningError: the caller's plan is out of date, or a window would lose rows.
        SourceError: secondary input or the source's list of units cannot be read.
    """
    job, store, now, saved = run.job, run.store, run.options.now_ms, run.options.plan
    if job.query is not None:
        return _plan_query(run, job.query)
    whole = saved.plan if isinstance(saved, SavedPlan) else saved
    secondary = read_inputs(job, run.options.sleep, () if whole is None else whole.work_units)
    units: Sequence[str] | None = None
    if saved is None:
        units = plan_builder.list_units_or_warn(job, now, secondary.activation)
        _record_shape(run)  # only after the source has listed its units
        history = store.history()
        due = plan_builder.plan_due_units(job, store, now, units)
    else:
        history = store.history()
        due = plan_builder.accept_plan(job, store, now, saved)
        _record_shape(run)
    record_schedule(job, store, run.lease)
    plan_checks.refuse_shorter_windows(job, due, history)
    found = PlannedRun(
        due,
        history.is_empty(),
        secondary,
        listed=tuple(units or ()) if job.planning.once else (),
        gone=_failed_and_gone(job, store, due, units),
        remainders=planning.remainders_past_backfill(job.planning, due, history)
        if job.state.enabled
        else (),
    )
    if not due.work_units:
        return found
    adopted, fresh = _adopt(run, due)
    return replace(
        found,
        adopted=adopted,
        fresh=fresh,
        known_schema=recorded_schema(store) or run.options.known_schema,
        usual_rows=store.last_rows(),
        events=event_context(run, due, history),
        closed_labels=closed_labels_for_side_table(job, store),
    )


def _plan_query(run: ActiveRun, spec: QuerySpec) -> PlannedRun:
    """Plan the due slices of the inputs of a derived dataset as one work unit.

    Raises:
        ConfigError: the caller gave a plan of work units.
        StateError: an input's chain does not continue the blocks that were read.
    """
    if run.options.plan is not None:
        raise ConfigError.single(
            "--plan",
            "is given, but a job with ms.query.inputs takes the new rows of its inputs",
            "Leave it out.",
        )
    return planned_query(run, spec, awaited_slices(run.job, spec, run.options))


def planned_query(run: ActiveRun, spec: QuerySpec, found: PlannedQuery) -> PlannedRun:
    """Return the planned run that takes the slices in ``found`` of the inputs."""
    due, history = as_plan(run.job, spec, found, run.options.now_ms), run.store.history()
    return PlannedRun(
        due,
        history.is_empty(),
        SecondaryRows(),
        fresh=tuple(due.work_units),
        known_schema=recorded_schema(run.store) or run.options.known_schema,
        query=found,
        events=event_context(run, due, history) if found.runs else None,
    )


def refuse_new_shape(run: ActiveRun) -> None:
    """Refuse a shape of the watermark that hides the records of all work units.

    Raises:
        ConfigError: the run would extract everything again, which the caller did not accept.
    """
    if run.job.query is not None:
        return  # a derived dataset has no work units of a source
    problem = plan_checks.changed_shape(run.job, run.store, run.options.now_ms)
    if problem is not None and not run.options.accept_new_signatures:
        raise problem


def _record_shape(run: ActiveRun) -> None:
    """Record the shape of the watermark, on which the signatures of work units depend.

    The search for due work units comes afterwards: under a new shape, nothing counts as read.
    """
    job, store = run.job, run.store
    if not job.state.enabled or job.planning.backfill:
        return
    shape = plan_checks.shape_to_record(job, store, run.options.now_ms)
    if shape != store.recorded_shape():
        store.record_shape(run.lease, shape)


def reuse_policy(job: Job, plan: Plan) -> ReusePolicy:
    """Return the policy for adopting earlier readings: recent ones, and all that sent rows."""
    if job.has_input("payload"):
        return ReusePolicy(grace_ms=0, due_after=0)
    grace = job.planning.grace
    least = grace.low_ms if grace.is_measured else plan.grace_ms
    return ReusePolicy.of(plan, least)


def _adopt(run: ActiveRun, plan: Plan) -> tuple[tuple[TaskReport, ...], tuple[WorkUnit, ...]]:
    """Split a plan into work units that earlier runs staged and units that must be extracted."""
    # Imported here: most runs find nothing due.
    from dil.task.delivery import must_not_repeat

    job = run.job
    is_sent = must_not_repeat(job)
    if job.publishing.is_of_one_time and not is_sent:
        return (), tuple(plan.work_units)
    crashed = [each for each in run.unswept_runs() if each.is_open]
    staged = [result for each in crashed for result in staged_work(run.filesystem, each)]
    pool = (
        SentResults(staged, job.known_digests)
        if is_sent
        else AdoptableWork(
            staged_with_same_closed_labels(
                job, run.store, staged_with_same_watermark(job, run.store, staged)
            ),
            job.known_digests,
            reuse_policy(job, plan),
        )
    )
    adopted, fresh = [], []
    for unit in plan.work_units:
        report = pool.take(unit)
        if report is None:
            fresh.append(unit)
        else:
            adopted.append(report)
    return tuple(adopted), tuple(fresh)


def _failed_and_gone(
    job: Job, store: StateStore, plan: Plan, units: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the signatures of failed files that the source no longer lists.

    Only for sources whose files are read once each. No run tries these files again: they are gone,
    or there is another version. ``units`` are the units that the source lists now, None if it was
    not asked. The work-unit index is searched only if the newest block counts more failures than
    the plan tries again.
    """
    if not (job.planning.once and job.state.enabled and units is not None):
        return ()
    retries = sum(unit.reason is Reason.RETRY for unit in plan.work_units)
    if failed_in(store.head()) <= retries:
        return ()
    listed = frozenset(units)
    failed = (state.signature for state in store.unit_states() if state.status == FAILED)
    return tuple(
        signature
        for signature in failed
        if (parts := parts_of_signature(signature)) is not None and parts.unit_json not in listed
    )
