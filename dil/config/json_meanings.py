"""What the members of JSON properties mean, for the reference. Source: behaviour.md B3 to B10."""

from __future__ import annotations

from collections.abc import Mapping

# By property, then by member; a dot leads into an object.
MEANINGS: Mapping[str, Mapping[str, str]] = {
    "ms.parameters": {
        "name": "Name of the parameter, sent and usable as `{{name}}`. One that begins with `tmp` "
        "is never sent.",
        "type": "Where the value comes from. `list`: `value` as text, of two elements the first in "
        "a full run and the second in an incremental one. `primitive`: `value` as it is. "
        "`object`: an object of parameters. `jsonarray`, `jsonobject`: `value` as it is. "
        "`watermark`: the low or high watermark. `session`: the session key of the last page. "
        "`pagestart`, `pagesize`, `pageno`: of the page that is asked for.",
        "value": "The value; for `watermark` the word `low` or `high` (high when left out), for "
        "`object` one parameter or an array of them, nothing for the last four types. In a "
        "`list` it may be a secret.",
        "watermark": "Name of the datetime watermark, the only one there can be; may be left out.",
        "format": "Of type `watermark`: `datetime` (needs `pattern`), `epoch-second`, or left out "
        "for epoch milliseconds.",
        "pattern": "Joda pattern of format `datetime`.",
        "timezone": "Zone of format `datetime`; left out it is `ms.timezone`.",
    },
    "ms.pagination": {
        "fields": "Paths in the response of page start, page size and page number, in this order; "
        "empty texts leave one out.",
        "initialvalues": "First page start, page size and page number, in this order; what is left "
        "out at the end has no value.",
    },
    "ms.session.key.field": {
        "name": "Response header, or path in the response, of the session key.",
        "condition": "When the session is done: polling ends with success.",
        "condition.regexp": "Java regular expression that the whole key must match.",
        "failCondition": "When the session failed: the attempt fails.",
        "failCondition.regexp": "Java regular expression that the whole key must match.",
        "initValue": "Session key of the first request; left out there is none.",
    },
    "ms.derived.fields": {
        "name": "Name of the column.",
        "formula": "How its value is calculated.",
        "formula.type": "Type of the result. `epoc`: epoch milliseconds. `string`: text. "
        "`regexp`: what group 1 of `format` finds, else the text `no match`. `boolean`, `int` "
        "(also `integer`), `number`: the text as that.",
        "formula.source": "A column (dot path), `{{name}}`, and for `epoc` also `CURRENTDATE` or "
        "`PnD` (midnight n days ago). Left out, `value` is taken. With `ms.data.field` a path in "
        "the root of the response comes first.",
        "formula.format": "Of `epoc`: the Joda pattern of the source, or `iso`. Of `regexp`: the "
        "Java regular expression, `(.*)` when left out.",
        "formula.timezone": "Of `epoc`: the zone of texts that name none; left out it is "
        "`ms.timezone`.",
        "formula.value": "A fixed value, or the default where the source has none.",
    },
    "ms.authentication": {
        "method": "Scheme of the header: `Basic`, `Bearer`, `OAuth`, or with `custom` none.",
        "encryption": "What is done with the credentials: base64, as `basic` needs it, or nothing.",
        "header": "Name of the header.",
        "token": "The credentials, or a text with `{{name}}`. Left out: user name and password of "
        "`source.conn.username` and `source.conn.password`.",
    },
    "ms.http.statuses": {
        "success": "Codes whose response is read.",
        "warning": "Codes that count as a response without rows; so do all below 400 that are "
        "listed nowhere.",
        "error": "Codes below 400 that fail the attempt; all others from 400 on do.",
        "pagination_error": "Codes that tell of a stale token where `ms.secondary.input` gives it.",
    },
    "ms.http.status.reasons": {
        "error": "Reason phrases that make a response of a `success` code an error.",
        "success": "Accepted, no effect.",
        "warning": "Accepted, no effect.",
    },
    "ms.ssl": {
        "keyStoreType": "Accepted, no effect without a key store.",
        "keyStorePath": "Not supported yet.",
        "keyStorePassword": "Accepted, no effect without a key store.",
        "keyPassword": "Accepted, no effect without a key store.",
        "trustStorePath": "Not supported yet.",
        "trustStorePassword": "Accepted, no effect without a trust store.",
        "connectionTimeoutSeconds": "How long connecting may take; negative is the default.",
        "socketTimeoutSeconds": "How long the source may be silent; negative is the default.",
        "version": "Least version of TLS; no other is supported yet.",
    },
    "ms.schema.cleansing": {
        "enabled": "Whether names are cleansed.",
        "pattern": "Java regular expression of what is replaced.",
        "replacement": "What takes its place.",
        "nullable": "Makes every inferred column nullable.",
    },
    "ms.secondary.input": {
        "path": "A file, or a folder that is read with all below it; names that begin with `_` or "
        "`.` are skipped. Relative, it starts at the folder of the job file. In the path of a "
        "`payload` entry, and nowhere else, `{{name}}` is replaced.",
        "fields": "Columns to take, in this order.",
        "filters": "Column to Java regular expression: a row counts when the whole text of each "
        "such column matches. Null never does.",
        "category": "What the rows are for.",
        "format": "Of `payload`: left out for rows, binary for whole files.",
        "retry": "Waits for a path that does not exist yet; left out, it is an error at once.",
        "retry.delayInSec": "Seconds to wait before each reading.",
        "retry.retryCount": "How many more readings.",
    },
}

# (member, value, meaning) of what is read without a model.
WITHOUT_MODEL: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "ms.retention": (
        (
            "state.store",
            "ISO duration",
            "Age of what `dil state prune` deletes; P90D if left out.",
        ),
        ("publish.dir", "ISO duration", "Without effect: published data is never deleted."),
        ("log", "ISO duration", "Without effect."),
    ),
    "ms.watermark": (
        ("name", "text, required", "Name of the watermark; part of every signature."),
        ("type", "datetime, unit", "At most one of each."),
        ("range", "object", "Of a `datetime` watermark, required: what there is to read."),
        (
            "range.from",
            "text",
            "A date or time, or a duration counted back from now, such as `P30D` or `P1DT6H`.",
        ),
        ("range.to", "text", "The same; `-` is now, `P0D` the last midnight."),
        (
            "units",
            "comma list, array of texts, array of objects",
            "Of a `unit` watermark, required. Text `a` under the name `id` is the unit "
            '`{"id":"a"}`; each member of a unit is a variable.',
        ),
    ),
    "ms.work.unit.partition": (
        (
            "(a partition word)",
            "array of two dates",
            "From and to of the part that is cut so; the last to may be `-`, without end.",
        ),
    ),
    "ms.http.request.headers": (
        ("(a header's name)", "text, may be a secret", "Value of the header."),
    ),
    "ms.http.response.type": (
        ("Content-Type", "text", "A media type to accept beside those of the extractor."),
        ("(any name)", "text", "One more of them."),
    ),
    "ms.data.default.type": (
        ("(a column's name)", "a type word", "Type of the column where it is inferred."),
    ),
    "ms.output.schema": (
        (
            "columnName",
            "text, required",
            "Name of the column, also written `name`. Letters, digits and underscore.",
        ),
        ("isNullable", "true or false", "Whether null is allowed; left out it is."),
        ("dataType", "object, or a type word", "Type of the column."),
        (
            "dataType.type",
            "type word, required",
            "`string`, `boolean`, `int`, `integer`, `long`, `int64`, `float`, `double`, `number`, "
            "`decimal`, `bytes`, `date`, `time`, `timestamp`, `enum`, `array`, `map`, `record`, "
            '`object`; `["int","null"]` is a nullable int.',
        ),
        ("dataType.name", "text", "Name of an enum, array, map or record in Avro."),
        ("dataType.items", "type word or column", "Of an array: its items."),
        ("dataType.values", "type word or column; columns", "Of a map; of a record or object."),
        ("dataType.fields", "columns", "The same as `values` of a record."),
        ("dataType.symbols", "array of texts", "Of an enum."),
        ("dataType.precision", "whole number", "Digits of a decimal; left out 38."),
        ("dataType.scale", "whole number", "Digits behind its point; left out 0."),
        ("comment", "text", "For people."),
    ),
}
