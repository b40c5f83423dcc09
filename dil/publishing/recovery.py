"""Finds the staged work of earlier runs, and the part that a run can use (rules C26 to C32)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dil.errors import RunInterruptedError
from dil.model.dataset import RunRecord
from dil.model.job import PublishingSpec
from dil.model.task import Failure, TaskReport
from dil.model.work_unit import Plan, Reason, WorkUnit
from dil.publishing.dumps import fail_case_variants, fail_equal_names, folds_names
from dil.publishing.page_log import PageLog, page_logs
from dil.publishing.results import FinishedUnit
from dil.publishing.staged import StagedPlan, StagedResult, read_results
from dil.storage import Filesystem


def staged_work(filesystem: Filesystem, run: RunRecord) -> tuple[StagedResult, ...]:
    """Return the complete attempts of an earlier run, one per work unit."""
    return tuple(read_results(filesystem, run.staging_dir))


def finished_units(
    results: Iterable[StagedResult],
    plan: StagedPlan,
    spec: PublishingSpec,
    filesystem: Filesystem,
) -> tuple[FinishedUnit, ...]:
    """Return staged results in the form for ``build_commit``, in the order of their plan.

    A merge keeps the last of the rows with one key, so the order matters. Work units whose files
    would replace files of other work units become failures.
    """
    places = {unit.signature: place for place, unit in enumerate(plan.work_units)}
    kept = sorted(results, key=lambda each: places.get(each.work_unit.signature, -1))
    folds = folds_names(spec, filesystem)
    reports: Sequence[TaskReport] = [each.report for each in kept]
    reports = fail_equal_names(reports, folds_names=folds)
    if folds:
        reports = fail_case_variants(spec, reports, filesystem)
    return tuple(
        FinishedUnit(each.work_unit, report) for each, report in zip(kept, reports, strict=True)
    )


@dataclass(frozen=True, slots=True)
class UnfinishedUnits:
    """Work units that a run planned and did not finish.

    Attributes:
        failed: Work units that earlier runs read in part, and the unread parts of partitions that a
            backfill went beyond. They are recorded as failed, because otherwise they would not be
            due any more as soon as a newer partition is published (rules P19 and P20). Other work
            units have no record, so they stay due.
        low: The earliest partition start among all unfinished work units and the work units left
            out of the plan. The dataset's watermark stays below it.
        missed: Work units that no run reads; they are recorded as missed.
    """

    failed: tuple[FinishedUnit, ...]
    low: int | None
    missed: tuple[WorkUnit, ...] = ()


def unfinished_units(plan: StagedPlan, done: Collection[str], why: str) -> UnfinishedUnits:
    """Return the unfinished part of a plan, given the signatures of the finished work units.

    A backfill plans without history, so any of its work units may have been read in part. ``why``
    is recorded with the failed work units.
    """
    missing = [unit for unit in plan.work_units if unit.signature not in done]
    starts = [unit.partition.low for unit in (*missing, *plan.rests)]
    if plan.left_low is not None:
        starts.append(plan.left_low)
    in_part = (
        unit for unit in missing if unit.reason is Reason.BACKFILL or unit.last_high is not None
    )
    return UnfinishedUnits(
        failed=(
            *(_failed(unit, why) for unit in in_part),
            *(_failed(unit, "a backfill went beyond this work unit") for unit in plan.rests),
        ),
        low=min(starts, default=None),
        missed=plan.missed,
    )


def _failed(unit: WorkUnit, why: str) -> FinishedUnit:
    failure = Failure(RunInterruptedError.code, why)
    return FinishedUnit(unit, TaskReport(unit.signature, unit.low, unit.high, 0, failure=failure))


@dataclass(frozen=True, slots=True)
class ReusePolicy:
    """Decides whether a run may use rows that an earlier run read.

    A grace period waits for corrections. Rows that were read before it ended may lack corrections.
    They may be used only if the work unit will be due again, that is, if the work unit ends after
    ``due_after``, the cutoff after this run's publish (rules C30 and P19). Times are epoch ms UTC.
    """

    grace_ms: int
    due_after: int

    @classmethod
    def of(cls, plan: Plan, least_grace_ms: int) -> ReusePolicy:
        """Return the policy of a plan; it applies the latest cutoff of all units to each unit.

        ``least_grace_ms`` is the shortest grace period, in ms, that the next run may have.
        """
        reached = max((unit.high for unit in plan.work_units), default=0)
        due_after = reached + plan.abstinent_ms - min(plan.grace_ms, least_grace_ms)
        return cls(plan.grace_ms, max(due_after, plan.cutoff or 0))

    def is_fresh_enough(self, unit: WorkUnit, read_since: int) -> bool:
        """Return whether rows may be used if their reading began at ``read_since``."""
        is_late = read_since >= unit.high + self.grace_ms
        return self.grace_ms <= 0 or is_late or unit.high > self.due_after


def resumable(
    filesystem: Filesystem,
    runs: Iterable[RunRecord],
    units: Iterable[WorkUnit],
    policy: ReusePolicy,
) -> dict[str, str]:
    """Return, by signature, the folders in which runs kept pages of these work units.

    Of several runs the last run's folder counts. If its pages are not fresh enough, an empty text
    takes the place of the folder.
    """
    logs: dict[str, PageLog] = {}
    for run in runs:
        logs.update(page_logs(filesystem, run.staging_dir))
    return {
        unit.signature: log.folder if policy.is_fresh_enough(unit, log.last.read_since) else ""
        for unit in (units if logs else ())
        if (log := logs.get(unit.signature)) is not None
    }


class AdoptableWork:
    """Staged work of earlier runs that a run may adopt instead of reading again.

    Only first readings are adopted. A second reading looks for rows that arrived since the first
    one, so an older reading must not replace it. A first reading that is not fresh enough is not
    adopted either.
    """

    def __init__(
        self, results: Sequence[StagedResult], digests: Collection[str], policy: ReusePolicy
    ) -> None:
        first = [each for each in results if each.work_unit.last_high is None]
        self._results = _by_range(first, digests)
        self._policy = policy

    def take(self, unit: WorkUnit) -> TaskReport | None:
        """Return the report of a staged attempt of exactly this work unit, None if none exists."""
        if unit.last_high is not None:
            return None
        found = self._results.get((unit.signature, unit.low, unit.high))
        if found is None or not self._policy.is_fresh_enough(unit, found.run_now):
            return None
        return replace(found.report, adopted=True)


class SentResults:
    """Staged answers for rows that earlier runs sent; they are always adopted (rule G38).

    Rows that were read may be too old to be used. Rows that were sent stay sent: if the work unit
    were repeated, its rows would be sent twice.
    """

    def __init__(self, results: Sequence[StagedResult], digests: Collection[str]) -> None:
        self._results = _by_range(results, digests)

    def take(self, unit: WorkUnit) -> TaskReport | None:
        """Return the report of a staged attempt of exactly this work unit, None if none exists."""
        found = self._results.get((unit.signature, unit.low, unit.high))
        return None if found is None else replace(found.report, adopted=True)


def _by_range(
    results: Iterable[StagedResult], digests: Collection[str]
) -> Mapping[tuple[str, int, int], StagedResult]:
    """Return the results with these configurations, by the values that an adoption compares."""
    return {
        (each.work_unit.signature, each.work_unit.low, each.work_unit.high): each
        for each in results
        if each.digest in digests
    }
