"""Time, units and periods: the part of a job that planning reads, and its contradictions.

See rules P6, T12, T14 and T15.
"""

from __future__ import annotations

from dataclasses import replace

from dil.config.destinations import is_timeseries
from dil.config.egress import COMMIT
from dil.config.findings import Findings
from dil.config.grace import GRACE_MODE, GraceSection, grace_section
from dil.config.identity import DatasetSection, JobSection
from dil.config.property import names_of
from dil.config.publishing import publish_mode
from dil.config.timelabels import (
    CATCHUP,
    FIRST_RUN,
    SPLIT,
    TimelabelsSection,
    as_written,
    timelabels_section,
)
from dil.config.watermarks import (
    ABSTINENT,
    GRACE,
    PARTITION,
    WATERMARK,
    ZONE,
    PlanningSection,
    uses_default_zone,
)
from dil.model.grace import GraceMode
from dil.model.interval import DAY_MS
from dil.model.job import PlanningSpec, PublishMode
from dil.model.messages import quote
from dil.model.properties import Properties
from dil.model.timelabels import TimelabelSpec
from dil.sections.query import INPUTS
from dil.sections.secondary import SECONDARY, SecondarySection
from dil.sections.source import KEY_RANGES, ONCE, DatabaseSection, FilesSection

# Planning needs these sections; dil.api.plan reads no others.
PLANNING_NAMES = names_of(PlanningSection, GraceSection, SecondarySection, TimelabelsSection) | {
    COMMIT,
    ONCE,
    KEY_RANGES,
    "ms.jdbc.cursor.delay",
    "extract.table.type",
    "extract.is.full",
    "extract.primary.key.fields",
    "source.class",
    "ms.publish.layout",
    "ms.publish.mode",
    "ms.table.format",
    "ms.warehouse.operation",
    "ms.warehouse.table.kind",
    "ms.warehouse.url",
    "data.publisher.replace.final.dir",
    "data.publisher.appendExtractToFinalDir",
    "writer.file.path",
    "writer.file.path.type",
}
_REREAD = (GRACE, f"{GRACE}.days", GRACE_MODE, ABSTINENT)


def planning_section(values: Properties, findings: Findings) -> PlanningSpec:
    """Return the planning part of a job; problems become findings."""
    section, dataset = values.section(PlanningSection), values.section(DatasetSection)
    marks, partition = section.marks, section.partition
    of_source = units_of_source(values)
    is_named = ZONE in values.explicit or (of_source and not marks.is_dated)
    has_source = INPUTS not in values.explicit
    if has_source and not is_named and findings.is_sound(WATERMARK, PARTITION):
        _note_default_zone(section, findings)
    unit_name, units = _units(of_source, values, findings)
    if of_source:
        _check_units_of_source(of_source, values, findings)
    mode = publish_mode(values)
    grace = grace_section(partition, values, findings)
    if grace.mode is GraceMode.MAX:
        grace_ms = grace.high_ms
    else:
        grace_ms = _period(GRACE, section.grace_ms, section.grace_days, values, findings)
    labels = None
    if any(name.startswith("ms.timelabel.") for name in values.explicit):
        labels = timelabels_section(values, findings)
    return PlanningSpec(
        datetime_name=marks.datetime_name,
        start=marks.start,
        end=marks.end,
        unit_name=unit_name,
        units=units,
        partition=partition if isinstance(partition, str) else "composite",
        composite=() if isinstance(partition, str) else partition,
        partial=section.reads_partial,
        grace_ms=grace_ms,
        abstinent_ms=_period(
            ABSTINENT, section.abstinent_ms, section.abstinent_days, values, findings
        ),
        delay_ms=values.section(DatabaseSection).cursor_delay_ms or 0,
        backfill=section.is_backfill,
        table_type=dataset.table_type,
        is_full=dataset.is_full,
        dynamic_full_load=section.dynamic_full_load,
        limit=None if section.max_units < 0 else section.max_units,
        min_units=section.min_units,
        pacing_s=section.pacing_s,
        zone=section.zone,
        ignore_history=mode is PublishMode.REPLACE,
        read_from_partition_start=mode is PublishMode.WINDOW_REPLACE,
        of_source=bool(of_source),
        once=values.section(FilesSection).once if of_source == ONCE else "",
        timelabel=None if labels is None else _with_periods(labels, values, findings),
        is_dated=marks.is_dated or partition != "none",
        grace=grace,
    )


def _units(
    of_source: str, values: Properties, findings: Findings
) -> tuple[str, tuple[str, ...] | None]:
    """Return the unit watermark's name and units; units are None if activation rows define them."""
    marks = values.section(PlanningSection).marks
    categories = {source.category for source in values.section(SecondarySection).inputs}
    if of_source and categories & {"activation", "payload"}:
        findings.problem(
            SECONDARY,
            f"gives units or rows to send, while {of_source} takes the units from the source",
            "Keep one of the two.",
        )
    elif "activation" in categories and marks.has_units:
        findings.problem(
            WATERMARK,
            "declares units while ms.secondary.input has activation rows, which are units",
            "Keep one of the two.",
        )
    if of_source or "activation" in categories:
        return "activation", None
    if "payload" in categories and not marks.has_units:
        return "activation", marks.units
    return marks.unit_name, marks.units


def _period(
    name: str, duration: int | None, days: int, values: Properties, findings: Findings
) -> int:
    """Return the grace or abstinent period in ms, from an ISO duration or from days."""
    if duration is None:
        return days * DAY_MS
    if f"{name}.days" in values.explicit and days * DAY_MS != duration:
        findings.problem(name, f"contradicts {name}.days", "Keep one of the two.")
    return duration


def _note_default_zone(section: PlanningSection, findings: Findings) -> None:
    """Add a notice with the zone that is used because none is named (rule P6)."""
    marks, partition, zone = section.marks, section.partition, section.zone
    sub_ranges = () if isinstance(partition, str) else partition
    ends = [text for each in sub_ranges for text in (each.start, each.end)]
    fix = "Set ms.timezone to say which zone is meant."
    if not marks.is_dated:
        findings.notice(
            WATERMARK, f"has no datetime range: 2019-01-01 to now, in {zone}, is used", fix
        )
    elif marks.uses_default_zone or uses_default_zone(ends):
        key = WATERMARK if marks.uses_default_zone else PARTITION
        findings.notice(key, f"names no time zone, so {zone} is used", fix)


def asked_of_source(values: Properties) -> list[str]:
    """Return the properties that take a job's units from the source; at most one may be set."""
    asked = {
        ONCE: values.section(FilesSection).once != "none",
        KEY_RANGES: values.section(DatabaseSection).key_column,
    }
    return [name for name, is_asked in asked.items() if is_asked]


def units_of_source(values: Properties) -> str:
    """Return the property that takes a job's units from the source; empty text if none does."""
    return next(iter(asked_of_source(values)), "")


def members_of_source(values: Properties) -> frozenset[str]:
    """Return the members of each unit of the source; empty if the source gives no units."""
    if values.section(FilesSection).once == "path":
        return frozenset({"file"})
    members = {ONCE: {"file", "version"}, KEY_RANGES: {"range"}}
    return frozenset(members.get(units_of_source(values), ()))


def _check_units_of_source(name: str, values: Properties, findings: Findings) -> None:
    """Report contradictions to units of the source; ``name`` is the property that asks for them.

    Each unit is one work unit that is read whole, so a time partition contradicts it. If the range
    begins at another time in each run, a file gets another signature in each run. A range of keys
    gets another signature whenever the table has grown.
    """
    planning = values.section(PlanningSection)
    start, is_replaced = planning.marks.start, publish_mode(values) is PublishMode.REPLACE
    if planning.marks.has_units:
        what = f"declares units while {name} takes them from the source"
        findings.problem(WATERMARK, what, "Keep one.")
    if planning.partition != "none":
        what = f"cuts time, and each unit of {name} is read whole"
        findings.problem(PARTITION, what, "Leave it out.")
    if name == KEY_RANGES and not is_replaced:
        what = (
            "cuts a growing table into other ranges in each run, so that its rows would be doubled"
        )
        findings.problem(name, what, "Set ms.publish.mode=replace.")
    if name != ONCE:
        return
    if start.upper().startswith(("P", "-")):
        what = f'begins at "{start}", another time in each run: {ONCE} would recognise no file'
        fix = "Leave the datetime watermark out, or begin at a date."
        findings.problem(WATERMARK, what, fix)
    findings.unused(_REREAD, f"has no effect: {ONCE} reads each file once", "Leave it out.")
    if is_replaced:
        what = "reads only new files, and each run replaces the whole dataset"
        fix = "Set ms.publish.mode=append, or leave one of the two out."
        findings.problem(ONCE, what, fix)


def _with_periods(spec: TimelabelSpec, values: Properties, findings: Findings) -> TimelabelSpec:
    """Return a schedule with the choice of periods; contradictions become findings."""
    labels, asked = values.section(TimelabelsSection), units_of_source(values)
    is_wanted = labels.split == "units"
    splits = is_wanted and not asked
    if SPLIT not in values.explicit:
        splits = is_asked_by_window(values)
    if is_wanted and asked:
        what = f'is "units", and each unit of {asked} is read whole'
        findings.problem(SPLIT, what, "Leave it out.")
    elif is_wanted and not spec.is_dated:
        findings.notice(SPLIT, "has no effect: work units have no time", "")
    found = replace(
        spec,
        splits=spec.is_dated and splits,
        catches_up=labels.catches_up,
        first_period=labels.first_run == "period",
    )
    _check_left_out(found, asked, values, findings)
    return found


def is_asked_by_window(values: Properties) -> bool:
    """Return whether rows of an API go to tables of timelabels and no column gives their label.

    Such rows have the label of the window that the request asked for (rule T12).
    """
    column = values.section(TimelabelsSection).column
    if not is_timeseries(values) or column or units_of_source(values):
        return False
    return values.section(JobSection).connector == "http"


def _check_left_out(
    spec: TimelabelSpec, asked: str, values: Properties, findings: Findings
) -> None:
    """Report properties that leave periods out, if runs do not read periods."""
    wanted = {CATCHUP: not spec.catches_up, FIRST_RUN: spec.first_period}
    is_uncut = values.section(PlanningSection).partition == "none" and findings.is_sound(PARTITION)
    for key in (key for key, is_wanted in wanted.items() if is_wanted):
        if publish_mode(values) is PublishMode.REPLACE:
            findings.notice(key, "has no effect: each run reads everything again, to replace all")
        elif asked or not spec.is_dated:
            why = f"{asked} reads units whole" if asked else "work units have no time"
            findings.notice(key, f"has no effect: {why}")
        elif is_uncut and not spec.splits:
            findings.problem(
                key,
                f"is {quote(as_written(values[key]))}, and {PARTITION}=none makes one work unit "
                "of all periods",
                f"Set {SPLIT}=units, or let {PARTITION} cut time.",
            )
