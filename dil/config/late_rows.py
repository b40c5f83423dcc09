"""Checks of jobs that judge rows by their time: event columns, late rows, closed timelabels.

See rules T30 to T33 for ``ms.timelabel.close``.
"""

from __future__ import annotations

from dataclasses import replace

from dil.config.egress import COMMIT
from dil.config.event_time import (
    AFTER_CLOSE,
    EVENT_COLUMN,
    LATE_ACTION,
    STRATEGY,
    EventTimeSection,
    event_time_section,
)
from dil.config.findings import Findings
from dil.config.parts import JobParts
from dil.config.property import names_of
from dil.config.publishing import publish_mode
from dil.config.requests import sends_low_watermark
from dil.config.timelabels import CLOSE, TimelabelsSection
from dil.model.event_time import EventTimeSpec, Strategy
from dil.model.job import PlanningSpec, PublishMode, StateSpec
from dil.model.properties import Properties
from dil.model.timelabels import AfterClose, LabelClosing

_AFTER_FIX = (
    f"Set {AFTER_CLOSE}=reopen to publish rows that come later and close the label again, or "
    "reject to leave it as it is"
)


def job_events(parts: JobParts, values: Properties, findings: Findings) -> EventTimeSpec | None:
    """Return the event-time part of a job, None if it has no event column."""
    spec = event_time_section(values, findings)
    strategy = spec.strategy
    if not spec.column:
        if strategy is Strategy.NONE:
            names, what = names_of(EventTimeSection), f"has no effect without {EVENT_COLUMN}"
            findings.unused(
                names - {STRATEGY, AFTER_CLOSE}, what, f"Leave it out, or set {EVENT_COLUMN}."
            )
        else:
            what = f"is {strategy}, and no column says when rows happened"
            findings.problem(STRATEGY, what, f"Set {EVENT_COLUMN}, or leave {STRATEGY} out.")
        return None
    if strategy is Strategy.NONE:
        findings.notice(
            STRATEGY,
            f"is none, so event times of {EVENT_COLUMN} are counted, and no row is late",
            f"Set {STRATEGY}, such as adaptive; docs/event-time.md says which one.",
        )
    if parts.only_validates:
        what = "needs rows, and the job validates them and writes none"
        findings.problem(
            EVENT_COLUMN, what, "Leave it out, or set it in the job that writes the rows."
        )
    if parts.commits_pages:
        findings.problem(
            COMMIT,
            f"is page, and {EVENT_COLUMN} is set: an attempt that resumes does not see the event "
            "times of earlier pages",
            f"Leave {COMMIT} out, and make work units smaller with ms.work.unit.partition.",
        )
    if strategy is not Strategy.NONE and not parts.state.enabled:
        findings.problem(
            STRATEGY,
            f"is {strategy}, and the watermark is kept in the state, which"
            " state.store.enabled=false switches off",
            f"Keep the state, or set {STRATEGY}=none.",
        )
    if spec.late_action == "side_table" and not parts.has_folder:
        what = "the dataset has no folder of its own beside which late rows could go"
        fix = "Set writer.file.path.type=namespace_table, or ms.late.action=flag."
        findings.problem(LATE_ACTION, f"is side_table, and {what}", fix)
    return replace(spec, reads_on=sends_low_watermark(values, parts.planning))


def with_closing(
    planning: PlanningSpec, state: StateSpec, values: Properties, findings: Findings
) -> PlanningSpec:
    """Return the planning part with the closing of timelabels; contradictions become findings."""
    labels = planning.timelabel
    closing = values.section(TimelabelsSection).closing
    if labels is None or closing is LabelClosing.NEVER:
        what = "has no effect: no timelabel is closed"
        findings.unused((AFTER_CLOSE,), what, f"Set {CLOSE} too.")
        return planning
    if not findings.is_sound(CLOSE, AFTER_CLOSE):
        return planning
    after = AfterClose(values.section(EventTimeSection).after_close)
    is_cut = planning.is_dated and not planning.of_source
    for is_refused, why, fix in (
        (not state.enabled, "state.store.enabled is false: closed labels are not recorded",
         "Keep the state."),
        (not is_cut, "work units have no time, so that no period is ever complete",
         "Give ms.watermark a range of time, and cut it by ms.work.unit.partition."),
        (publish_mode(values) is PublishMode.REPLACE,
         "ms.publish.mode is replace: each run rewrites all periods",
         "Set ms.publish.mode=window_replace."),
    ):  # fmt: skip
        if is_refused:
            findings.problem(CLOSE, f"is {closing}, and {why}", fix)
    return replace(planning, timelabel=replace(labels, closing=closing, after_close=after))


def uses_side_table(parts: JobParts, findings: Findings) -> bool:
    """Return whether rows for closed labels go to a side table; add a finding if they cannot."""
    labels = parts.planning.timelabel
    if labels is None or not labels.closes or labels.after_close is not AfterClose.SIDE_TABLE:
        return False
    for is_refused, why, way in (
        (parts.is_dump, "the job publishes files as they are, which have no rows", ""),
        (parts.only_validates, "the job validates rows and writes none", ""),
        (parts.commits_pages, "an attempt that resumes does not see the rows of earlier pages",
         "leave ms.state.cursor.commit=page out"),
        (not parts.has_folder, "the dataset has no folder of its own beside which rows could go",
         "set writer.file.path.type=namespace_table"),
    ):  # fmt: skip
        if is_refused:
            findings.problem(
                AFTER_CLOSE,
                f"is side_table, so rows for closed timelabels go beside the dataset, and {why}",
                f"{_AFTER_FIX}{f', or {way}' if way else ''}.",
            )
    return True
