"""Jobs whose units are the source's own: its files, or ranges of a key column."""

from __future__ import annotations

from dil.config.findings import Findings
from dil.config.publishing import publish_mode
from dil.config.watermarks import PARTITION, WATERMARK, PlanningSection
from dil.model.job import PublishMode
from dil.model.properties import Properties
from dil.spi.source import KEY_RANGES, ONCE, DatabaseSection, FilesSection

_REREAD = ("ms.grace.period", "ms.grace.period.days", "ms.abstinent.period")


def asked_of_source(values: Properties) -> list[str]:
    """Return the properties by which a job takes its units from the source; one at most works."""
    asked = {
        ONCE: values.section(FilesSection).once != "none",
        KEY_RANGES: values.section(DatabaseSection).key_column,
    }
    return [name for name, is_asked in asked.items() if is_asked]


def units_of_source(values: Properties) -> str:
    """Return the property by which a job takes its units from the source, empty text for none."""
    return next(iter(asked_of_source(values)), "")


def members_of_source(values: Properties) -> frozenset[str]:
    """Return the members that each unit of the source has, none where it names no units."""
    if values.section(FilesSection).once == "path":
        return frozenset({"file"})
    members = {ONCE: {"file", "version"}, KEY_RANGES: {"range"}}
    return frozenset(members.get(units_of_source(values), ()))


def check_units_of_source(name: str, values: Properties, findings: Findings) -> None:
    """Report what contradicts units of the source; ``name`` is the property that asks for them.

    Each unit is one work unit that is read whole, so no time partition goes with it. A file would
    have another signature where the range begins at another time in each run; ranges of keys have
    others whenever the table has grown.
    """
    planning = values.section(PlanningSection)
    if planning.marks.has_units:
        findings.problem(
            WATERMARK, f"declares units while {name} takes them from the source", "Keep one."
        )
    if planning.partition != "none":
        findings.problem(
            PARTITION, f"cuts time, and each unit of {name} is read whole", "Leave it out."
        )
    is_replaced = publish_mode(values) is PublishMode.REPLACE
    if name == KEY_RANGES and not is_replaced:
        findings.problem(
            name,
            "cuts a table that grows into other ranges in each run, whose rows would be doubled",
            "Set ms.publish.mode=replace.",
        )
    if name == ONCE:
        _check_files(values, planning.marks.start, findings, is_replaced=is_replaced)


def _check_files(values: Properties, start: str, findings: Findings, *, is_replaced: bool) -> None:
    name = ONCE
    if start.upper().startswith(("P", "-")):
        findings.problem(
            WATERMARK,
            f'begins at "{start}", another time in each run: {name} would know no file again',
            "Leave the datetime watermark out, or begin at a date.",
        )
    for other in _REREAD:
        if other in values.explicit:
            findings.notice(other, f"has no effect: {name} reads each file once")
    if is_replaced:
        findings.problem(
            name,
            "reads only files that are new, while the whole dataset is replaced in each run",
            "Set ms.publish.mode=append, or leave one of the two out.",
        )
