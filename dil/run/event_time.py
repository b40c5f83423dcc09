"""The event watermark of a run: how it judges rows, and how rows move it and the meter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msgspec import UNSET

from dil.model.dataset import PublishedFile, UnitEntry
from dil.model.event_tally import EVENT_TIME, EventContext
from dil.model.event_time import EventTimeSpec
from dil.model.grace import ProbeRest
from dil.model.history import History, record_of
from dil.model.job import Job, PublishMode
from dil.model.json import JsonObject
from dil.model.report import EventCounts, EventSummary
from dil.model.task import TaskReport
from dil.model.work_unit import Plan, WorkUnit
from dil.spi.state_store import StateStore

if TYPE_CHECKING:
    from dil.eventtime.kept import KeptWatermark
    from dil.publishing.staged import StagedResult
    from dil.run.active_run import ActiveRun
    from dil.task.event_time import TimesOfRows


# The greatest high that was ever forgotten, epoch ms UTC: a member of the checkpoint.
_FORGOTTEN = "forgotten_until"


@dataclass(frozen=True, slots=True)
class EventStep:
    """How the rows that a run publishes move the watermark.

    ``checkpoints`` are set in the transaction of the run's commit: if a later run finishes the
    commit, the watermark still moves as this run decided.
    """

    checkpoints: Mapping[str, JsonObject]
    summary: EventSummary | None = None


def event_context(run: ActiveRun, plan: Plan, history: History) -> EventContext | None:
    """Return the object that judges a plan's rows; None for a job without event column."""
    spec = run.job.events
    if spec is None:
        return None
    # Imported here, like the kept watermark: few jobs have event time, and Arrow slows a plan.
    from dil.run.grace_measure import meter_context

    live = run.destination.live()
    known = {*_published(run, plan, history, live), *_left_behind(run, plan)}
    for until in _forgotten_until(run.store):  # forgotten work units may have been published before
        known.update(unit.signature for unit in plan.work_units if unit.low < until)
    files = live if run.job.publishing.keeps_files else ()
    effective = kept(spec, run.store).watermark.effective
    return EventContext(effective, frozenset(known), meter_context(run, plan, files))


def staged_with_same_watermark(
    job: Job, store: StateStore, staged: Iterable[StagedResult]
) -> tuple[StagedResult, ...]:
    """Return the staged results whose rows were judged by the present watermark."""
    found = tuple(staged)
    if job.events is None or not found:
        return found
    effective = kept(job.events, store).watermark.effective
    return tuple(
        each
        for each in found
        if each.report.events is not UNSET and each.report.events.effective == effective
    )


def advance_watermark(
    job: Job,
    store: StateStore,
    now: int,
    good: Sequence[TaskReport],
    grace_ms: int | None = None,
    left: ProbeRest | None = None,
) -> EventStep:
    """Return how the published work units, in the plan's order, move the watermark.

    The work units' measures of late rows are added to the job's meter. ``grace_ms`` is how far
    back the run read, None if each work unit has its own value. ``left`` is where the run stopped.

    Raises:
        ConfigError: the rows belong to too many partitions, or to a partition without delay.
    """
    spec = job.events
    if spec is None:
        return EventStep({})
    before = kept(spec, store)
    tallies = [each.events for each in good if each.events is not UNSET]
    after = before.after(tallies, now)
    counts = EventCounts()
    for each in tallies:
        counts = counts.plus(each)
    judged_by = before.watermark.effective
    from dil.run.grace_measure import lateness_checkpoints

    checkpoints = {
        EVENT_TIME: after.members(),
        **lateness_checkpoints(job, store, good, grace_ms, left),
    }
    return EventStep(checkpoints, after.summary(judged_by, counts, now))


def with_forgotten(step: EventStep, store: StateStore, forgotten: Sequence[UnitEntry]) -> EventStep:
    """Return the step of a run that forgets work units, whose rows have moved the watermark."""
    members = step.checkpoints.get(EVENT_TIME)
    if members is None:
        return step
    members = {**members, **_members_of_forgotten(store, forgotten)}
    return replace(step, checkpoints={**step.checkpoints, EVENT_TIME: members})


def checkpoints_with_forgotten(
    store: StateStore, forgotten: Sequence[UnitEntry]
) -> Mapping[str, JsonObject]:
    """Return the checkpoints of a commit that forgets work units and does not move the watermark.

    They are empty if no run has moved a watermark yet.
    """
    kept, members = store.checkpoint(EVENT_TIME), _members_of_forgotten(store, forgotten)
    return {EVENT_TIME: {**kept, **members}} if kept and members else {}


def newest_success(job: Job, history: History, units: Iterable[WorkUnit]) -> int | None:
    """Return the greatest high watermark of succeeded work units.

    None if there are none, or if the job has no event column.
    """
    if job.events is None:
        return None
    highs = (_high(unit, history) for unit in units)
    return max((high for high in highs if high is not None), default=None)


def times_of_merged(job: Job) -> TimesOfRows | None:
    """Return the object that finds event times of merged rows; None if no rows are merged."""
    if job.events is None or job.publishing.merge is None:
        return None
    from dil.task.event_time import TimesOfRows  # few jobs have event time, and Arrow slows a plan

    return TimesOfRows(job.events.column)


def kept(spec: EventTimeSpec, store: StateStore) -> KeptWatermark:
    """Return the watermark that a job's state keeps."""
    from dil.eventtime.kept import open_kept  # few jobs have event time, and Arrow slows a plan

    return open_kept(spec, store.checkpoint(EVENT_TIME))


def current(job: Job, store: StateStore) -> EventSummary | None:
    """Return the kept event time of a job, with the counts of all runs."""
    if job.events is None:
        return None
    found = kept(job.events, store)
    now = found.now if found.now is not None else 0
    return found.summary(found.watermark.effective, found.counts, now)


def _published(
    run: ActiveRun, plan: Plan, history: History, live: Sequence[PublishedFile]
) -> Iterable[str]:
    """Yield the signatures of published work units that the plan does not show as published."""
    unknown = [unit for unit in plan.work_units if unit.last_high is None]
    is_anew = run.job.publishing.mode is PublishMode.REPLACE  # names may have changed
    if is_anew and (live or not history.is_empty()):
        yield from (unit.signature for unit in unknown)
        return
    if run.job.planning.ignore_history:
        yield from (unit.signature for unit in unknown if _high(unit, history) is not None)
    if unknown:
        there = {name for file in live for name in file.signatures}
        yield from (unit.signature for unit in unknown if unit.signature in there)


def _members_of_forgotten(store: StateStore, forgotten: Sequence[UnitEntry]) -> JsonObject:
    """Return the member that later runs need, so that they do not judge forgotten rows again."""
    highs = [each.high for each in forgotten if each.high is not None]
    return {_FORGOTTEN: max([*highs, *_forgotten_until(store)])} if highs else {}


def _forgotten_until(store: StateStore) -> tuple[int, ...]:
    """Return the greatest high that was ever forgotten, epoch ms UTC; empty if none was."""
    until = store.checkpoint(EVENT_TIME).get(_FORGOTTEN)
    return (until,) if isinstance(until, int) else ()


def _left_behind(run: ActiveRun, plan: Plan) -> Iterable[str]:
    """Yield the work units that end before the newest success, which has moved the watermark.

    These work units failed, were left over, or came with an earlier start of the range. Their rows
    are not judged. Under ms.late.action=fail they are judged, because that action loses no row.
    """
    events, planning = run.job.events, run.job.planning
    if events is None or events.late_action == "fail" or planning.partition == "none":
        return  # without partitions nothing says which work unit comes first
    highs = [] if run.newest_high is None else [run.newest_high]
    if plan.cutoff is not None:
        highs.append(plan.cutoff - plan.abstinent_ms + plan.grace_ms)
    newest = max(highs, default=None)
    if newest is None:
        return  # nothing succeeded yet
    for unit in plan.work_units:
        if unit.last_high is None and unit.partition.high <= newest:
            yield unit.signature


def _high(unit: WorkUnit, history: History) -> int | None:
    """Return the high watermark of a work unit, None if it never succeeded."""
    record = record_of(unit, history)
    return record.high if record is not None and record.succeeded_once else None
