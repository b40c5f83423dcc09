"""The record of a dataset in a catalog, and the seam to the engines that keep it."""

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
    type string (rule T17). ``location`` is the folder as Hadoop names it: a URI without
    escapes. ``job`` is who registers it.
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
        """Return the name with that of the database."""
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
    """A catalog that is open. Each step, done again, changes nothing.

    All raise WriteError when the catalog refuses or cannot be reached.
    """

    def put_table(self, table: CatalogTable, changing: Callable[[], None]) -> TableChange:
        """Create the table and its database, or give it these columns and this folder.

        ``changing`` is called right before something is done to the table.
        """

    def put_partitions(self, table: CatalogTable, partitions: Sequence[Partition]) -> None:
        """Add partitions; those that are there get this folder and the table's columns."""

    def drop_partitions(self, table: CatalogTable, partitions: Sequence[Partition]) -> None:
        """Take partitions out of the table; their files stay."""


JOB_PARAMETER = "dil.job"


def refuse_other_table(
    table: CatalogTable, kind: str, apart: Sequence[str], owner: str, reads: str
) -> None:
    """Refuse a table that is there and is none that a job like this one registers.

    Args:
        table: The table as it should be.
        kind: The kind of the one that is there, in the catalog's words.
        apart: Its partition columns.
        owner: The job that registered it, empty text for none.
        reads: The class that reads its files, empty text where the catalog names none.

    Raises:
        WriteError: it is of another kind, is cut otherwise, has files of another format, or belongs
            to another job.
    """
    expected = tuple(name.lower() for name in table.apart)
    found = tuple(name.lower() for name in apart)
    if kind.upper() not in {"EXTERNAL", "EXTERNAL_TABLE"}:
        what = f"is a {kind.lower()} table or view, and not an external one"
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
        " and the next run registers it anew.",
    )
