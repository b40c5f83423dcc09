"""Effective properties to the planner's specification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from dil.config.findings import Findings
from dil.config.partitions import read_composite, uses_default_zone
from dil.config.publishing_section import publish_mode
from dil.config.source_units import FILES_ONCE, KEY_RANGES, check_units_of_source, units_of_source
from dil.config.table_planning import PLANNING
from dil.config.timelabels_section import TimelabelsSection, timelabels_section
from dil.config.watermarks import KEY as WATERMARK
from dil.config.watermarks import Watermarks, read_watermarks
from dil.model.job import DAY_MS, PlanningSpec, PublishMode, TableType
from dil.model.properties import Properties
from dil.model.section import property_name
from dil.model.settings import SecondaryInput
from dil.model.timelabels import TimelabelSpec

PLANNING_NAMES: tuple[str, ...] = (
    *(entry.name for entry in PLANNING.properties),
    *(property_name(each) for each in fields(TimelabelsSection)),
    FILES_ONCE,
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
    zone = values.text("ms.timezone")
    marks = read_watermarks(values[WATERMARK], zone, findings)
    partition = values["ms.work.unit.partition"]
    composite = read_composite(partition, zone, findings) if isinstance(partition, Mapping) else ()
    of_source = units_of_source(values)
    is_named = "ms.timezone" in values.explicit or (of_source and not marks.is_dated)
    if not is_named and findings.is_sound(WATERMARK, "ms.work.unit.partition"):
        _note_default_zone(marks, composite, zone, findings)
    unit_name, units = _units(marks, values, findings)
    if of_source:
        check_units_of_source(of_source, values, marks, findings)
    mode = publish_mode(values)
    limit = values.integer("ms.work.unit.parallelism.max")
    return PlanningSpec(
        datetime_name=marks.datetime_name,
        start=marks.start,
        end=marks.end,
        unit_name=unit_name,
        units=units,
        partition="composite" if composite else str(partition),
        composite=composite,
        partial=values.boolean("ms.work.unit.partial.partition"),
        grace_ms=_period(values, "ms.grace.period", "ms.grace.period.days", findings),
        abstinent_ms=_period(values, "ms.abstinent.period", "ms.abstinent.period.days", findings),
        delay_ms=values.milliseconds("ms.jdbc.cursor.delay"),
        backfill=values.boolean("ms.backfill"),
        table_type=TableType(values.text("extract.table.type")),
        is_full=values.boolean("extract.is.full"),
        dynamic_full_load=values.boolean("ms.enable.dynamic.full.load"),
        limit=None if limit < 0 else limit,
        min_units=values.integer("ms.work.unit.min.units"),
        pacing_s=values.integer("ms.work.unit.pacing.seconds"),
        zone=zone,
        ignore_history=mode is PublishMode.REPLACE,
        read_from_partition_start=mode is PublishMode.WINDOW_REPLACE,
        of_source=bool(of_source),
        once=values.text(FILES_ONCE) if of_source == FILES_ONCE else "",
        timelabel=_timelabel(values, marks, findings),
    )


def _timelabel(values: Properties, marks: Watermarks, findings: Findings) -> TimelabelSpec | None:
    if not any(name.startswith("ms.timelabel.") for name in values.explicit):
        return None
    spec = timelabels_section(values, marks, findings)
    if spec is None:
        return None
    from dil.config.periods_section import with_periods

    return with_periods(spec, values, findings)


def _units(
    marks: Watermarks, values: Properties, findings: Findings
) -> tuple[str, tuple[str, ...] | None]:
    """Return the unit watermark's name and units, None where activation rows define them."""
    inputs = values["ms.secondary.input"]
    categories = {
        source.category
        for source in (inputs if isinstance(inputs, tuple) else ())
        if isinstance(source, SecondaryInput)
    }
    of_source = units_of_source(values)
    if of_source and categories & {"activation", "payload"}:
        findings.problem(
            "ms.secondary.input",
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


def _period(values: Properties, name: str, name_of_days: str, findings: Findings) -> int:
    """Return grace or abstinence in ms, from an ISO duration or from days."""
    days_ms = values.integer(name_of_days) * DAY_MS
    duration = values[name]
    if not isinstance(duration, int):
        return days_ms
    if name_of_days in values.explicit and days_ms != duration:
        findings.problem(name, f"contradicts {name_of_days}", "Keep one of the two.")
    return duration


def _note_default_zone(
    marks: Watermarks, composite: tuple[tuple[str, str, str], ...], zone: str, findings: Findings
) -> None:
    """Say which zone is used where none was named (spec README 9)."""
    fix = "Set ms.timezone to say which zone is meant."
    if not marks.is_dated:
        findings.notice(
            WATERMARK, f"has no datetime range: 2019-01-01 to now, in {zone}, is used", fix
        )
    elif marks.uses_default_zone or uses_default_zone(composite):
        key = WATERMARK if marks.uses_default_zone else "ms.work.unit.partition"
        findings.notice(key, f"names no time zone, so {zone} is used", fix)
