"""``ms.destination.class``, and where rows go: to files, a table, a database or that class."""

from __future__ import annotations

from dataclasses import dataclass

from dil.config.tables import FORMAT, TablesSection
from dil.config.warehouse import URL, WarehouseSection
from dil.model.destination import TableFormat
from dil.model.properties import Properties
from dil.model.section import ClassName, Section, prop

DESTINATION = "ms.destination.class"


@dataclass(frozen=True, slots=True)
class DestinationSection(Section):
    """A destination of the job's own."""

    name: ClassName = prop(
        DESTINATION,
        "Class that publishes the rows, in place of files, tables and warehouses: the name that an"
        " installed package offers, or the Python path of a class of the job's own.",
        default="",
        example="sqlite_destination.SqliteDestination",
    )


def is_of_files(values: Properties) -> bool:
    """Return whether rows are published as plain files, and to nothing else."""
    return other_place(values) is None


def other_place(values: Properties) -> str | None:
    """Return the property that publishes rows to another place than plain files, or None."""
    if values.section(DestinationSection).name:
        return DESTINATION
    if values.section(WarehouseSection).url is not None:
        return URL
    return None if values.section(TablesSection).format is TableFormat.FILES else FORMAT
