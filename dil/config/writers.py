"""``ms.writer.class``: a class of the job's own that writes files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dil.config.catalog import TYPE, CatalogSection
from dil.config.destinations import other_place
from dil.config.findings import Findings
from dil.config.publishing import FILE_EACH, MODE
from dil.config.writing import FORMAT
from dil.model.job import (
    OutputFormat,
    Plugins,
    PublishingSpec,
    PublishMode,
    WriterSpec,
    WritingSpec,
)
from dil.model.properties import Properties
from dil.model.section import ClassName, Section, prop
from dil.model.suggestions import quote
from dil.spi.registry import load
from dil.spi.writer import FileWriter

WRITER = "ms.writer.class"
_EXTENSION = re.compile(r"[a-z][a-z0-9]{0,15}")


@dataclass(frozen=True, slots=True)
class WriterSection(Section):
    """A file format of the job's own."""

    name: ClassName = prop(
        WRITER,
        "Class that writes the files, in place of the format that `writer.output.format` names: "
        "the name that"
        " an installed package offers, or the Python path of a class of the job's own.",
        default="",
        example="fixed_width.FixedWidthWriter",
    )


def refuse_format(text: str, findings: Findings) -> bool:
    """Refuse the name of a built-in format, and return whether it was refused.

    A built-in format has a property of its own.
    """
    word = text.lower()
    if word not in set(OutputFormat):
        return False
    fix = f"Set {FORMAT}={word.upper()} in its place."
    findings.problem(WRITER, f"is {quote(text)}, which is no class", fix)
    return True


def with_writer(
    writing: WritingSpec,
    publishing: PublishingSpec,
    plugins: Plugins,
    values: Properties,
    findings: Findings,
) -> WritingSpec:
    """Return the writing part of a job, with the job's own writer class if the job names one."""
    ref = plugins.writer
    if ref is None:
        return writing
    kind: type[FileWriter] = load(ref)
    extension: object = getattr(kind, "extension", None)
    if not isinstance(extension, str) or not _EXTENSION.fullmatch(extension):
        what = f"is {ref}, whose extension is {extension!r}"
        findings.problem(WRITER, what, "Give the class an extension of small letters and digits.")
    elif extension in set(OutputFormat):
        what = f"is {ref}, whose extension is {extension!r}, the extension of a built-in format"
        findings.problem(
            WRITER,
            what,
            "Give the class another extension: files are read back by their extension.",
        )
    for key, what, fix in _contradictions(publishing, values):
        findings.problem(key, f"{what}, and {WRITER} is set", fix)
    names = [each.name for each in kind.properties]
    own = WriterSpec(ref, values.only(kind.sections, names))
    return replace(writing, format=OutputFormat.PARQUET, own=own)


def _contradictions(
    publishing: PublishingSpec, values: Properties
) -> Iterator[tuple[str, str, str]]:
    """Yield the properties that contradict the job's own writer, each with why and the fix."""
    if FORMAT in values.explicit:
        yield FORMAT, "says another format", "Leave one of them out."
    if place := other_place(values):
        yield place, "is set, and only Parquet files go there", f"Leave {WRITER} out."
    if publishing.mode is PublishMode.MERGE:
        what = "is merge, for which files are read back"
        yield MODE, what, "Write append, replace or window_replace."
    if publishing.shares_files:
        yield FILE_EACH, "is false, for which files are read back", "Leave it out."
    if (catalog := values.section(CatalogSection).type) != "none":
        yield TYPE, f"is {quote(catalog)}, which takes Parquet and ORC", "Leave one of them out."
