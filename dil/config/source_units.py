"""Jobs whose units are the source's own: its files, or ranges of a key column."""

from __future__ import annotations

from dil.config.findings import Findings
from dil.config.publishing_section import publish_mode
from dil.config.watermarks import KEY as WATERMARK
from dil.config.watermarks import Watermarks
from dil.model.job import PublishMode
from dil.model.properties import Properties

FILES_ONCE = "ms.source.files.once"
_PARTITION = "ms.work.unit.partition"
_REREAD = ("ms.grace.period", "ms.grace.period.days", "ms.abstinent.period")


def units_of_source(values: Properties) -> str:
    """Return the property by which a job takes its units from the source, empty text for none."""
    return "" if values.text(FILES_ONCE) == "none" else FILES_ONCE


def check_units_of_source(
    name: str, values: Properties, marks: Watermarks, findings: Findings
) -> None:
    """Report what contradicts units of the source; ``name`` is the property that asks for them.

    Each unit is one work unit that is read once, so a time partition, or a range that begins at
    another time in each run, would give the same file another signature and read it again.
    """
    if marks.has_units:
        findings.problem(
            WATERMARK, f"declares units while {name} takes them from the source", "Keep one."
        )
    if values[_PARTITION] != "none":
        findings.problem(
            _PARTITION, f"cuts time, and {name} reads each file whole, once", "Leave it out."
        )
    if marks.start.upper().startswith(("P", "-")):
        findings.problem(
            WATERMARK,
            f'begins at "{marks.start}", another time in each run: {name} would know no file again',
            "Leave the datetime watermark out, or begin at a date.",
        )
    for other in _REREAD:
        if other in values.explicit:
            findings.notice(other, f"has no effect: {name} reads each file once")
    if publish_mode(values) is PublishMode.REPLACE:
        findings.problem(
            name,
            "reads only files that are new, while the whole dataset is replaced in each run",
            "Set ms.publish.mode=append, or leave one of the two out.",
        )
