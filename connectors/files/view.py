"""Describes, for people, the requests of a session that reads or sends files."""

from __future__ import annotations

from connectors.files.names import reads_one_file
from connectors.files.once import UnitFile
from connectors.files.payload import sends_file
from dil.model.properties import Properties
from dil.sections.source import FilesSection
from dil.spi.request_view import RequestView


def file_view(
    place: str, unit: UnitFile | None, properties: Properties, *, lists: bool | None = None
) -> RequestView:
    """Return the description of a session's request: to list files, read one, or write one.

    Args:
        place: Address of the folder, prefix or file, without a password.
        unit: The file of the work unit, None if work units are no files.
        properties: The properties of the job.
        lists: Whether the names of the files are the rows; None means the opposite of
            ``reads_one_file``.
    """
    if sends_file(properties):
        return RequestView("put", place)
    if unit is not None:
        version = f"version {unit.version}" if unit.version else ""
        return RequestView("read", unit.path, text=version)
    pattern = properties.section(FilesSection).pattern
    is_list = not reads_one_file(properties) if lists is None else lists
    then = "their names are the rows" if is_list else "what is found is read"
    return RequestView("list", place, text=f"files whose names match {pattern}; {then}")
