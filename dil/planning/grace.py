"""Chooses the grace period of a run from the measured lateness, with the reason; pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dil.model.grace import GraceMeasure, GraceMode, GraceSpec
from dil.model.job import PlanningSpec
from dil.model.work_unit import Plan
from dil.planning.explanation import period


@dataclass(frozen=True, slots=True)
class ChosenGrace:
    """The grace period of one run in ms, and its reason, in a sentence without full stop."""

    ms: int
    why: str


def plan_by_measure(
    spec: PlanningSpec, measure: GraceMeasure, planned: Callable[[PlanningSpec], Plan]
) -> Plan:
    """Return the plan of a job with the grace period that the measured lateness asks for.

    ``planned`` makes a plan for a given grace period. If an earlier run did not finish a probe, the
    plan reads only the rest of the probe.
    """
    if spec.grace.mode is GraceMode.FIXED or spec.backfill or spec.ignore_history:
        return planned(spec)
    chosen = chosen_grace(spec, measure)
    found = planned(replace(spec, grace_ms=chosen.ms))
    rest = measure.rest
    is_probe = spec.grace.mode is GraceMode.AUTO and _is_probe(spec.grace, measure)
    if rest is None or not is_probe or found.cutoff is None or rest.low < found.cutoff:
        return replace(found, grace_why=chosen.why)
    back_ms = found.cutoff + chosen.ms - rest.low
    return replace(
        planned(replace(spec, grace_ms=back_ms, probed=rest)),
        grace_why=f"grace period {period(back_ms)}: the rest of a probe, of which an earlier run "
        "read the first ms.work.unit.parallelism.max work units",
    )


def chosen_grace(spec: PlanningSpec, measure: GraceMeasure) -> ChosenGrace:
    """Return the grace period of the next run of a job whose mode is not ``fixed``."""
    grace = spec.grace
    longest = period(grace.high_ms)
    if grace.mode is GraceMode.MAX:
        return ChosenGrace(grace.high_ms, f"grace period {longest}: ms.grace.mode=max")
    if _is_probe(grace, measure):
        return ChosenGrace(
            grace.high_ms,
            f"grace period {longest}: a probe, one run in {grace.probe_every}, which looks for "
            "rows that other runs do not read far enough back to find",
        )
    if measure.recommended_ms is None:
        measured = ""
        if measure.least_rows:
            measured = (
                f": {measure.rows:,} of {measure.least_rows:,} new rows, in {measure.commits} of "
                f"{measure.least_commits} commits"
            )
        return ChosenGrace(
            spec.grace_ms,
            f"grace period {period(spec.grace_ms)}: as configured, because too few rows are"
            f" measured yet{measured}",
        )
    of_rows = f"{measure.rows:,} new rows" if measure.rows else "new rows"
    return ChosenGrace(
        measure.recommended_ms,
        f"grace period {period(measure.recommended_ms)}: measured, {share_text(grace)} % of "
        f"{of_rows} were no further behind; `dil lateness` shows how far behind they come",
    )


def _is_probe(grace: GraceSpec, measure: GraceMeasure) -> bool:
    return bool(grace.probe_every) and measure.runs_since_probe >= grace.probe_every - 1


def share_text(grace: GraceSpec) -> str:
    """Return the quantile in percent."""
    share = grace.quantile * 100
    return f"{share.numerator / share.denominator:.10g}"
