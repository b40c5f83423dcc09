"""The property table: schemas, and what happens to rows that break them."""

from __future__ import annotations

from dil.config.property import Group, Property, Scope, Support, ValueType

_T = Scope.TASK

SCHEMA = Group(
    "schema",
    "Schema",
    (
        Property(
            "ms.output.schema",
            ValueType.JSON_ARRAY,
            "Columns of the rows: name, type, whether null is allowed. Turns inference off.",
            scope=_T,
        ),
        Property(
            "ms.target.schema",
            ValueType.JSON_ARRAY,
            "Columns after a normaliser or range generator.",
            scope=_T,
            support=Support.LATER,
        ),
        Property(
            "ms.source.schema.urn",
            ValueType.STRING,
            "Name of the output schema in a registry.",
            scope=Scope.JOB,
            support=Support.LATER,
        ),
        Property(
            "ms.target.schema.urn",
            ValueType.STRING,
            "Name of the target schema in a registry.",
            scope=Scope.JOB,
            support=Support.LATER,
        ),
        Property(
            "ms.enable.schema.based.filtering",
            ValueType.BOOL,
            "Whether only the columns of `ms.output.schema` pass; always so here.",
            default="true",
            scope=_T,
            support=Support.LATER,
        ),
        Property(
            "ms.schema.cleansing",
            ValueType.JSON_OBJECT,
            "Replaces matches of `pattern` in column names by `replacement`. On by default; "
            "`enabled` false turns it off, `nullable` makes every inferred column nullable.",
            scope=_T,
        ),
    ),
)
