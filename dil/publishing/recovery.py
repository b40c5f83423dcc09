"""What earlier runs left behind, and what of it can still be used (spec README 27-29)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dil.model.dataset import RunRecord
from dil.model.task import TaskReport
from dil.model.work_unit import WorkUnit
from dil.publishing.decision import Finished
from dil.publishing.staged import StagedResult, read_results
from dil.storage import Filesystem


def staged_work(filesystem: Filesystem, run: RunRecord) -> tuple[StagedResult, ...]:
    """Return the complete attempts of an earlier run, one per work unit."""
    return tuple(read_results(filesystem, run.staging_dir))


def as_finished(results: Iterable[StagedResult]) -> tuple[Finished, ...]:
    """Return staged results in the form that publishing decides on."""
    return tuple(Finished(each.work_unit, each.report) for each in results)


class Adoptable:
    """Staged work of earlier runs, by what must be equal for a work unit to take it over."""

    def __init__(self, results: Sequence[StagedResult], digest: str) -> None:
        self._reports: Mapping[tuple[str, int, int], TaskReport] = {
            (each.work_unit.signature, each.work_unit.low, each.work_unit.high): each.report
            for each in results
            if each.digest == digest
        }

    def take(self, unit: WorkUnit) -> TaskReport | None:
        """Return the report of a staged attempt of exactly this work unit, None without one."""
        report = self._reports.get((unit.signature, unit.low, unit.high))
        return None if report is None else replace(report, adopted=True)
