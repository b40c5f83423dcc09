"""Makes each file a work unit that is read once (``ms.source.files.once``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dil.errors import Problem, SourceContractError, SourceError
from dil.model.json import JsonObject, as_text
from dil.model.properties import Properties
from dil.model.work_unit import WorkUnit
from dil.sections.source import ONCE, URI, FilesSection, SourceSection

_FILE, _VERSION = "file", "version"


@dataclass(frozen=True, slots=True)
class UnitFile:
    """The file of a work unit; ``version`` is empty if any version may be read."""

    path: str
    version: str = ""

    def check(self, version: str) -> None:
        """Compare the listed version with ``version``, the present version.

        Raises:
            SourceContractError: the file has another version now.
        """
        if self.version and self.version != version:
            raise SourceContractError(
                f"{self.path}: the file changed after it was listed",
                "The next run lists the file again: its new version is a work unit of its own.",
            )


def reads_once(properties: Properties) -> bool:
    """Return whether each file is a work unit."""
    return properties.section(FilesSection).once != "none"


def file_unit(path: str, version: str, properties: Properties) -> JsonObject:
    """Return the unit of a file; equal units are read once in all runs.

    Raises:
        SourceError: the file's name is not UTF-8, so the state cannot store it.
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        shown = path.encode(errors="backslashreplace").decode()
        raise SourceError(
            f"{shown}: the name is not UTF-8, and {ONCE} keeps names",
            "Rename the file, or leave it out by ms.source.files.pattern.",
        ) from None
    if properties.section(FilesSection).once == "path":
        return {_FILE: path}
    return {_FILE: path, _VERSION: version}


def unit_file(properties: Properties, work_unit: WorkUnit) -> UnitFile | None:
    """Return the file of a work unit, None if the job's work units are no files."""
    if not reads_once(properties):
        return None
    unit = work_unit.unit
    return UnitFile(as_text(unit[_FILE]), as_text(unit.get(_VERSION, "")))


def once_problems(properties: Properties, *, lists: bool) -> Iterator[Problem]:
    """Yield problems that prevent files from being units, before any I/O.

    ``lists`` says whether the job asks for names instead of contents.
    """
    if not reads_once(properties):
        return
    origin = properties.origin(ONCE)
    if lists:
        yield Problem(
            origin,
            ONCE,
            "reads files, but the job lists names",
            "Keep only one. ms.source.files.pattern selects the files to read.",
        )
    if "{{" in properties.section(SourceSection).uri:
        yield Problem(
            properties.origin(URI),
            URI,
            f"has variables, and {ONCE} lists the files before there is any work unit",
            "Write the folder without variables, and select files by ms.source.files.pattern.",
        )
