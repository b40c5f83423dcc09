"""The job's own classes of output: one that publishes rows, one that writes files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Annotated

from dil.config.catalog import CATALOG_TYPE, CatalogSection
from dil.config.destinations import (
    DESTINATION,
    TABLE_FORMAT,
    URL,
    TablesSection,
    WarehouseSection,
    other_place,
)
from dil.config.findings import Findings
from dil.config.merging import MISSING
from dil.config.property import properties_of
from dil.config.publishing import FILE_EACH, PUBLISH_MODE, publish_mode
from dil.config.writing import FILE_FORMAT
from dil.model.destination import MergeSpec, TableFormat
from dil.model.job import (
    DestinationSpec,
    OutputFormat,
    Plugins,
    PublishingSpec,
    PublishMode,
    WriterSpec,
)
from dil.model.messages import quote
from dil.model.properties import Properties
from dil.model.section import Section, ValueType, Written, prop
from dil.spi.destination import Destination
from dil.spi.registry import PluginKind, is_built_in, load
from dil.spi.writer import FileWriter

WRITER = "ms.writer.class"
_EXTENSION = re.compile(r"[a-z][a-z0-9]{0,15}")
_DATABASES = ("warehouse", "postgresql", "mysql", "mariadb", "duckdb", "sqlite")


@dataclass(frozen=True, slots=True)
class WriterSection(Section):
    """A file format of the job's own."""

    name: Annotated[str, Written(ValueType.CLASS, plugin=PluginKind.WRITER)] = prop(
        WRITER,
        "Class that writes the files, in place of the format that `writer.output.format` names: "
        "the name that an installed package offers, or the Python path of a class of the job's "
        "own.",
        default="",
        example="fixed_width.FixedWidthWriter",
    )


def built_in_advice(key: str, text: str) -> str:
    """Return what to set in place of a class if a text names a built-in destination or format.

    The text is empty if it may name a class.
    """
    word = text.lower()
    if key == WRITER:
        return (
            f"Set {FILE_FORMAT}={word.upper()} in its place." if word in set(OutputFormat) else ""
        )
    if word in set(TableFormat):
        return f"Set {TABLE_FORMAT}={word} in its place."
    return f"Set {URL} in its place." if word in _DATABASES else ""


def destination_spec(
    plugins: Plugins, merge: MergeSpec | None, values: Properties, findings: Findings
) -> DestinationSpec | None:
    """Return the job's own destination class, None if the job names none."""
    ref, mode = plugins.destination, publish_mode(values)
    if ref is None:
        return None
    kind: type[Destination] = load(ref)
    for key, is_set in (
        (URL, values.section(WarehouseSection).url is not None),
        (TABLE_FORMAT, values.section(TablesSection).format is not TableFormat.FILES),
    ):
        if is_set:
            what = f"is set, and so is {DESTINATION}"
            findings.problem(key, what, "Rows go to one place: leave one of them out.")
    if mode not in kind.modes:
        findings.problem(
            PUBLISH_MODE,
            f"is {mode}, which {kind.__name__} does not have",
            f"Write one that it has: {', '.join(sorted(kind.modes))}.",
            values.origin(PUBLISH_MODE) or values.origin(DESTINATION),
        )
    elif merge is not None and merge.deletes_missing and kind.missing is Destination.missing:
        what = f"is true, and {kind.__name__} does not look for rows that are missing"
        findings.problem(MISSING, what, "Leave it out.")
    # The job's other classes run in tasks, which get no secret of the destination.
    others = [load(each) for each in plugins.refs if each != ref and not is_built_in(each)]
    secrets = tuple(_secrets_of(kind) - _secrets_of(*others))
    own = values.only(kind.sections, [each.name for each in kind.properties])
    return DestinationSpec(ref, own, secrets)


def _secrets_of(*classes: type) -> frozenset[str]:
    """Return the names of the secrets that classes of the job's own declare."""
    single = (each for found in classes for each in getattr(found, "properties", ()))
    sections = (kind for found in classes for kind in getattr(found, "sections", ()))
    declared = (entry for kind in sections for entry in properties_of(kind))
    return frozenset(each.name for each in chain(single, declared) if each.secret)


def writer_spec(
    plugins: Plugins, publishing: PublishingSpec, values: Properties, findings: Findings
) -> WriterSpec | None:
    """Return the job's own writer class, None if the job names none."""
    ref = plugins.writer
    if ref is None:
        return None
    kind: type[FileWriter] = load(ref)
    extension: object = getattr(kind, "extension", None)
    what = f"is {ref}, whose extension is {extension!r}"
    if not isinstance(extension, str) or not _EXTENSION.fullmatch(extension):
        findings.problem(WRITER, what, "Give the class an extension of small letters and digits.")
    elif extension in set(OutputFormat):
        findings.problem(
            WRITER,
            f"{what}, the extension of a built-in format",
            "Give the class another extension: files are read back by their extension.",
        )
    for key, why, fix in _contradictions(publishing, values):
        findings.problem(key, f"{why}, and {WRITER} is set", fix)
    return WriterSpec(ref, values.only(kind.sections, [each.name for each in kind.properties]))


def _contradictions(
    publishing: PublishingSpec, values: Properties
) -> Iterator[tuple[str, str, str]]:
    """Yield the properties that contradict the job's own writer, each with why and the fix."""
    if FILE_FORMAT in values.explicit:
        yield FILE_FORMAT, "says another format", "Leave one of them out."
    if place := other_place(values):
        yield place, "is set, and only Parquet files go there", f"Leave {WRITER} out."
    if publishing.mode is PublishMode.MERGE:
        why = "is merge, for which files are read back"
        yield PUBLISH_MODE, why, "Write append, replace or window_replace."
    if publishing.shares_files:
        yield FILE_EACH, "is false, for which files are read back", "Leave it out."
    if (catalog := values.section(CatalogSection).type) != "none":
        yield (
            CATALOG_TYPE,
            f"is {quote(catalog)}, which takes Parquet and ORC",
            "Leave one of them out.",
        )
