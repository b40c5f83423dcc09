"""The windows of ``ms.query.mode=windowed``, and the settings that contradict them."""

from __future__ import annotations

from dil.config.findings import Findings
from dil.config.property import names_of
from dil.model.properties import Properties
from dil.model.windows import END, START, WindowSpec
from dil.sections.query import FILE, FUNCTION, MODE, SQL, QuerySection
from dil.sections.windows import AGGS, COLUMN, KEYS, SIZE, SLIDE, WindowSection


def window_spec(values: Properties, findings: Findings) -> WindowSpec | None:
    """Return the windows of a job, None if it has none; problems become findings."""
    section, query = values.section(WindowSection), values.section(QuerySection)
    if query.mode != "windowed":
        for name in sorted(names_of(WindowSection) & values.explicit):
            findings.problem(name, "has no effect here", f"Leave it out, or set {MODE}=windowed.")
        return None
    for name in (SQL, FILE, FUNCTION):
        if name in values.explicit:
            findings.problem(
                name,
                f"does not go with {MODE}=windowed: the windows are the query",
                f"Let another job with {MODE}=append choose and change rows, and read its dataset.",
            )
    if len(query.inputs) > 1:
        findings.problem(
            MODE,
            f"is windowed, and there are {len(query.inputs)} inputs",
            "Name one: windows are over one dataset.",
        )
    for name, value, fix in (
        (COLUMN, section.column.strip(), "Name the column with the time of a row."),
        (SIZE, section.size_ms, "Write an ISO duration, such as PT1H."),
        (AGGS, section.aggs, 'Write {"total": "sum(amount)"}.'),
    ):
        if not value:
            findings.problem(MODE, f"is windowed, and {name} is not set", fix)
    if section.size_ms is not None and (section.slide_ms or 0) > section.size_ms:
        what = f"is longer than {SIZE}: rows between two windows would be in none"
        findings.problem(SLIDE, what, f"Write at most {SIZE}, or leave it out.")
    _refuse_names(section, findings)
    size_ms = section.size_ms or 1
    return WindowSpec(
        section.column.strip(),
        size_ms,
        section.slide_ms or size_ms,
        section.keys,
        tuple(section.aggs.items()),
    )


def _refuse_names(section: WindowSection, findings: Findings) -> None:
    taken: dict[str, str] = {START: "the begin of the window", END: "the end of the window"}
    for key, names in ((KEYS, section.keys), (AGGS, tuple(section.aggs))):
        for name in names:
            if name.lower() in taken:
                what = f'has the column "{name}", which is {taken[name.lower()]}'
                findings.problem(key, what, "Give it another name.")
            taken[name.lower()] = f"one of {key}"
