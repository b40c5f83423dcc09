"""Work units, their staged results, and the files they stage."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from dil import config
from dil.model.dataset import Commit
from dil.model.interval import Interval
from dil.model.job import Job
from dil.model.task import Failure, StagedFile, TaskReport
from dil.model.work_unit import Reason, WorkUnit
from dil.publishing.results import FinishedUnit, PublishableResults, PublishTarget
from dil.publishing.run_commit import build_commit
from dil.publishing.staged import FORMAT, StagedResult
from dil.storage import LocalFilesystem
from tests.jobs import write_job
from tests.servers.rows import DAY_MS, START_MS


class SyncedFolders(LocalFilesystem):
    """Remembers the folders that were made durable."""

    def __init__(self) -> None:
        self.synced: set[str] = set()

    def sync_folders(self, paths: Iterable[str]) -> None:
        found = list(paths)
        self.synced.update(found)
        super().sync_folders(found)


def job(folder: Path, **changes: str) -> Job:
    return config.load(write_job(folder, "http://x", **changes), environ={}).job


def unit(number: int = 0, *, low: int | None = None) -> WorkUnit:
    start = START_MS + number * DAY_MS
    return WorkUnit(
        signature=f"[watermark.system.{start}, watermark.unit.{{}}]",
        low=start if low is None else low,
        high=start + DAY_MS,
        partition=Interval(start, start + DAY_MS),
        unit_name="unit",
        unit_json="{}",
        reason=Reason.NEW,
    )


def staged_file(folder: Path, name: str, *, rows: int = 3) -> StagedFile:
    """Write a file as a task would and describe it."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = f"{name}\n".encode() * rows
    path.write_bytes(data)
    return StagedFile(str(path), rows, len(data), hashlib.sha256(data).hexdigest())


def report(work_unit: WorkUnit, *files: StagedFile, attempts: int = 1) -> TaskReport:
    return TaskReport(
        work_unit.signature, work_unit.low, work_unit.high, attempts, files, schema="id: int64"
    )


def failed(work_unit: WorkUnit, *, attempts: int = 1) -> TaskReport:
    return TaskReport(
        work_unit.signature,
        work_unit.low,
        work_unit.high,
        attempts,
        failure=Failure("DIL-SRC", "no"),
    )


def result(work_unit: WorkUnit, made: TaskReport, *, digest: str = "d1") -> StagedResult:
    return StagedResult(FORMAT, "r1", START_MS, full_extract=False, digest=digest,
                        work_unit=work_unit, report=made)  # fmt: skip


def decided(
    made: Job, target: PublishTarget, finished: Sequence[FinishedUnit], files: LocalFilesystem
) -> Commit:
    """Return the commit of results that are published as they are."""
    return build_commit(made, target, PublishableResults(finished), files)
