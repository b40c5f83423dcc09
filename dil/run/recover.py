"""Recover: publish decided or complete results of earlier runs before a new plan."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from dil.model.dataset import RunRecord
from dil.model.event_time import Strategy
from dil.model.job import CommitPolicy, Job
from dil.observe.progress import counted
from dil.publishing import layout, start_marker
from dil.publishing.closed_labels import settle_registry
from dil.publishing.own_folders import split_runs
from dil.publishing.recovery import finished_units, staged_work, unfinished_units
from dil.publishing.staged import StagedResult, read_plan
from dil.run.active_run import ActiveRun
from dil.run.commit import append
from dil.run.publish import ResultsToPublish, publish_results

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    """The ids of the finished runs, and notes for people."""

    runs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def recover(run: ActiveRun) -> Recovered:
    """Finish a begun publish; publish results of a crashed run with the policy ``successful``.

    Raises:
        CommitUnknownError: the files of a begun publish are gone, or it had another destination.
        DilError: publishing or the state store failed; the next run tries again.
    """
    spec = run.job.publishing
    pending = run.publisher.finish_pending(run.lease)
    finished = () if pending is None else (pending.run_id,)
    settle_registry(run.publisher, run.lease)
    earlier, strange = split_runs(run.store.unfinished_runs(), spec, run.job.name, run.filesystem)
    for each in strange:
        log.warning(
            "run %s is recorded with the staging folder %s, which this job does not use: nothing "
            "there is read or deleted; `dil runs clean` forgets it",
            each.run_id,
            each.staging_dir,
        )
    markers = layout.sending_dir(spec, run.job.name)
    start_marker.forget_committed(run.filesystem, markers, earlier)
    # Only the newest crashed run with results counts: its commit supersedes those of other runs.
    for crashed in reversed(earlier):
        staged = staged_work(run.filesystem, crashed) if _is_usable(crashed, run.job) else ()
        if staged:
            notes = _publish_successes(run, crashed, staged)
            return Recovered((*finished, crashed.run_id), notes)
    return Recovered(finished)


def _is_usable(crashed: RunRecord, job: Job) -> bool:
    """Return whether the completed work units of a crashed run may be published unchanged.

    They may not in three cases. Under another configuration, the rows would be others. If history
    is ignored, the plan has these work units again, and adopts them. If rows move an event
    watermark, the remaining rows would be judged by another watermark than without the crash.
    """
    if job.query is not None:
        return False  # parts of a query's result are useless alone, and are made again from files
    is_read_again = job.planning.backfill or job.planning.ignore_history or not job.state.enabled
    return (
        crashed.is_open
        and crashed.policy == CommitPolicy.SUCCESSFUL.value
        and crashed.digest in job.known_digests
        and not is_read_again
        and (job.events is None or job.events.strategy is Strategy.NONE)
    )


def _publish_successes(
    run: ActiveRun, crashed: RunRecord, staged: Sequence[StagedResult]
) -> tuple[str, ...]:
    """Publish and commit the complete results of a crashed run; return notes for people."""
    log.info("run %s completed %s", crashed.run_id, counted(len(staged), "work unit"))
    plan = read_plan(run.filesystem, crashed.staging_dir)
    done = {each.work_unit.signature for each in staged}
    published = publish_results(
        run,
        ResultsToPublish(
            crashed.run_id,
            crashed.now,
            staged[0].full_extract,
            finished_units(staged, plan, run.job.publishing, run.filesystem),
            unfinished_units(plan, done, "the run ended before this work unit did"),
        ),
    )
    append(run, published)
    return published.notes
