"""Refuses plans that read everything again, undo a newer state, or shorten what was read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from dil import planning
from dil.errors import ConfigError, PlanningError
from dil.model.dataset import PublishedFile
from dil.model.history import History
from dil.model.job import Job, PublishMode
from dil.model.json import JsonObject
from dil.model.work_unit import Plan
from dil.observe.progress import counted
from dil.planning import SavedPlan
from dil.spi.state_store import StateStore

log = logging.getLogger(__name__)

_PLAN_AGAIN = "dil plan JOB.conf --out FILE"


def changed_shape(job: Job, store: StateStore, now_ms: int) -> ConfigError | None:
    """Return the error of a watermark that would extract everything again (rule P33)."""
    return shape_refusal(job, store.recorded_shape(), store.history, now_ms)


def shape_refusal(
    job: Job, known: str | None, history: Callable[[], History], now_ms: int
) -> ConfigError | None:
    """Do as ``changed_shape`` for a recorded shape; read history only where it differs.

    A ``from`` that only adds earlier partitions is no other shape.
    """
    shape = planning.shape(job.planning)
    labels = job.planning.timelabel
    is_split = labels is not None and labels.splits
    what = "zone, partition type and schedule" if is_split else "zone and partition type"
    wanted = job.planning.backfill or job.planning.ignore_history or not job.state.enabled
    if known is None or shape == known or wanted or history().is_empty():
        return None
    if planning.extends(job.planning, known, now_ms=now_ms):
        return None
    return ConfigError.single(
        "ms.watermark",
        f"is now {shape}; earlier runs of {job.name} had {known}. Partitions that are recorded "
        "are none of its own, and everything would be extracted and published again",
        f"Restore the earlier from, {what}, let from begin earlier on a boundary of the recorded "
        "partitions, use ms.backfill=true for a one-time "
        "range, or accept it with --accept-new-signatures.",
        job.properties.origin("ms.watermark"),
    )


def refuse_stale_plan(job: Job, saved: SavedPlan, head: JsonObject | None) -> None:
    """Refuse a saved plan that would no longer do what its reader approved.

    Raises:
        ConfigError: it was made for another job or configuration.
        PlanningError: state has changed since it was made.
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
    """Warn where the dataset has rows of this job, as it seems, and state knows of no run.

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
