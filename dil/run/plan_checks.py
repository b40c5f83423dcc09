"""Refuses plans that would read everything again, use old state, or shorten a reading."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import starmap

import msgspec

from dil import planning
from dil.errors import ConfigError, PlanningError, StateError
from dil.model.dataset import PublishedFile, UnitEntry
from dil.model.history import History, record_of
from dil.model.interval import Interval
from dil.model.job import Job, PlanningSpec, PublishMode
from dil.model.json import JsonObject
from dil.model.work_unit import Plan
from dil.observe.progress import counted
from dil.planning import SavedPlan
from dil.planning.partitions import partition
from dil.spi.state_store import StateStore
from dil.state.blocks.source_state import PENDING
from dil.state.work_units.signatures import parts_of_signature
from dil.text.zones import find_zone, moment

log = logging.getLogger(__name__)

_PLAN_AGAIN = "dil plan JOB.conf --out FILE"


def changed_shape(job: Job, store: StateStore, now_ms: int) -> ConfigError | None:
    """Return an error if the watermark's new shape would lose records, else None (rule P33)."""
    return shape_refusal(job, store.recorded_shape(), store.unit_entries, now_ms)


def shape_refusal(
    job: Job, known: str | None, entries: Callable[[], Iterable[UnitEntry]], now_ms: int
) -> ConfigError | None:
    """Return the error of ``changed_shape``; read records only if the recorded shape differs.

    A new ``from`` that only adds or leaves out early partitions loses no record.
    """
    spec = job.planning
    wanted = spec.backfill or spec.ignore_history or not job.state.enabled
    if known is None or wanted or planning.shape(spec) == known:
        return None
    own = [each for each in entries() if each.status != PENDING and _is_planned(each, spec)]
    first = _first_misfit(spec, own, known, now_ms)
    return None if first is None else _losing(job, first, known, now_ms)


def shape_to_record(job: Job, store: StateStore, now_ms: int) -> str:
    """Return the text by which the shape of a job's watermark is kept.

    A unit that the job does not have now may have records of another grid. The text notes this, so
    that the records are compared if the unit comes back.
    """
    spec, known = job.planning, store.recorded_shape()
    shape = planning.shape(spec)
    if known in (None, shape) or spec.units is None:
        return shape
    away = [
        each
        for each in store.unit_entries()
        if each.status != PENDING and not _is_planned(each, spec)
    ]
    is_apart = _first_misfit(spec, away, known, now_ms) is not None
    return planning.shape_among_others(shape) if is_apart else shape


def _first_misfit(
    spec: PlanningSpec, entries: Sequence[UnitEntry], known: str, now_ms: int
) -> Interval | None:
    """Return the first recorded interval that is no partition of the job any more, else None."""
    if not entries:
        return None
    reached = max(each.expected_high for each in entries)
    grid = planning.grid_until(spec, reached, known, now_ms=now_ms)
    recorded = sorted({(each.low, each.expected_high) for each in entries if _is_named(each, spec)})
    lost = grid.misfits(starmap(Interval, recorded))
    renamed = (
        Interval(each.low, each.expected_high) for each in entries if not _is_named(each, spec)
    )
    return min((*lost, *renamed), key=lambda each: (each.low, each.high), default=None)


def _is_planned(entry: UnitEntry, spec: PlanningSpec) -> bool:
    """Return whether a record belongs to a unit of the job; True if the units are not known."""
    parts = parts_of_signature(entry.signature)
    return spec.units is None or parts is None or parts.unit_json in spec.units


def _is_named(entry: UnitEntry, spec: PlanningSpec) -> bool:
    """Return whether a record's signature has the names of the job's watermarks."""
    parts = parts_of_signature(entry.signature)
    unit_key = "" if parts is None else f"{spec.unit_name}.{parts.unit_json}"
    return (
        parts is not None
        and parts.datetime_name == spec.datetime_name
        and parts.unit_key == unit_key
    )


def _losing(job: Job, first: Interval, known: str, now_ms: int) -> ConfigError:
    spec = job.planning
    name = partition(spec, now_ms=now_ms).zone
    zone = find_zone(name)
    is_split = spec.timelabel is not None and spec.timelabel.splits
    what = "zone, partition type and schedule" if is_split else "zone and partition type"
    return ConfigError.single(
        "ms.watermark",
        f"gives other work units than runs of {job.name} recorded. The first record that would be "
        f"lost is for {moment(first.low, zone)} .. {moment(first.high, zone)} {name}:"
        " its rows would be read and published again",
        f"Restore the earlier from, {what}{_as_it_was(known)}, set from to a boundary of the "
        "recorded partitions, or use ms.backfill=true for a one-time range. To read everything "
        "again, replace the dataset with -D ms.publish.mode=replace, or add to it with "
        "--accept-new-signatures.",
        job.properties.origin("ms.watermark"),
    )


def _as_it_was(known: str) -> str:
    """Return the earlier shape as text for a message; empty if another release wrote it."""
    try:
        shape = msgspec.json.decode(known, type=dict[str, object])
    except msgspec.DecodeError:
        return ""
    kind = shape.get("partition")
    said = [shape.get("from"), shape.get("zone"), kind if isinstance(kind, str) else "composite"]
    return f" ({', '.join(str(each) for each in said if each)})"


def refuse_stale_plan(job: Job, saved: SavedPlan, head: JsonObject | None) -> None:
    """Refuse a saved plan if the job or its state has changed since it was made.

    Raises:
        ConfigError: it was made for another job or configuration.
        PlanningError: state has changed since it was made.
    """
    if saved.job != job.name:
        raise ConfigError.single(
            "--plan",
            f'is a plan of job "{saved.job}", but this job is "{job.name}"',
            f"Make one: {_PLAN_AGAIN}",
        )
    if saved.digest not in job.known_digests or saved.backfill != job.planning.backfill:
        raise ConfigError.single(
            "--plan",
            "was made with another configuration: the job file, an included file, or a -D flag "
            "changed since",
            f"Give the same -D flags to both commands, or make the plan again: {_PLAN_AGAIN}",
        )
    if saved.head != (None if head is None else head["hash"]):
        raise PlanningError(
            "the plan is out of date: a run or an operator has changed the state since it was made",
            f"Make the plan again: {_PLAN_AGAIN}",
        )


def refuse_shorter_windows(job: Job, plan: Plan, history: History) -> None:
    """Refuse to replace a reading of a partition by another one that ends earlier."""
    if job.publishing.mode is not PublishMode.WINDOW_REPLACE:
        return
    for unit in plan.work_units:
        record = record_of(unit, history)
        if record is not None and record.high is not None and record.high > unit.high:
            raise PlanningError(
                f"work unit {unit.signature} was read up to {record.high}; this run would replace "
                f"its files by a reading up to {unit.high}, and the rows in between would be lost",
                "Let the range end on a partition boundary, or at or after that time; an earlier "
                "--now has the same effect.",
            )


def refuse_pruned_units(
    job: Job, store: StateStore, plan: Plan, live: Iterable[PublishedFile]
) -> None:
    """Refuse to append work units whose rows are published, and whose records were pruned since.

    Raises:
        StateError: rows would be read and appended a second time.
    """
    spec = job.planning
    reads_all = spec.ignore_history or spec.backfill or not job.state.enabled
    if job.publishing.mode is not PublishMode.APPEND or reads_all:
        return
    resets = tuple(store.blocks_of_kind("ResetState"))
    if not resets:  # nothing was pruned, so the live files need not be looked through
        return
    due = {unit.signature: unit for unit in plan.work_units}
    held = [file for file in live if not due.keys().isdisjoint(file.signatures)]
    history = store.history()
    unread = {
        signature
        for signature in due.keys() & {each for file in held for each in file.signatures}
        if record_of(due[signature], history) is None
    }
    from dil.state.amendments.last_act import pruned_units  # few runs come here, and no plan

    pruned = pruned_units(resets, store.blocks(), unread)
    doubled = [file for file in held if not pruned.isdisjoint(file.signatures)]
    if own := store.own_files(doubled):
        raise StateError(
            f"{min(pruned)} has rows in {min(own)}, and dil state prune deleted its record when "
            f"it was outside of the job's range: the rows of {counted(len(pruned), 'work unit')} "
            "would be read and appended a second time",
            "Nothing was changed. Set the range of ms.watermark back, or read everything again "
            "once with -D ms.publish.mode=replace. To append all the same: "
            "--accept-new-signatures.",
        )


def warn_of_lost_state(
    job: Job, store: StateStore, live: Sequence[PublishedFile], *, is_first: bool
) -> None:
    """Warn if the dataset seems to have rows of this job, but state has no run of the job.

    Files that the state knows do not count: an operator has made the job forget the work units of
    these files. Nor do dumps: a later dump of the same name replaces the file.
    """
    is_append = job.publishing.mode is PublishMode.APPEND and job.state.enabled
    rows = [file for file in live if not file.is_dump]
    if not (rows and is_append and is_first):
        return
    unknown = len(rows) - len(store.own_files(rows))
    if unknown:
        log.warning(
            "the dataset holds %s that no run of this job has published, according to the state "
            "store: if the job has published them, their rows are now appended a second time",
            counted(unknown, "file"),
        )
