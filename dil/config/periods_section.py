"""Which periods of its schedule a job reads, and whether work units are split between them.

Source: timelabels.md 2.6, 2.8 and 3.2.
"""

from __future__ import annotations

from dataclasses import replace

from dil.config.findings import Findings
from dil.config.identity import JobSection
from dil.config.java_names import current_name
from dil.config.publishing import publish_mode
from dil.config.source_units import units_of_source
from dil.config.timelabels_section import (
    CATCHUP,
    FIRST_RUN,
    SPLIT,
    TimelabelsSection,
    as_written,
)
from dil.config.warehouse import is_timeseries
from dil.config.watermarks import PARTITION, PlanningSection
from dil.errors import PluginError
from dil.model.job import PublishMode
from dil.model.properties import Properties
from dil.model.suggestions import quote
from dil.model.timelabels import TimelabelSpec
from dil.spi.connector import Connector
from dil.spi.registry import PluginKind, resolve

_HTTP = "connectors.http"


def with_periods(spec: TimelabelSpec, values: Properties, findings: Findings) -> TimelabelSpec:
    """Return a schedule with the choice of periods; what contradicts it goes to findings."""
    labels = values.section(TimelabelsSection)
    spec = replace(
        spec,
        splits=_splits(spec, values, findings),
        catches_up=labels.catches_up,
        first_period=labels.first_run == "period",
    )
    _check_left_out(spec, values, findings)
    return spec


def is_asked_by_window(values: Properties) -> bool:
    """Return whether rows of an API go to tables of timelabels and no named column parts them.

    They have the label of the window that the API was asked for (timelabels.md 3.2 and 6).
    """
    column = values.section(TimelabelsSection).column
    if not is_timeseries(values) or column or units_of_source(values):
        return False
    try:
        connector = resolve(
            PluginKind.CONNECTOR, current_name(values.section(JobSection).source_class), Connector
        )
    except PluginError:
        return False
    return connector.module.startswith(_HTTP)


def _splits(spec: TimelabelSpec, values: Properties, findings: Findings) -> bool:
    """Return whether work units are split; what contradicts that goes to findings."""
    if SPLIT not in values.explicit:
        return spec.is_dated and is_asked_by_window(values)
    if values.section(TimelabelsSection).split != "units":
        return False
    asked = units_of_source(values)
    if asked:
        findings.problem(
            SPLIT, f'is "units", and each unit of {asked} is read whole', "Leave it out."
        )
    elif not spec.is_dated:
        findings.notice(SPLIT, "has no effect: work units have no time", "")
    return spec.is_dated and not asked


def _check_left_out(spec: TimelabelSpec, values: Properties, findings: Findings) -> None:
    """Say where periods are to be left out, and runs do not read periods."""
    wanted = {CATCHUP: not spec.catches_up, FIRST_RUN: spec.first_period}
    asked = units_of_source(values)
    is_uncut = values.section(PlanningSection).partition == "none" and findings.is_sound(PARTITION)
    for key in (key for key, is_wanted in wanted.items() if is_wanted):
        if publish_mode(values) is PublishMode.REPLACE:
            findings.notice(key, "has no effect: each run reads everything anew, to replace all")
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
