"""Destinations of rows other than plain files: tables, warehouses, catalogs, receivers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from dil.model.secret import SecretUrl
from dil.model.timelabels import TimelabelSpec

MAX_DELETED_PERCENT = 10
# The column with the time of a soft delete.
DELETED_AT = "_dil_deleted_at"
MAX_PARTITIONS = 1000


class TableFormat(StrEnum):
    """``ms.table.format``."""

    FILES = "files"
    DELTA = "delta"
    ICEBERG = "iceberg"


class Layout(StrEnum):
    """``ms.publish.layout``; TIMELABEL is ``y=/m=/d=/h=/n=`` (rule T17)."""

    DEFAULT = "default"
    TIMELABEL = "timelabel"


class TableKind(StrEnum):
    """``ms.warehouse.table.kind`` (rule T18)."""

    REGULAR = "regular"
    TIMESERIES = "timeseries"


class Physical(StrEnum):
    """``ms.timeseries.physical`` (rule T22)."""

    TABLES = "tables"
    NATIVE = "native"


class Operation(StrEnum):
    """``ms.warehouse.operation`` (rule T18)."""

    REPLACE = "replace"
    INSERT = "insert"
    UPSERT = "upsert"


@dataclass(frozen=True, slots=True)
class MergeSpec:
    """How rows are merged into a dataset by their primary key.

    If several rows have one key, the row with the greatest ``delta_fields`` stays; of rows with
    equal fields, the later extraction stays (rule U18). ``op_field`` names the column with the
    operation on a row, and ``delete_words`` are its values for a deleted row. If ``is_soft`` is
    true, deleted rows are marked, not removed. If ``deletes_missing`` is true, rows whose key the
    run did not read are removed, up to ``max_deleted_percent`` of the dataset's rows.
    """

    keys: tuple[str, ...]
    delta_fields: tuple[str, ...] = ()
    op_field: str = ""
    delete_words: tuple[str, ...] = ()
    is_soft: bool = False
    deletes_missing: bool = False
    max_deleted_percent: int = MAX_DELETED_PERCENT


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table that rows are published to; FILES means plain files in the dataset's folder.

    ``namespace`` and ``name`` are ``extract.namespace`` and ``extract.table.name``.
    ``partition_fields`` are columns whose values separate rows into folders ``column=value``. For
    Iceberg only: ``catalog_uri`` is a SQLAlchemy URL or a REST catalog's address, and
    ``catalog_warehouse`` is the place of the catalog's tables.
    """

    format: TableFormat = TableFormat.FILES
    namespace: str = ""
    name: str = ""
    partition_fields: tuple[str, ...] = ()
    catalog_uri: SecretUrl | None = None
    catalog_warehouse: str = ""


@dataclass(frozen=True, slots=True)
class WarehouseSpec:
    """A table of a database that rows are loaded into.

    ``url`` is a SQLAlchemy URL; it may hold a password and is not printed. ``schema`` is empty if
    the database has none. ``labels`` is the schedule that names labels, None for none. A table of
    kind TIMESERIES drops labels that ended ``retention_ms`` ago (None: never), and keeps labels in
    at most ``max_partitions`` tables, or partitions if ``physical`` says so.
    """

    url: SecretUrl = field(repr=False)
    schema: str
    table: str
    kind: TableKind = TableKind.REGULAR
    operation: Operation = Operation.INSERT
    labels: TimelabelSpec | None = None
    retention_ms: int | None = None
    max_partitions: int = MAX_PARTITIONS
    physical: Physical = Physical.TABLES

    @property
    def is_native(self) -> bool:
        """Return whether labels are partitions of the database."""
        return self.kind is TableKind.TIMESERIES and self.physical is Physical.NATIVE

    @property
    def relation(self) -> str:
        """Return the name to query: the table, or the view over the tables of the labels."""
        name = f"{self.table}_view" if self.kind is TableKind.TIMESERIES else self.table
        return f"{self.schema}.{name}" if self.schema else name

    @property
    def keeps_readings(self) -> bool:
        """Return whether a label keeps a work unit's rows when the unit is read for another label.

        Work units without a time have the label of their run, so each label has a reading of its
        own.
        """
        return self.labels is not None and not self.labels.is_dated


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


@dataclass(frozen=True, slots=True)
class EgressSpec:
    """How payload rows are sent (rule G38).

    If ``keeps_refused`` is true, rows that the receiver refuses for good are put aside, at most
    ``max_refused`` rows of a work unit (None is no limit). If ``sends_again`` is true, rows are
    sent even if an earlier attempt may have sent them. ``batch_rows`` rows go into one request, as
    an array in ``batch_field``; if ``batch_field`` is empty, each row is a request of its own.
    """

    keeps_refused: bool = False
    max_refused: int | None = None
    sends_again: bool = False
    batch_rows: int = 1
    batch_field: str = ""


@dataclass(frozen=True, slots=True)
class AuditSpec:
    """The settings of the audit, which records every request (docs/egress.md).

    ``directory`` is absolute, empty for ``_audit`` in the dataset's folder. If ``is_required`` is
    true, a request that cannot be recorded is not sent.
    """

    enabled: bool = False
    directory: str = ""
    is_required: bool = True
