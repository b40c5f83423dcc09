"""The property table: schemas, and what happens to rows that break them."""

from __future__ import annotations

from dil.config.property import Group, Property
from dil.model.section import Scope, Support, ValueType

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
            "Columns of the rows that a normaliser or range generator makes.",
            scope=_T,
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
            "Whether only the columns of `ms.output.schema` pass. `false` lets JSON rows pass "
            "whole: members that are no columns become further columns, of the types that are "
            "found.",
            default="true",
            scope=_T,
        ),
        Property(
            "ms.schema.contract",
            ValueType.ENUM,
            "What a new column or a value of another type does, measured by `ms.output.schema` or, "
            "without it, by the schema of what was published so far. evolve: they are accepted and "
            "told as drift. freeze: the work unit fails. discard_row: the row goes to quarantine. "
            "discard_value: the new column is left out, the unfit value becomes null. Without a "
            "known schema the first run makes it. But under evolve, members of JSON rows that "
            "`ms.output.schema` does not list count as new columns, whatever "
            "`ms.enable.schema.based.filtering` says.",
            default="evolve",
            words=("evolve", "freeze", "discard_row", "discard_value"),
            scope=_T,
        ),
        Property(
            "ms.quarantine.enabled",
            ValueType.BOOL,
            "Whether rows that are put aside are kept, with the reason, in the dataset's folder "
            "`_quarantine`.",
            default="true",
            scope=_T,
        ),
        Property(
            "ms.quarantine.max.rows",
            ValueType.LONG,
            "Rows that a work unit may put aside before it fails; 0 lets it fail at the first, -1 "
            "is no limit.",
            default="-1",
            low=-1,
            scope=_T,
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
