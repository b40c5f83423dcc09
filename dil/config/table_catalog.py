"""The property table: catalogs. Source: timelabels.md 5.7."""

from __future__ import annotations

from dil.config.property import Group, Property, Scope, ValueType

CATALOGS = Group(
    "catalogs",
    "Catalogs",
    (
        Property(
            "ms.catalog.type",
            ValueType.ENUM,
            "Where the dataset's table and partitions are registered after each publish: a Hive "
            "metastore or AWS Glue.",
            default="none",
            words=("none", "hive", "glue"),
            scope=Scope.JOB,
            identity=False,
        ),
        Property(
            "ms.catalog.database",
            ValueType.STRING,
            "The catalog's database. Unset: the last part of `extract.namespace`.",
            scope=Scope.JOB,
            identity=False,
        ),
        Property(
            "ms.catalog.table",
            ValueType.STRING,
            "The catalog's table. Unset: `extract.table.name`.",
            scope=Scope.JOB,
            identity=False,
        ),
        Property(
            "ms.catalog.hive.metastore",
            ValueType.STRING,
            "The Hive metastore, such as `thrift://host:9083`; or a folder for an embedded one, "
            "for one process at a time. Unset: what Spark's own configuration says, "
            "`hive-site.xml`.",
            scope=Scope.JOB,
            identity=False,
        ),
        Property(
            "ms.catalog.glue.region",
            ValueType.STRING,
            "The region of AWS Glue. Unset: that of the environment.",
            scope=Scope.JOB,
            identity=False,
        ),
        Property(
            "ms.catalog.glue.endpoint",
            ValueType.STRING,
            "The address of a service that speaks like AWS Glue. Unset: `AWS_ENDPOINT_URL_GLUE`, "
            "`AWS_ENDPOINT_URL`, else AWS.",
            scope=Scope.JOB,
            identity=False,
        ),
    ),
)
