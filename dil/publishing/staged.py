"""What complete attempts leave in staging: the result that a task writes last.

An attempt without this file is incomplete and is only ever swept. Recovery reads these files and
nothing else (spec README 27-29).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from dil.model.task import TaskReport
from dil.model.work_unit import WorkUnit
from dil.storage import Filesystem

RESULT_NAME = "result.json"
PLAN_NAME = "plan.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class StagedResult:
    """One complete attempt: its work unit, its report, and the configuration it ran under.

    ``run_now`` is the now, epoch ms UTC, of the run that read its first page: an earlier one than
    ``run_id`` where the attempt went on from what that had left.
    """

    format: int
    run_id: str
    run_now: int
    full_extract: bool
    digest: str
    work_unit: WorkUnit
    report: TaskReport


def write_result(filesystem: Filesystem, folder: str, result: StagedResult) -> None:
    """Complete an attempt; durable when this returns, together with the files it names."""
    filesystem.put(f"{folder}/{RESULT_NAME}", msgspec.json.encode(result))
    unit_folder = folder.rpartition("/")[0]
    run_folder = unit_folder.rpartition("/")[0]
    filesystem.sync_folders([folder, unit_folder, run_folder, run_folder.rpartition("/")[0]])


@dataclass(frozen=True, slots=True)
class StagedPlan:
    """What a run set out to do; ``left_low`` as in ``model.work_unit.Plan``.

    ``rests`` are parts of partitions that stay to be read, and would not be due once the work
    units are published. ``missed`` are those that no run reads (timelabels.md 2.8).
    """

    work_units: tuple[WorkUnit, ...] = ()
    left_low: int | None = None
    rests: tuple[WorkUnit, ...] = ()
    missed: tuple[WorkUnit, ...] = ()


def write_plan(filesystem: Filesystem, run_staging: str, plan: StagedPlan) -> None:
    """Keep what a run set out to do, before its first task starts.

    Recovery must know the work units that left no result: they are still owed.
    """
    filesystem.put(f"{run_staging}/{PLAN_NAME}", msgspec.json.encode(plan))


def read_plan(filesystem: Filesystem, run_staging: str) -> StagedPlan:
    """Return what a run set out to do; nothing when it never came to that."""
    try:
        with filesystem.open_input(f"{run_staging}/{PLAN_NAME}") as stream:
            return msgspec.json.decode(stream.read(), type=StagedPlan)
    except (FileNotFoundError, msgspec.MsgspecError):
        return StagedPlan()


def read_results(filesystem: Filesystem, run_staging: str) -> Iterator[StagedResult]:
    """Yield one complete attempt per work unit of a run: the last one where there are two."""
    for unit in filesystem.folders(run_staging):
        complete = [
            result
            for attempt in sorted(filesystem.folders(f"{run_staging}/{unit}"), key=_attempt_number)
            if (result := read_result(filesystem, f"{run_staging}/{unit}/{attempt}")) is not None
        ]
        if complete:
            yield complete[-1]


def read_result(filesystem: Filesystem, folder: str) -> StagedResult | None:
    """Return the result of an attempt, None unless it is complete and its files are there."""
    path = f"{folder}/{RESULT_NAME}"
    if not filesystem.exists(path):
        return None
    with filesystem.open_input(path) as stream:
        data = stream.read()
    try:
        result = msgspec.json.decode(data, type=StagedResult)
    except msgspec.MsgspecError:
        return None  # of another version of dil: extract again
    sizes = {file.path: file.size for file in filesystem.files(folder)}
    report = result.report
    staged = (*report.files, *report.quarantined, *report.refused)
    is_whole = all(sizes.get(file.path) == file.bytes for file in staged)
    return result if result.format == FORMAT and is_whole else None


def _attempt_number(folder: str) -> int:
    number = folder.partition("-")[0]
    return int(number) if number.isdecimal() else 0
