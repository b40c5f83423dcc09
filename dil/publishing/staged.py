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
FORMAT = 1


@dataclass(frozen=True, slots=True)
class StagedResult:
    """One complete attempt: its work unit, its report, and the configuration it ran under."""

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


def read_results(filesystem: Filesystem, run_staging: str) -> Iterator[StagedResult]:
    """Yield one complete attempt per work unit of a run: the last by name where there are two."""
    for unit in filesystem.folders(run_staging):
        complete = [
            result
            for attempt in filesystem.folders(f"{run_staging}/{unit}")
            if (result := _read(filesystem, f"{run_staging}/{unit}/{attempt}")) is not None
        ]
        if complete:
            yield complete[-1]


def _read(filesystem: Filesystem, folder: str) -> StagedResult | None:
    path = f"{folder}/{RESULT_NAME}"
    if not filesystem.exists(path):
        return None
    with filesystem.open_input(path) as stream:
        data = stream.read()
    try:
        result = msgspec.json.decode(data, type=StagedResult)
    except msgspec.MsgspecError:
        return None  # of another version of dil: extract again
    return result if result.format == FORMAT else None
