"""Shares out the work units of a run: tasks at a time, lanes in a task, units of a task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from math import ceil

from dil.execution.executor import cores
from dil.execution.shipping import task_modules
from dil.model.job import Job
from dil.model.work_unit import WorkUnit
from dil.spi.registry import load
from dil.task.group import SLICE_S

# A task gets at most this part of its slot's remaining units: the last tasks are small, so that no
# slot works alone at the end.
_PART = 3


def overlaps(job: Job) -> bool:
    """Return whether one process may read several work units of the job at a time.

    Plug-ins are taken to read one at a time, unless their connector says otherwise.
    """
    connector = load(job.source.connector)
    # A subclass may keep more than its parent, so the parent's declaration does not count.
    return bool(vars(connector).get("overlaps", False)) and set(task_modules(job)) <= {
        connector.__module__.partition(".")[0]
    }


def local_slots(job: Job, units: int) -> int:
    """Return how many tasks a local session runs at a time.

    If work units overlap, a process for each core is enough for all of them.
    """
    at_once = min(job.running.threads, units)
    return max(1, at_once // _lanes(at_once, cores())) if overlaps(job) else at_once


def lanes_of(job: Job, units: int, slots: int) -> int:
    """Return how many work units a task runs at a time, if ``slots`` tasks run at a time."""
    return _lanes(min(job.running.threads, units), slots) if overlaps(job) else 1


def share_out(
    units: Sequence[WorkUnit], slots: int, lanes: int, seconds_each: float | None = None
) -> Iterator[tuple[WorkUnit, ...]]:
    """Yield for one task after the other its work units, in their order.

    The cost of work units is unknown before the first ones are done. So tasks begin large and get
    smaller, and a task gives back the units that it cannot begin in time. ``seconds_each`` is the
    mean time per unit so far. If units wait for their start times, tasks are small, so that no slot
    is idle while other slots have many units.
    """
    waiting, left = iter(units), len(units)
    most = len(units)
    if any(unit.not_before for unit in units):
        most = lanes
    elif seconds_each:
        most = max(1, int(SLICE_S / seconds_each)) * lanes
    while left:
        size = max(lanes, min(most, ceil(left / (_PART * slots))))
        share = tuple(islice(waiting, size))
        left -= len(share)
        yield share


def _lanes(at_once: int, slots: int) -> int:
    return max(1, at_once // slots)
