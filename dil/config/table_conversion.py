"""The property table: converters."""

from __future__ import annotations

from dil.config.property import Group, Property, Scope, ValueType

_T = Scope.TASK

CONVERSION = Group(
    "conversion",
    "Conversion",
    (
        Property(
            "converter.classes",
            ValueType.CLASS_LIST,
            "Converters, left to right. DIL's format converters are accepted and not needed.",
            scope=_T,
        ),
        Property(
            "ms.normalizer.batch.size",
            ValueType.LONG,
            "Rows that a normaliser puts into one.",
            default="500",
            low=1,
            scope=_T,
        ),
        Property(
            "ms.normalizer.batch.break",
            ValueType.BOOL,
            "Whether a normaliser begins a new batch where a column that it keeps changes its "
            "value; otherwise the first row of a batch speaks for all.",
            default="false",
            scope=_T,
        ),
        Property(
            "ms.validation.attributes",
            ValueType.JSON_OBJECT,
            "When in-flow validation passes; required with it. A member that is left out keeps its "
            "default.",
            default='{"threshold":0,"criteria":"fail"}',
            scope=_T,
        ),
        Property(
            "ms.range.generator.batch.size",
            ValueType.LONG,
            "Rows per generated range.",
            default="50000",
            low=1,
            scope=_T,
        ),
        Property(
            "ms.range.generator.max.value",
            ValueType.STRING,
            "End of the last generated range.",
            default="zzzzzzzzzz",
            scope=_T,
        ),
        Property(
            "converter.avro.date.format",
            ValueType.DATE_PATTERNS,
            "Patterns tried in order for columns of type date.",
            default="yyyy-MM-dd HH:mm:ss",
            scope=_T,
        ),
        Property(
            "converter.avro.timestamp.format",
            ValueType.DATE_PATTERNS,
            "Patterns tried in order for columns of type timestamp.",
            default="yyyy-MM-dd HH:mm:ss",
            scope=_T,
        ),
        Property(
            "converter.avro.time.format",
            ValueType.DATE_PATTERNS,
            "Patterns tried in order for columns of type time.",
            default="HH:mm:ss",
            scope=_T,
        ),
        Property(
            "converter.avro.date.timezone",
            ValueType.ZONE,
            "Zone of dates and times in rows that name none.",
            default="UTC",
            scope=_T,
        ),
        Property(
            "converter.avro.binary.charset",
            ValueType.CHARSET,
            "Character set that turns text into a column of bytes.",
            default="UTF8",
            scope=_T,
        ),
        Property(
            "converter.is.epoch.time.in.seconds",
            ValueType.BOOL,
            "Writes Avro dates and times as seconds in place of milliseconds.",
            default="false",
            scope=_T,
        ),
        Property(
            "converter.avro.max.conversion.failures",
            ValueType.LONG,
            "Rows per work unit that may be dropped because they cannot be converted.",
            default="0",
            low=0,
            scope=_T,
        ),
        Property(
            "converter.avro.nullify.fields.enabled",
            ValueType.BOOL,
            "Whether columns that the dataset has and the rows have no more are written as null, "
            "in any output format; otherwise files lack them.",
            default="false",
            scope=_T,
        ),
        Property(
            "converter.csv_to_json.custom_order",
            ValueType.LIST,
            "Index of the CSV cell for each column of `ms.output.schema`, counted from 0; a "
            "negative number gives null.",
            scope=_T,
        ),
    ),
)
