"""Changed schedules of timelabels: new windows begin where the last old window ended.

See rule T10. A checkpoint keeps all schedules of a job, so that labelled time keeps its labels, and
no time gets two labels or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dil.model.dataset import Lease
from dil.model.job import Job
from dil.model.json import JsonObject
from dil.model.timelabels import EarlierSchedule, LabelUnit, TimelabelSpec
from dil.spi.state_store import StateStore
from dil.storage import filesystem_for

if TYPE_CHECKING:
    from dil.text.windows import Windows

# The checkpoint of schedules: ``schedule`` is the newest one, ``earlier`` lists older ones.
SCHEDULES = "timelabels"


def with_schedules(job: Job, store: StateStore) -> Job:
    """Return the job with its earlier schedules, which its state keeps."""
    spec = job.planning.timelabel
    if spec is None or not job.state.enabled:
        return job
    members: Mapping[str, Any] = store.checkpoint(SCHEDULES)
    if not members:
        return job
    known = tuple(_read(each) for each in members["earlier"])
    last = _read(members["schedule"])
    if _own(spec) != last:
        before = replace(
            spec,
            schedule=last.schedule,
            every_ms=last.every_ms,
            unit=last.unit,
            zone=last.zone,
            earlier=known,
        )
        until = _registered_until(job, store, before)
        if until is not None and until > (known[-1].until if known else until - 1):
            known = (*known, replace(last, until=until))
    if not known:
        return job
    labels = replace(spec, earlier=known)
    publishing_spec, warehouse = job.publishing, job.publishing.warehouse
    if warehouse is not None and warehouse.labels is not None:
        warehouse = replace(warehouse, labels=labels)
        publishing_spec = replace(publishing_spec, warehouse=warehouse)
    planning = replace(job.planning, timelabel=labels)
    return replace(job, planning=planning, publishing=publishing_spec)


def record_schedule(job: Job, store: StateStore, lease: Lease) -> None:
    """Record the schedules of a job from ``with_schedules``; write only if they changed."""
    spec = job.planning.timelabel
    if spec is None or not job.state.enabled:
        return
    members: JsonObject = {
        "schedule": _shown(_own(spec)),
        "earlier": [_shown(each) for each in spec.earlier],
    }
    if store.checkpoint(SCHEDULES) != members:
        store.change_checkpoint(lease, SCHEDULES, members)


def _own(spec: TimelabelSpec) -> EarlierSchedule:
    return EarlierSchedule(spec.schedule, spec.every_ms, spec.unit, spec.zone)


def _registered_until(job: Job, store: StateStore, spec: TimelabelSpec) -> int | None:
    """Return the end of the last registered window, epoch ms UTC; None if there is none."""
    # Imported here: few jobs change their schedule.
    from dil.publishing.destination import destination_for
    from dil.text.windows import label_start, windows_of

    windows = windows_of(spec)
    destination = destination_for(job.publishing, filesystem_for(job.publishing.final_dir))
    published = {file.timelabel for file in destination.live() if file.timelabel}
    labelled = (*_planned(store, spec, windows), *map(label_start, published))
    return max((windows.at(ms).high for ms in labelled), default=None)


def _planned(store: StateStore, spec: TimelabelSpec, windows: Windows) -> Iterator[int]:
    """Yield an instant, epoch ms UTC, of each window whose label a work unit or a run was given."""
    if not spec.is_dated:
        newest = next((run for run in store.runs() if run.committed), None)
        if newest is not None:
            yield windows.of_run(newest.now).low
    else:
        for entry in store.unit_entries():
            end = entry.expected_high if entry.status == "SKIPPED" else entry.high
            if end is not None:
                yield entry.low if spec.unit is not None else min(end, entry.expected_high) - 1


def _shown(schedule: EarlierSchedule) -> JsonObject:
    return {
        "schedule": schedule.schedule,
        "everyMs": schedule.every_ms,
        "unit": None if schedule.unit is None else str(schedule.unit),
        "zone": schedule.zone,
        "until": schedule.until,
    }


def _read(members: Mapping[str, Any]) -> EarlierSchedule:
    unit = members["unit"]
    return EarlierSchedule(
        members["schedule"],
        members["everyMs"],
        None if unit is None else LabelUnit(unit),
        members["zone"],
        members["until"],
    )
