"""Checks whether a job may have an event column, and which action for late rows it may have."""

from __future__ import annotations

from dataclasses import replace

from dil.config.egress import COMMIT
from dil.config.event_time import (
    AFTER_CLOSE,
    COLUMN,
    LATE_ACTION,
    STRATEGY,
    EventTimeSection,
    event_time_section,
)
from dil.config.findings import Findings
from dil.config.parts import JobParts
from dil.config.property import names_of
from dil.config.requests import sends_low_watermark
from dil.model.event_time import EventTimeSpec, Strategy
from dil.model.properties import Properties


def job_events(parts: JobParts, values: Properties, findings: Findings) -> EventTimeSpec | None:
    """Return the event-time part of a job, None if it has no event column."""
    spec = event_time_section(values, findings)
    if not spec.column:
        _check_without_column(spec, findings)
        return None
    if spec.strategy is Strategy.NONE:
        findings.notice(
            STRATEGY,
            f"is none, so event times of {COLUMN} are counted, and no row is late",
            f"Set {STRATEGY}, such as adaptive; docs/event-time.md says which one.",
        )
    _check_job(parts, spec, findings)
    _check_late_rows(parts, spec, findings)
    return replace(spec, reads_on=sends_low_watermark(values, parts.planning))


def _check_without_column(spec: EventTimeSpec, findings: Findings) -> None:
    if spec.strategy is not Strategy.NONE:
        findings.problem(
            STRATEGY,
            f"is {spec.strategy}, and no column says when rows happened",
            f"Set {COLUMN}, or leave {STRATEGY} out.",
        )
        return
    names = names_of(EventTimeSection) - {STRATEGY, AFTER_CLOSE}
    findings.unused(names, f"has no effect without {COLUMN}", f"Leave it out, or set {COLUMN}.")


def _check_job(parts: JobParts, spec: EventTimeSpec, findings: Findings) -> None:
    if parts.only_validates:
        what = "needs rows, and the job validates them and writes none"
        findings.problem(COLUMN, what, "Leave it out, or set it in the job that writes the rows.")
    if parts.commits_pages:
        findings.problem(
            COMMIT,
            f"is page, and {COLUMN} is set: an attempt that resumes does not see the event times of"
            " earlier pages",
            f"Leave {COMMIT} out, and make work units smaller with ms.work.unit.partition.",
        )
    if spec.strategy is not Strategy.NONE and not parts.state.enabled:
        findings.problem(
            STRATEGY,
            f"is {spec.strategy}, and the watermark is kept in the state, which"
            " state.store.enabled=false switches off",
            f"Keep the state, or set {STRATEGY}=none.",
        )


def _check_late_rows(parts: JobParts, spec: EventTimeSpec, findings: Findings) -> None:
    if spec.late_action == "side_table" and not parts.has_folder:
        findings.problem(
            LATE_ACTION,
            "is side_table, and the dataset has no folder of its own beside which late rows could "
            "go",
            "Set writer.file.path.type=namespace_table, or ms.late.action=flag.",
        )
