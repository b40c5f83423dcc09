"""Measures how late the rows of a job come; the checkpoint ``lateness`` keeps the measures."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import UNSET

from dil.eventtime.lateness import (
    LATENESS,
    LEAST_COMMITS,
    LEAST_ROWS,
    CommitLateness,
    Histogram,
    LatenessMeter,
    merge,
)
from dil.model.dataset import PublishedFile
from dil.model.event_tally import MeterContext, PublishedRows, UnitLateness
from dil.model.grace import GraceMeasure, ProbeRest
from dil.model.job import Job, PublishMode
from dil.model.json import JsonObject
from dil.model.task import TaskReport
from dil.model.work_unit import Plan, unit_hash
from dil.observe.progress import counted
from dil.publishing.late_files import late_files
from dil.publishing.layout import unit_hash_in
from dil.run.active_run import ActiveRun
from dil.spi.state_store import StateStore

log = logging.getLogger(__name__)


def lateness_meter(store: StateStore) -> LatenessMeter:
    """Return the lateness meter of a job's commits; it is empty before the first commit.

    Raises:
        ConfigError: a newer release wrote the meter.
    """
    members = store.checkpoint(LATENESS)
    return LatenessMeter.of(members) if members else LatenessMeter()


def grace_measure(job: Job, store: StateStore) -> GraceMeasure:
    """Return the measures for the planner."""
    meter = lateness_meter(store)
    return GraceMeasure(
        meter.recommended_ms(job.planning.grace),
        meter.runs_since_probe,
        rows=meter.weighed.rows,
        commits=len(meter.commits),
        least_rows=LEAST_ROWS,
        least_commits=LEAST_COMMITS,
        rest=meter.rest,
    )


def is_measured(job: Job) -> bool:
    """Return whether the runs of a job measure how late its rows come; runs of backfills do not."""
    return job.events is not None and job.state.enabled and not job.planning.backfill


def meter_context(run: ActiveRun, plan: Plan, live: Iterable[PublishedFile]) -> MeterContext | None:
    """Return the facts by which tasks measure how late rows come; None if the run measures none.

    ``live`` are the files of the dataset, empty if a database has the rows.
    """
    job = run.job
    if not is_measured(job):
        return None
    largest = lateness_meter(run.store).largest
    if largest is None:
        return MeterContext(grace_ms=plan.grace_ms)
    files = [each for each in live if not each.is_dump]
    is_known = _is_read_again(job) and not any(
        each.has_unknown_units or not each.signatures for each in files
    )
    return MeterContext(largest, plan.grace_ms, _published(run, plan, files), is_known)


def _is_read_again(job: Job) -> bool:
    """Return whether this process can read the published rows again."""
    return job.publishing.keeps_files and job.writing.own is None


def _published(
    run: ActiveRun, plan: Plan, files: Iterable[PublishedFile]
) -> Mapping[str, tuple[PublishedRows, ...]]:
    """Return the published rows that the work units of a plan have or replace, by signature.

    Rows in the side table are included: they are not new when they are read again.
    """
    mode = run.job.publishing.mode
    if mode is PublishMode.MERGE or not _is_read_again(run.job):
        return {}
    wanted = {unit.signature for unit in plan.work_units}
    by_hash = {unit_hash(signature): signature for signature in wanted}
    found: dict[str, list[PublishedRows]] = defaultdict(list)
    beside: dict[str, list[PublishedRows]] = defaultdict(list)
    every: list[PublishedRows] = []
    for file in files:
        path = run.filesystem.path_of(file.uri)
        if mode is PublishMode.REPLACE:
            every.append(PublishedRows(path, 0, file.rows))
        for part in file.unit_rows:
            if part.signature in wanted:
                found[part.signature].append(PublishedRows(path, part.start, part.rows))
    for late in late_files(run.job.publishing, run.filesystem):
        signature = by_hash.get(unit_hash_in(late.path))
        if signature is not None:
            beside[signature].append(PublishedRows(late.path, 0, None))
    # A snapshot replaces all rows, even if its work units have other names each time.
    rows = {each: (*(found.get(each) or every), *beside.get(each, ())) for each in wanted}
    return {signature: there for signature, there in rows.items() if there}


def lateness_checkpoints(
    job: Job,
    store: StateStore,
    good: Iterable[TaskReport],
    grace_ms: int | None,
    left: ProbeRest | None,
) -> Mapping[str, JsonObject]:
    """Return the checkpoint of the job's meter after a commit, to be set in its transaction.

    Args:
        job: The job.
        store: Its state.
        good: The reports of the work units that are published.
        grace_ms: How far back the run read; None for the values of its work units.
        left: Where the run stopped if work is left, None if it read everything that was due. A
            probe counts only if it is complete.
    """
    if job.events is None:
        return {}
    meter = lateness_meter(store)
    units = [
        each.events.lateness
        for each in good
        if each.events is not UNSET and each.events.lateness is not UNSET
    ]
    largest = max((each.largest for each in units if each.largest is not None), default=None)
    if not is_measured(job) or not units:
        after = meter.with_largest(largest)
        return {} if after == meter else {LATENESS: after.members()}
    reach = max(each.grace_ms for each in units) if grace_ms is None else grace_ms
    planning = job.planning
    is_auto = planning.grace.is_measured
    is_probing = reach >= planning.grace.high_ms or (is_auto and meter.rest is not None)
    is_probe = is_probing and left is None
    rest = left if is_auto and is_probing else None
    if rest is not None and not rest.through and meter.rest and meter.rest.low == rest.low:
        rest = meter.rest  # the run read no unit of the partition at which the probe resumed
    # Files that are read once each, and a full reading: no row is out of reach.
    is_whole = is_probe or bool(planning.once) or planning.ignore_history
    commit = _commit(meter, units, largest, reach, is_whole=is_whole)
    after = meter.after(commit, is_probe=is_probe, rest=rest)
    return {LATENESS: after.with_largest(largest).members()}


def _commit(
    meter: LatenessMeter,
    units: Sequence[UnitLateness],
    largest: int | None,
    grace_ms: int,
    *,
    is_whole: bool,
) -> CommitLateness | None:
    """Return the measures of a commit, None if it has none; ``is_whole`` means that all rows count.

    A commit does not count if it is unknown of some rows whether they are new. Then only rows that
    came in time are known to be new, and these alone would give too short a grace period.
    """
    before = meter.largest
    unmeasured = sum(each.unmeasured for each in units)
    if unmeasured:
        log.info(
            "the lateness of new rows is not measured: %s read again", counted(unmeasured, "row")
        )
    if before is None or largest is None or unmeasured:
        return None
    histograms = (
        Histogram(dict(each.rows_by_edge)) for each in units if each.largest_before == before
    )
    return CommitLateness(merge(histograms), grace_ms, is_whole, before, max(before, largest))
