"""The part of a job that planning reads, and what contradicts itself in it."""

from __future__ import annotations

from dataclasses import fields

from dil.config.egress import ProgressSection
from dil.config.findings import Findings
from dil.config.identity import DatasetSection
from dil.config.publishing import publish_mode
from dil.config.secondary import KEY as SECONDARY
from dil.config.secondary import SecondarySection
from dil.config.source_units import check_units_of_source, units_of_source
from dil.config.timelabels_section import TimelabelsSection, timelabels_section
from dil.config.watermarks import PARTITION, WATERMARK, PlanningSection, uses_default_zone
from dil.model.job import DAY_MS, PlanningSpec, PublishMode
from dil.model.properties import Properties
from dil.model.section import property_name
from dil.model.timelabels import TimelabelSpec
from dil.spi.source import KEY_RANGES, ONCE, DatabaseSection, FilesSection

# What a run has to be planned with, and nothing else is read for dil.api.plan.
PLANNING_NAMES: tuple[str, ...] = (
    *(
        property_name(each)
        for section in (PlanningSection, SecondarySection, ProgressSection, TimelabelsSection)
        for each in fields(section)
    ),
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
)


def planning_section(values: Properties, findings: Findings) -> PlanningSpec:
    """Return what the planner reads; what is wrong goes to findings."""
    section, dataset = values.section(PlanningSection), values.section(DatasetSection)
    marks, partition = section.marks, section.partition
    of_source = units_of_source(values)
    is_named = "ms.timezone" in values.explicit or (of_source and not marks.is_dated)
    if not is_named and findings.is_sound(WATERMARK, PARTITION):
        _note_default_zone(section, findings)
    unit_name, units = _units(values, findings)
    if of_source:
        check_units_of_source(of_source, values, findings)
    mode = publish_mode(values)
    grace, abstinent = "ms.grace.period", "ms.abstinent.period"
    return PlanningSpec(
        datetime_name=marks.datetime_name,
        start=marks.start,
        end=marks.end,
        unit_name=unit_name,
        units=units,
        partition=partition if isinstance(partition, str) else "composite",
        composite=() if isinstance(partition, str) else partition,
        partial=section.reads_partial,
        grace_ms=_period(grace, section.grace_ms, section.grace_days, values, findings),
        abstinent_ms=_period(
            abstinent, section.abstinent_ms, section.abstinent_days, values, findings
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
        timelabel=_timelabel(values, findings),
    )


def _timelabel(values: Properties, findings: Findings) -> TimelabelSpec | None:
    if not any(name.startswith("ms.timelabel.") for name in values.explicit):
        return None
    spec = timelabels_section(values, findings)
    if spec is None:
        return None
    from dil.config.periods_section import with_periods

    return with_periods(spec, values, findings)


def _units(values: Properties, findings: Findings) -> tuple[str, tuple[str, ...] | None]:
    """Return the unit watermark's name and units, None where activation rows define them."""
    marks = values.section(PlanningSection).marks
    categories = {source.category for source in values.section(SecondarySection).inputs}
    of_source = units_of_source(values)
    if of_source and categories & {"activation", "payload"}:
        findings.problem(
            SECONDARY,
            f"gives units or rows to send, while {of_source} takes the units from the source",
            "Keep one of the two.",
        )
    if of_source:
        return "activation", None
    if "activation" in categories:
        if marks.has_units:
            findings.problem(
                WATERMARK,
                "declares units while ms.secondary.input has activation rows, which are units",
                "Keep one of the two.",
            )
        return "activation", None
    if "payload" in categories and not marks.has_units:
        return "activation", marks.units
    return marks.unit_name, marks.units


def _period(
    name: str, duration: int | None, days: int, values: Properties, findings: Findings
) -> int:
    """Return grace or abstinence in ms, from an ISO duration or from days."""
    if duration is None:
        return days * DAY_MS
    if f"{name}.days" in values.explicit and days * DAY_MS != duration:
        findings.problem(name, f"contradicts {name}.days", "Keep one of the two.")
    return duration


def _note_default_zone(section: PlanningSection, findings: Findings) -> None:
    """Say which zone is used where none was named (spec README 9)."""
    marks, partition, zone = section.marks, section.partition, section.zone
    ends = () if isinstance(partition, str) else [text for _, *ends in partition for text in ends]
    fix = "Set ms.timezone to say which zone is meant."
    if not marks.is_dated:
        findings.notice(
            WATERMARK, f"has no datetime range: 2019-01-01 to now, in {zone}, is used", fix
        )
    elif marks.uses_default_zone or uses_default_zone(ends):
        key = WATERMARK if marks.uses_default_zone else PARTITION
        findings.notice(key, f"names no time zone, so {zone} is used", fix)
