"""Reads and writes the files of complete attempts in staging; a task writes the result last.

An attempt that is alone in its task has a folder of its own, ``<unit>/<attempt>``, with one result.
Attempts of several work units in one task share a folder ``task-<id>`` with files of results. An
attempt without a result is incomplete; runs only delete it. Recovery reads only results (rules C26
to C32).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from dil.model.task import StagedFile, TaskReport
from dil.model.work_unit import WorkUnit
from dil.storage import Filesystem

RESULT_NAME = "result.json"
PLAN_NAME = "plan.json"
TASK = "task-"
_LOG = "results-"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class StagedResult:
    """One complete attempt: its work unit, its report, and the configuration of its run.

    ``run_now`` is the run time (now), epoch ms UTC, of the run that read the attempt's first page.
    It is earlier than the time of ``run_id`` if the attempt continued an earlier attempt.
    """

    format: int
    run_id: str
    run_now: int
    full_extract: bool
    digest: str
    work_unit: WorkUnit
    report: TaskReport


def write_result(filesystem: Filesystem, folder: str, result: StagedResult) -> None:
    """Complete an attempt; when this returns, the result and its files are durable."""
    filesystem.put(f"{folder}/{RESULT_NAME}", msgspec.json.encode(result))
    unit_folder = folder.rpartition("/")[0]
    run_folder = unit_folder.rpartition("/")[0]
    filesystem.sync_folders([folder, unit_folder, run_folder, run_folder.rpartition("/")[0]])


def task_folder(run_staging: str, task_id: str) -> str:
    """Return the folder in which the work units of one task are staged."""
    return f"{run_staging}/{TASK}{task_id}"


def put_results(
    filesystem: Filesystem, folder: str, number: int, results: Sequence[StagedResult]
) -> None:
    """Complete attempts whose files in a task's folder are durable.

    The results are durable when this returns.

    ``number`` counts the calls for this folder, from 0.
    """
    lines = b"\n".join(msgspec.json.encode(result) for result in results)
    filesystem.put(f"{folder}/{_LOG}{number}.jsonl", lines)


def delete_result(filesystem: Filesystem, report: TaskReport) -> None:
    """Delete the file that makes an attempt complete, so that no run uses its rows.

    If the result is in a log with results of other work units, the attempt's files are deleted
    instead: a result is valid only if all its files exist.
    """
    for file in report.files:
        folder = file.path.rpartition("/")[0]
        is_shared = folder.rpartition("/")[2].startswith(TASK)
        filesystem.delete_file(file.path if is_shared else f"{folder}/{RESULT_NAME}")


def staged_files(report: TaskReport) -> tuple[StagedFile, ...]:
    """Return all files that a report names."""
    late = () if report.late is msgspec.UNSET else report.late
    return (*report.files, *report.quarantined, *report.refused, *late)


@dataclass(frozen=True, slots=True)
class StagedPlan:
    """The work units that a run intends to read; ``left_low`` as in ``model.work_unit.Plan``.

    ``rests`` are unread parts of partitions that would no longer be due after the work units are
    published. ``missed`` are work units that no run reads (rule T14).
    """

    work_units: tuple[WorkUnit, ...] = ()
    left_low: int | None = None
    rests: tuple[WorkUnit, ...] = ()
    missed: tuple[WorkUnit, ...] = ()


def write_plan(filesystem: Filesystem, run_staging: str, plan: StagedPlan) -> None:
    """Write a run's plan before its first task starts.

    Recovery must know the work units without a result, because a run still has to read them.
    """
    filesystem.put(f"{run_staging}/{PLAN_NAME}", msgspec.json.encode(plan))


def read_plan(filesystem: Filesystem, run_staging: str) -> StagedPlan:
    """Return the plan of a run; an empty plan if the run wrote none."""
    data = filesystem.content(f"{run_staging}/{PLAN_NAME}")
    try:
        return StagedPlan() if data is None else msgspec.json.decode(data, type=StagedPlan)
    except msgspec.MsgspecError:
        return StagedPlan()


def read_results(
    filesystem: Filesystem, run_staging: str, *, published: bool = False
) -> Iterator[StagedResult]:
    """Yield one complete attempt per work unit of a run: the last attempt if there are two.

    Only a task that Spark ran twice leaves two attempts; each holds all rows. If ``published`` is
    true, results whose files were already moved to their names count too.
    """
    found: dict[str, StagedResult] = {}
    for name in filesystem.folders(run_staging):
        folder = f"{run_staging}/{name}"
        read = _results_of_task if name.startswith(TASK) else _results_of_unit
        results = read(filesystem, folder, published=published)
        found.update((each.work_unit.signature, each) for each in results)
    yield from found.values()


def _results_of_unit(
    filesystem: Filesystem, folder: str, *, published: bool
) -> Iterator[StagedResult]:
    for attempt in sorted(filesystem.folders(folder), key=_attempt_number):
        result = read_result(filesystem, f"{folder}/{attempt}", published=published)
        if result is not None:
            yield result


def _results_of_task(
    filesystem: Filesystem, folder: str, *, published: bool
) -> Iterator[StagedResult]:
    sizes = {file.path: file.size for file in filesystem.files(folder)}
    for path in sizes:
        if path.rpartition("/")[2].startswith(_LOG):
            for line in _content(filesystem, path).splitlines():
                result = _decoded(line, None if published else sizes)
                if result is not None:
                    yield result


def read_result(
    filesystem: Filesystem, folder: str, *, published: bool = False
) -> StagedResult | None:
    """Return the result of an attempt; None if the attempt is incomplete or a file is missing.

    For ``published`` see ``read_results``.
    """
    path = f"{folder}/{RESULT_NAME}"
    if not filesystem.exists(path):
        return None
    sizes = {file.path: file.size for file in filesystem.files(folder)}
    return _decoded(_content(filesystem, path), None if published else sizes)


def _content(filesystem: Filesystem, path: str) -> bytes:
    with filesystem.open_input(path) as stream:
        return stream.read()


def _decoded(data: bytes, sizes: Mapping[str, int] | None) -> StagedResult | None:
    """Return a result; None if its format is another one, or if one of its files is missing.

    If ``sizes`` is None, files are not checked.
    """
    try:
        result = msgspec.json.decode(data, type=StagedResult)
    except msgspec.MsgspecError:
        return None  # This is a result of another version of DIL: extract again.
    is_complete = sizes is None or all(
        sizes.get(file.path) == file.bytes for file in staged_files(result.report)
    )
    return result if result.format == FORMAT and is_complete else None


def _attempt_number(folder: str) -> int:
    number = folder.partition("-")[0]
    return int(number) if number.isdecimal() else 0
