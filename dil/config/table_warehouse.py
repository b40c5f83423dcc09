"""The property table: warehouse tables. Source: timelabels.md 4, 5."""

from __future__ import annotations

from dil.config.property import Group, Property, Scope, ValueType

WAREHOUSE = Group(
    "warehouse",
    "Warehouse tables",
    (
        Property(
            "ms.warehouse.url",
            ValueType.STRING,
            "SQLAlchemy URL of the database whose table rows are loaded into: postgresql, mysql, "
            "mariadb, duckdb or sqlite. The table is `extract.table.name`, in the schema that the "
            "last part of `extract.namespace` names; MySQL and SQLite have none. A relative path "
            "starts at the job file.",
            scope=Scope.JOB,
            secret=True,
            identity=False,
        ),
        Property(
            "ms.warehouse.user",
            ValueType.STRING,
            "User of that database; wins over one in the URL.",
            scope=Scope.JOB,
            secret=True,
            identity=False,
        ),
        Property(
            "ms.warehouse.password",
            ValueType.STRING,
            "Password of that database; wins over one in the URL.",
            scope=Scope.JOB,
            secret=True,
            identity=False,
        ),
        Property(
            "ms.warehouse.table.kind",
            ValueType.ENUM,
            "regular is one table; timeseries has a table `_<table>_<timelabel>` for each "
            "timelabel, and the view `<table>_view` of all of them.",
            default="regular",
            words=("regular", "timeseries"),
            scope=Scope.JOB,
        ),
        Property(
            "ms.warehouse.operation",
            ValueType.ENUM,
            "insert adds rows, replace puts the run's rows in place of all others, upsert puts a "
            "row in place of the one of its primary key. Unset: as `ms.publish.mode` says.",
            words=("replace", "insert", "upsert"),
            scope=Scope.JOB,
        ),
        Property(
            "ms.timeseries.retention",
            ValueType.DURATION,
            "How long after its end a timelabel is kept, such as `P90D`; older ones are dropped "
            "when a run publishes. Unset: for ever.",
            scope=Scope.JOB,
            identity=False,
        ),
        Property(
            "ms.timeseries.max.partitions",
            ValueType.INT,
            "How many tables the view reads, or how many partitions there are; the oldest ones "
            "beyond it are put together into one. Unset: 1000, SQLite 400.",
            low=2,
            scope=Scope.JOB,
            identity=False,
        ),
        Property(
            "ms.timeseries.physical",
            ValueType.ENUM,
            "How timelabels are kept apart: tables gives each a table of its own; with native "
            "`<table>` is partitioned by a column `_timelabel`, and each label is a partition of "
            "it. native is for PostgreSQL.",
            default="tables",
            words=("tables", "native"),
            scope=Scope.JOB,
        ),
    ),
)
