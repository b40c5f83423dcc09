"""``ms.grace.mode`` and its settings: how far back runs read for late rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from annotated_types import Ge, Le

from dil.config.findings import Findings
from dil.config.parts import JobParts
from dil.config.values import share
from dil.config.watermarks import GRACE, Composite
from dil.model.grace import GraceMode, GraceSpec
from dil.model.interval import DAY_MS, HOUR_MS
from dil.model.properties import Properties
from dil.model.section import ONE_OF, Duration, Int, Section, ValueType, Written, prop
from dil.sections.reading import ReadContext

GRACE_MODE, QUANTILE = "ms.grace.mode", "ms.grace.quantile"
LEAST, MOST = "ms.grace.min", "ms.grace.max"
_FIXED = (GRACE, f"{GRACE}.days")
_DEFAULT = GraceSpec()


def _quantile(value: str, _around: ReadContext) -> Fraction:
    return share(value, "0.999")


@dataclass(frozen=True, slots=True)
class GraceSection(Section):
    """How far back runs read for rows that come late."""

    mode: Annotated[GraceMode, ONE_OF] = prop(
        GRACE_MODE,
        "How a run gets its grace period: `fixed` takes `ms.grace.period(.days)`; `auto` measures "
        "how late new rows came so far, which needs `ms.event.column`, and takes "
        "`ms.grace.period(.days)` until 10,000 rows and 7 commits are measured; `max` takes "
        "`ms.grace.max`.",
        default=_DEFAULT.mode,
    )
    quantile: Annotated[Fraction, Written(ValueType.STRING, read=_quantile)] = prop(
        QUANTILE,
        "Share of the measured rows that a grace period of `auto` would have read.",
        default=_DEFAULT.quantile,
        shown="0.999",
        example="0.9995",
    )
    low_ms: Duration = prop(
        LEAST,
        "The shortest grace period of `auto`, an ISO duration.",
        default=_DEFAULT.low_ms,
        shown="PT0S",
    )
    high_ms: Duration = prop(
        MOST,
        "The longest grace period of `auto`; its probes, and `max`, use it as their grace period.",
        default=_DEFAULT.high_ms,
        shown="P31D",
    )
    unit: Annotated[Literal["hour", "day"], ONE_OF] | None = prop(
        "ms.grace.unit",
        "The unit to which a grace period of `auto` is rounded up. Unset: `hour` if partitions are "
        "hourly, else `day`.",
        default=None,
    )
    probe_every: Annotated[Int, Ge(0), Le(10_000)] = prop(
        "ms.grace.probe.every",
        "Under `auto` one run in this many is a probe, which reads `ms.grace.max` back: only "
        "probes find rows that come later than the grace period of other runs. 0 means no probes.",
        default=_DEFAULT.probe_every,
    )


def grace_section(partition: str | Composite, values: Properties, findings: Findings) -> GraceSpec:
    """Return the grace part of a job; contradictions become findings."""
    section = values.section(GraceSection)
    if section.low_ms > section.high_ms:
        findings.problem(LEAST, f"is longer than {MOST}", "Write a shorter one.")
    words = (partition,) if isinstance(partition, str) else [each.word for each in partition]
    unit = section.unit or ("hour" if "hourly" in words else "day")
    if section.mode is GraceMode.MAX:
        findings.unused(_FIXED, f"has no effect with {GRACE_MODE}=max", f"Set {MOST}.")
    return GraceSpec(
        section.mode,
        section.quantile,
        section.low_ms,
        section.high_ms,
        HOUR_MS if unit == "hour" else DAY_MS,
        section.probe_every,
    )


def check_measured(parts: JobParts, findings: Findings, *, has_events: bool) -> None:
    """Refuse a measured grace period if the job cannot measure it."""
    if parts.planning.grace.mode is not GraceMode.AUTO:
        return
    if not has_events:
        what = "is auto, and no column has the time of a row, so lateness cannot be measured"
        findings.problem(GRACE_MODE, what, "Set ms.event.column, or ms.grace.mode=fixed.")
    elif not parts.state.enabled:
        what = "is auto, and the job keeps no state, which would hold the measure"
        findings.problem(GRACE_MODE, what, "Keep state, or set ms.grace.mode=fixed.")
    elif not parts.publishing.keeps_files:
        what = (
            "is auto, and rows that are read again are not compared with the rows of a database: "
            "the configured grace period is used"
        )
        findings.notice(GRACE_MODE, what, "Set ms.grace.mode=fixed, or max.")
