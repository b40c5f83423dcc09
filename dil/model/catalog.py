"""Catalogs in which other engines find tables: a Hive metastore, AWS Glue."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# The folders of a timelabel (rule T17).
LABEL_FIELDS = ("y", "m", "d", "h", "n")


class CatalogType(StrEnum):
    """The values of ``ms.catalog.type`` other than ``none``."""

    HIVE = "hive"
    GLUE = "glue"


@dataclass(frozen=True, slots=True)
class CatalogSpec:
    """The table under which a catalog registers a dataset.

    ``metastore`` is a thrift address, or the absolute path of the folder of an embedded metastore;
    empty if Spark's own configuration names it. ``region`` and ``endpoint`` are for Glue, empty if
    the environment names them.
    """

    type: CatalogType
    database: str
    table: str
    metastore: str = ""
    region: str = ""
    endpoint: str = ""

    @property
    def name(self) -> str:
        """Return the table's name with its database."""
        return f"{self.database}.{self.table}"

    @property
    def place(self) -> str:
        """Return a text that identifies this table among the tables of all catalogs."""
        parts = (self.type, self.metastore, self.region, self.endpoint, self.name)
        return " ".join(part for part in parts if part)
