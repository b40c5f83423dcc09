"""The property table: tables of files, and merges by key. Source: spec README 20, 39."""

from __future__ import annotations

from dil.config.property import Group, Property
from dil.model.section import Scope, ValueType

TABLES = Group(
    "tables",
    "Tables of files",
    (
        Property(
            "ms.table.format",
            ValueType.ENUM,
            "files are plain files with a manifest; delta and iceberg are tables of Parquet files.",
            default="files",
            words=("files", "delta", "iceberg"),
            scope=Scope.JOB,
        ),
        Property(
            "ms.table.partition.fields",
            ValueType.LIST,
            "Columns by whose values rows are kept apart, in folders `column=value`.",
            default="",
            scope=Scope.JOB,
        ),
        Property(
            "ms.iceberg.catalog.uri",
            ValueType.STRING,
            "The Iceberg catalog: a SQLAlchemy URL of sqlite, postgresql or mysql, or the http "
            "address of a REST catalog. Unset: the SQLite catalog `iceberg-catalog.db` in the "
            "state folder. A relative path starts at the job file.",
            scope=Scope.JOB,
            secret=True,
            identity=False,
        ),
    ),
)

MERGING = Group(
    "merging",
    "Merging by key",
    (
        Property(
            "ms.merge.op.field",
            ValueType.STRING,
            "Column that tells what happened to a row at the source, such as `op` of a change log.",
            scope=Scope.JOB,
        ),
        Property(
            "ms.merge.op.deletes",
            ValueType.LIST,
            "Values of that column for deleted rows, whatever their case.",
            default="d,delete,deleted",
            scope=Scope.JOB,
        ),
        Property(
            "ms.merge.deletes",
            ValueType.ENUM,
            "hard takes deleted rows away; soft keeps them, with the time in `_dil_deleted_at`.",
            default="hard",
            words=("hard", "soft"),
            scope=Scope.JOB,
        ),
        Property(
            "ms.merge.delete.missing",
            ValueType.BOOL,
            "Whether rows are deleted whose key a full reading did not have.",
            default="false",
            scope=Scope.JOB,
        ),
        Property(
            "ms.merge.delete.limit.percent",
            ValueType.INT,
            "How much of the dataset may be deleted for missing at the source; more fails the run.",
            default="10",
            low=0,
            high=100,
            scope=Scope.JOB,
        ),
    ),
)
