"""Checks for date patterns that are valid but nearly always a mistake."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from dil.config.findings import Findings
from dil.config.property import properties_of
from dil.config.requests import all_parameters
from dil.model.properties import Properties
from dil.model.section import ONE_OF, Section, ValueType, prop
from dil.model.suggestions import quote
from dil.sections.conversion import DERIVED, DerivedSection
from dil.sections.parameters import KEY as PARAMETERS

_LINT = "ms.lint.patterns"


@dataclass(frozen=True, slots=True)
class LintSection(Section):
    """Whether valid values that are nearly always a mistake are refused."""

    patterns: Annotated[Literal["on", "off"], ONE_OF] = prop(
        _LINT,
        "Refuses valid date patterns that are nearly always a mistake: `YYYY-MM-DD` (DD is the "
        "day of the year), `%Y-%m-%d`, `hh` without `a`, `mm` for a month, `xxxx` without `ww`. "
        "off accepts them.",
        default="on",
        identity=False,
    )


def check_patterns(values: Properties, findings: Findings) -> None:
    """Report date patterns that are likely mistakes."""
    if values.section(LintSection).patterns == "off":
        return
    for key, place, pattern in _patterns(values):
        from dil.text.joda_mistakes import find_mistake  # few jobs have patterns

        if found := find_mistake(pattern):
            reason, likely = found
            findings.problem(
                key,
                f"{place} the date pattern {quote(pattern)}, in which {reason}",
                f"Write {likely}, or set {_LINT}=off if it is meant.",
            )


def _patterns(values: Properties) -> Iterator[tuple[str, str, str]]:
    """Yield key, place and text of each pattern that the user wrote."""
    for section in values.sections():
        for entry in properties_of(type(section)):
            if entry.type is ValueType.DATE_PATTERNS and entry.name in values.explicit:
                written: tuple[str, ...] = getattr(section, entry.field)
                yield from ((entry.name, "has", each) for each in written if each != "iso")
    for parameter in all_parameters(values):
        if parameter.format == "datetime" and parameter.pattern:
            yield PARAMETERS, f'parameter "{parameter.name}" has', parameter.pattern
    for field in values.section(DerivedSection).fields:
        if field.formula.type == "epoc" and field.formula.format.lower() != "iso":
            yield DERIVED, f'field "{field.name}" has', field.formula.format
