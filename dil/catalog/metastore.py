"""A dataset's record in a catalog, and the interface to the engines that keep it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from dil.errors import WriteError
from dil.model.job import OutputFormat


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """An external table.

    ``columns`` are names with Hive types; ``apart`` are the columns in the folder names, all of
    type string (rule T17). ``location`` is the folder as Hadoop names it: a URI without escapes.
    ``job`` is the name of the job that registers the table.
    """

    database: str
    name: str
    columns: tuple[tuple[str, str], ...]
    apart: tuple[str, ...]
    location: str
    format: OutputFormat
    job: str

    @property
    def full_name(self) -> str:
        """Return the name with the database's name before it."""
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition: the values of the table's ``apart`` columns, and its folder."""

    values: tuple[str, ...]
    location: str


class TableChange(Enum):
    """The changes that brought a table to its wanted state."""

    NONE = "none"
    CREATED = "created"
    CHANGED = "changed"


class Metastore(Protocol):
    """An open catalog. Repeating a step changes nothing.

    All methods raise WriteError if the catalog refuses or cannot be reached.
    """

    def put_table(self, table: CatalogTable, changing: Callable[[], None]) -> TableChange:
        """Create the table and its database, or give the table these columns and this folder.

        ``changing`` is called right before the table is changed.
        """

    def put_partitions(self, table: CatalogTable, partitions: Sequence[Partition]) -> None:
        """Add partitions, and give existing ones this folder and the table's columns."""

    def drop_partitions(self, table: CatalogTable, partitions: Sequence[Partition]) -> None:
        """Remove partitions from the table; their files stay."""


JOB_PARAMETER = "dil.job"


def refuse_other_table(
    table: CatalogTable, kind: str, apart: Sequence[str], owner: str, reads: str
) -> None:
    """Raise if the existing table is not one that this job registered for this dataset.

    Args:
        table: The table as it should be.
        kind: The kind of the existing table, in the catalog's words.
        apart: The partition columns of the existing table.
        owner: The job that registered the existing table, empty text if none did.
        reads: The class that reads the table's files, empty text if the catalog names none.

    Raises:
        WriteError: the table is of another kind, has other partition columns, has files of another
            format, or belongs to another job.
    """
    expected = tuple(name.lower() for name in table.apart)
    found = tuple(name.lower() for name in apart)
    if kind.upper() not in {"EXTERNAL", "EXTERNAL_TABLE"}:
        what = f"is a {kind.lower()} table or view, not an external table"
    elif owner != table.job:
        what = f"belongs to job {owner}" if owner else "was not made by a job of dil"
    elif found != expected:
        what = f'is partitioned by "{",".join(found)}", and the dataset by "{",".join(expected)}"'
    elif reads and table.format.value not in reads.lower():
        what = f"reads files by {reads}, and the dataset's are {table.format.upper()}"
    else:
        return
    raise WriteError(
        f"the table {table.full_name} of the catalog {what}",
        "Choose another ms.catalog.table, or drop the table: the files of an external one stay,"
        " and the next run registers the table again.",
    )
