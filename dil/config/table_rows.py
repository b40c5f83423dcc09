"""The property table: extraction, schema, conversion."""

from __future__ import annotations

from dil.config.property import Group, Property, Scope, Support, ValueType

_T = Scope.TASK

EXTRACTION = Group(
    "extraction",
    "Extraction",
    (
        Property(
            "ms.extractor.class",
            ValueType.CLASS,
            "The extractor: a short name such as `json`, a Java name of DIL's, or "
            "`package.module:Class`.",
            required=True,
            scope=_T,
        ),
        Property(
            "extractor.class",
            ValueType.STRING,
            "Never read; `ms.extractor.class` is the key.",
            scope=_T,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "ms.data.field",
            ValueType.STRING,
            "Dot path of the rows inside the response; a number picks an element of an array.",
            scope=_T,
        ),
        Property(
            "ms.data.default.type",
            ValueType.JSON_OBJECT,
            "Column name to type, in place of what inference finds for primitive columns.",
            scope=_T,
        ),
        Property(
            "ms.data.explicit.eof",
            ValueType.BOOL,
            "End marker for converters that group rows; here converters are always told.",
            default="false",
            scope=_T,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "ms.source.data.character.set",
            ValueType.CHARSET,
            "Character set of the response.",
            default="UTF-8",
            scope=_T,
        ),
        Property(
            "ms.csv",
            ValueType.JSON_OBJECT,
            "Separators, header, projection and failures of delimited text.",
            scope=_T,
            support=Support.LATER,
        ),
        Property(
            "ms.extract.preprocessors",
            ValueType.CLASS_LIST,
            "Filters over the bytes of each response, left to right.",
            scope=_T,
            support=Support.LATER,
        ),
        Property(
            "ms.extract.preprocessor.parameters",
            ValueType.JSON_OBJECT,
            "Preprocessor name to its parameters.",
            hidden_members="every value",
            scope=_T,
            support=Support.LATER,
        ),
        Property(
            "ms.extractor.target.file.name",
            ValueType.URI_TEMPLATE,
            "File name of a file dump below `data.publisher.final.dir`.",
            variables=True,
            scope=_T,
            support=Support.LATER,
        ),
        Property(
            "ms.extractor.target.file.permission",
            ValueType.OCTAL,
            "Permission of a dumped file.",
            default="755",
            scope=_T,
            support=Support.LATER,
        ),
        Property(
            "ms.encryption.fields",
            ValueType.JSON_ARRAY,
            "Paths of values that are replaced by `ENC(...)`.",
            scope=_T,
            support=Support.LATER,
        ),
        Property(
            "ms.derived.fields",
            ValueType.JSON_ARRAY,
            "Columns calculated for each row and added after its own.",
            variables=True,
            scope=_T,
        ),
    ),
)

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
            support=Support.LATER,
        ),
        Property(
            "ms.validation.attributes",
            ValueType.JSON_OBJECT,
            "When in-flow validation passes.",
            default='{"threshold":0,"criteria":"fail"}',
            scope=_T,
            support=Support.LATER,
        ),
        Property(
            "ms.range.generator.batch.size",
            ValueType.LONG,
            "Rows per generated range.",
            default="50000",
            low=1,
            scope=_T,
            support=Support.LATER,
        ),
        Property(
            "ms.range.generator.max.value",
            ValueType.STRING,
            "End of the last generated range.",
            default="zzzzzzzzzz",
            scope=_T,
            support=Support.LATER,
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
            "Keeps columns of an earlier schema as nullable ones.",
            default="false",
            scope=_T,
            support=Support.LATER,
        ),
        Property(
            "converter.csv_to_json.custom_order",
            ValueType.LIST,
            "Index of the CSV cell for each column.",
            scope=_T,
            support=Support.LATER,
        ),
    ),
)
