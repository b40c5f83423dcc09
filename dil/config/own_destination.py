"""Checks of ``ms.destination.class``, a class of the job's own that publishes rows."""

from __future__ import annotations

from dataclasses import replace

from dil.config.destinations import DESTINATION
from dil.config.findings import Findings
from dil.config.merging import MISSING
from dil.config.property import properties_of
from dil.config.publishing import MODE
from dil.config.tables import FORMAT
from dil.config.warehouse import URL
from dil.model.destination import TableFormat
from dil.model.job import ClassRef, DestinationSpec, Plugins, PublishingSpec
from dil.model.properties import Properties
from dil.model.suggestions import quote
from dil.sections.extraction import ExtractionSection
from dil.spi.destination import Destination
from dil.spi.registry import is_built_in, load

_DATABASES = ("warehouse", "postgresql", "mysql", "mariadb", "duckdb", "sqlite")


def refuse_word_of_table(text: str, findings: Findings) -> bool:
    """Refuse the name of a built-in destination, and return whether it was refused.

    A built-in destination has a property of its own.
    """
    word = text.lower()
    if word in set(TableFormat):
        fix = f"Set ms.table.format={word} in its place."
    elif word in _DATABASES:
        fix = "Set ms.warehouse.url in its place."
    else:
        return False
    findings.problem(DESTINATION, f"is {quote(text)}, which is no class", fix)
    return True


def with_destination(
    publishing: PublishingSpec, plugins: Plugins, values: Properties, findings: Findings
) -> PublishingSpec:
    """Return the publishing part, with the job's own destination class if the job names one."""
    ref = plugins.destination
    if ref is None or values.section(ExtractionSection).is_file_dump:
        return publishing
    kind: type[Destination] = load(ref)
    _refuse_second_place(publishing, findings)
    _check_modes(kind, publishing, values, findings)
    secrets = tuple(_secrets_of(kind) - _secrets_of(*map(load, _others(plugins))))
    own = values.only(kind.sections, [each.name for each in kind.properties])
    return replace(publishing, destination=DestinationSpec(ref, own, secrets))


def _refuse_second_place(publishing: PublishingSpec, findings: Findings) -> None:
    others = {
        URL: publishing.warehouse is not None,
        FORMAT: publishing.table.format is not TableFormat.FILES,
    }
    for key, is_set in others.items():
        if is_set:
            findings.problem(
                key,
                f"is set, and so is {DESTINATION}",
                "Rows go to one place: leave one of them out.",
            )


def _check_modes(
    kind: type[Destination], publishing: PublishingSpec, values: Properties, findings: Findings
) -> None:
    """Refuse publish modes and options that the class lacks, before a row is read."""
    mode, merge = publishing.mode, publishing.merge
    if mode not in kind.modes:
        known = ", ".join(sorted(kind.modes))
        findings.problem(
            MODE,
            f"is {mode}, which {kind.__name__} does not have",
            f"Write one that it has: {known}.",
            values.origin(MODE) or values.origin(DESTINATION),
        )
    elif merge is not None and merge.deletes_missing and kind.missing is Destination.missing:
        findings.problem(
            MISSING,
            f"is true, and {kind.__name__} does not look for rows that are missing",
            "Leave it out.",
        )


def _others(plugins: Plugins) -> tuple[ClassRef, ...]:
    """Return the job's own classes except the destination; they run in tasks."""
    return tuple(ref for ref in plugins.refs if ref != plugins.destination and not is_built_in(ref))


def _secrets_of(*classes: type) -> frozenset[str]:
    """Return the names of the secrets that classes of the job's own declare."""
    single = (each for found in classes for each in getattr(found, "properties", ()))
    sections = (kind for found in classes for kind in getattr(found, "sections", ()))
    declared = (entry for kind in sections for entry in properties_of(kind))
    return frozenset(
        (
            *(each.name for each in single if each.secret),
            *(entry.name for entry in declared if entry.secret),
        )
    )
