"""Work units whose rows were sent, and whose answers still wait in staging for a publish."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from dil.model.task import TaskReport
from dil.model.work_unit import WorkUnit
from dil.publishing.staged import StagedResult


class SentResults:
    """Staged work of earlier runs that is taken over whenever it can be (behaviour.md B16.2).

    A reading may be too old to stand for the source, and a snapshot is of one time. What was sent
    stays sent: to do the work unit once more would send its rows twice.
    """

    def __init__(self, results: Sequence[StagedResult], digests: Collection[str]) -> None:
        self._reports: Mapping[tuple[str, int, int], TaskReport] = {
            (each.work_unit.signature, each.work_unit.low, each.work_unit.high): each.report
            for each in results
            if each.digest in digests
        }

    def take(self, unit: WorkUnit) -> TaskReport | None:
        """Return the report of a staged attempt of exactly this work unit, None without one."""
        report = self._reports.get((unit.signature, unit.low, unit.high))
        return None if report is None else replace(report, adopted=True)
