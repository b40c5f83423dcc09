"""What must hold before a run may go on, or take over what others left: no row lost or doubled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from dil import planning
from dil.errors import ConfigError, PlanningError
from dil.model.dataset import PublishedFile, RunRecord
from dil.model.history import History
from dil.model.job import CommitPolicy, Job, PublishMode
from dil.model.json import JsonObject
from dil.model.task import TaskReport
from dil.model.work_unit import Plan
from dil.observe.progress import counted
from dil.planning import SavedPlan
from dil.spi.state_store import StateStore

log = logging.getLogger(__name__)

_PLAN_AGAIN = "dil plan JOB.conf --out FILE"


def refuse_lost_state(job: Job, environ: Mapping[str, str]) -> None:
    """Refuse state beside the job file on a driver whose machine is gone after the run."""
    from dil.execution.session import is_on_cluster

    if job.state.is_default_place and is_on_cluster(environ):
        raise ConfigError.single(
            "state.store.dir",
            "is not set, and the driver runs on a machine of the cluster, so that the watermarks "
            "would be lost with it",
            "Set it to a folder that every driver sees, or submit with --deploy-mode client.",
        )


def changed_shape(job: Job, store: StateStore) -> ConfigError | None:
    """Return the error of a watermark that would extract everything again (spec README 38)."""
    return shape_refusal(job, store.recorded_shape(), store.history)


def shape_refusal(
    job: Job, known: str | None, history: Callable[[], History]
) -> ConfigError | None:
    """Do as ``changed_shape`` for a recorded shape; history is only looked at where it differs."""
    shape = planning.shape(job.planning)
    labels = job.planning.timelabel
    is_split = labels is not None and labels.splits
    what = "zone, partition type and schedule" if is_split else "zone and partition type"
    wanted = job.planning.backfill or job.planning.ignore_history or not job.state.enabled
    if known is None or shape == known or wanted or history().is_empty():
        return None
    return ConfigError.single(
        "ms.watermark",
        f"is now {shape}; earlier runs of {job.name} had {known}. No work unit would find its "
        "record, and everything would be extracted and published again",
        f"Restore the earlier from, {what}, use ms.backfill=true for a one-time "
        "range, or accept it with --accept-new-signatures.",
        job.properties.origin("ms.watermark"),
    )


def refuse_stale_plan(job: Job, saved: SavedPlan, head: JsonObject | None) -> None:
    """Refuse a kept plan that would no longer do what was read in it.

    Raises:
        ConfigError: it is of another job or another configuration.
        PlanningError: the state that it was made on is no longer the newest.
    """
    if saved.job != job.name:
        raise ConfigError.single(
            "--plan",
            f'is a plan of job "{saved.job}", this is "{job.name}"',
            f"Make one: {_PLAN_AGAIN}",
        )
    if saved.digest not in job.known_digests or saved.backfill != job.planning.backfill:
        raise ConfigError.single(
            "--plan",
            "was made with another configuration: the job file, what it includes, or a -D flag "
            "changed since",
            f"Give the same -D flags to both commands, or make it anew: {_PLAN_AGAIN}",
        )
    if saved.head != (None if head is None else head["hash"]):
        raise PlanningError(
            "the plan is out of date: a run or an operator has changed the state since it was made",
            f"Make the plan again: {_PLAN_AGAIN}",
        )


def refuse_shorter_windows(job: Job, plan: Plan, history: History) -> None:
    """Refuse to replace what was read of a partition by a reading that ends earlier."""
    if job.publishing.mode is not PublishMode.WINDOW_REPLACE:
        return
    for unit in plan.work_units:
        start = unit.partition.low
        record = history.records(unit.unit_key, start, start + 1).get(unit.signature)
        if record is not None and record.high is not None and record.high > unit.high:
            raise PlanningError(
                f"work unit {unit.signature} was read up to {record.high}; this run would replace "
                f"its files by a reading up to {unit.high}, and the rows between would be gone",
                "Let the range end on a partition boundary, or at or after what was read; "
                "an earlier --now does the same harm.",
            )


def warn_of_lost_state(
    job: Job, store: StateStore, history: History, live: Sequence[PublishedFile]
) -> None:
    """Say it when rows would be appended that state, were it there, would know of.

    Files that this state knows are no sign of that: an operator let their work units be forgotten.
    """
    is_append = job.publishing.mode is PublishMode.APPEND and job.state.enabled
    if not (live and is_append and history.is_empty()):
        return
    unknown = len(live) - len(store.own_files(live))
    if unknown:
        log.warning(
            "the dataset holds %s that the state store knows of no run of this job to have "
            "published: if they are its own, their rows are now appended once more",
            counted(unknown, "file"),
        )


def publishes_its_successes(run: RunRecord, job: Job) -> bool:
    """Tell whether a crashed run's completed work units are to be published as they are.

    Not under another configuration: their rows would not be what this one describes. Not where
    history is ignored either: the plan would take them once more, and adopts them instead.
    """
    return (
        run.is_open
        and run.policy == CommitPolicy.SUCCESSFUL.value
        and run.digest in job.known_digests
        and _looks_at_history(job)
    )


def is_whole(job: Job, plan: Plan, reports: Sequence[TaskReport]) -> bool:
    """Tell whether a run has all rows of the source; say it where only rows put aside are missing.

    What was not due was not read, and of a row that was put aside nobody knows the key.
    """
    good = sum(report.failure is None for report in reports)
    if plan.left or plan.skipped or good < len(plan.work_units):
        return False
    dropped = sum(report.counters.rows_dropped for report in reports)
    merge = job.publishing.merge
    if dropped and merge is not None and merge.deletes_missing:
        log.warning(
            "%s did not fit, and nobody knows which keys are in such rows: what is missing at the"
            " source is not deleted by this run",
            counted(dropped, "row"),
        )
    return not dropped


def _looks_at_history(job: Job) -> bool:
    """Tell whether a published work unit keeps the plan from taking it again."""
    return job.state.enabled and not (job.planning.backfill or job.planning.ignore_history)
