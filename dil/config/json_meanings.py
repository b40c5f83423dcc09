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
        "next": "Where the response names the address of its next page: `link` (the Link header), "
        "`header:<name>`, or a path in the body. Absent, null and empty mean that there is none.",
        "more": "Where the response has a flag that there are more pages: `header:<name>`, or a "
        "path in the body. false, 0, null, `no` and the empty text end the walk.",
        "maxPages": "Most requests of a work unit. Wins over everything; rows may be missing then, "
        "and the report says so.",
        "maxRows": "Rows after which no further page is asked for; told like `maxPages`.",
        "failAtCap": "Whether a work unit fails that reaches a cap while the source has more.",
        "stopOnShortPage": "Whether a page with fewer rows than its page size is the last one.",
        "allowEqualPages": "Whether two pages in a row may be the same, byte for byte; else they "
        "show that the source ignores the page parameter, and the work unit fails. Where cursors "
        "or addresses lead on, a page with the rows of the one before is else told.",
        "strict": "Whether a work unit fails where it is in doubt that every row came, and came "
        "once: the source names a page and answers it without content, pages repeat, a total is "
        "not reached or exceeded, paging ends while more is named, no answer has the place of "
        "`next` or `more`, more rows follow a short page. Else the report tells it.",
    },
    "ms.session.key.field": {
        "name": "Response header, or path in the response, of the session key.",
        "condition": "When the session is done: polling ends with success.",
        "condition.regexp": "Java regular expression that the whole key must match.",
        "failCondition": "When the session failed: the attempt fails.",
        "failCondition.regexp": "Java regular expression that the whole key must match.",
        "initValue": "Session key of the first request; left out there is none.",
    },
    "ms.source.s3.parameters": {
        "region": "Region of the bucket; left out it is the one that the host of `ms.source.uri` "
        "names, else us-west-2.",
        "bucket_name": "Name of the bucket, where it is not the first label of the host: a name "
        "with dots, a host that is the service itself.",
        "endpoint": "Address of an S3-compatible service, such as `http://minio.example:9000`. "
        "Left out it is the rest of the host in `ms.source.uri`; for a host of AWS it is what "
        "`AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL` names, if set.",
        "path_style": "Whether the bucket is the first part of the path and not of the host; left "
        "out it is so outside of amazonaws.com.",
        "credentials": "`default` looks for credentials as AWS's own tools do: environment, "
        "shared files, the machine's role. Left out, `source.conn.username` and "
        "`source.conn.password` are the key and its secret, and without them nothing is signed.",
        "session_token": "Token that goes with temporary keys; may be a secret.",
        "verify_md5": "Whether the bytes of an object are compared with its eTag where that is an "
        "MD5; off for services whose eTag only looks like one.",
        "connection_timeout_seconds": "Seconds to wait for a connection; left out 60.",
        "connection_timeout": "The same, by another name.",
        "read_timeout_seconds": "Seconds to wait for the next bytes of an answer; left out 60.",
        "write_timeout_seconds": "Seconds that sending may stand still; left out 60.",
        "connection_max_idle_millis": "Milliseconds after which an unused connection is not used "
        "again; left out it is.",
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
        "method": "Scheme of the header: `Basic`, `Bearer`, `OAuth`, or with `custom` none. "
        "`apikey` sends `token` under the name `name`. `oauth2` fetches a token and sends it as "
        "`Bearer`.",
        "encryption": "What is done with the credentials: base64, as `basic` needs it, or nothing. "
        "Required for `basic`, `bearer`, `oauth` and `custom`, none for the others.",
        "header": "Name of the header.",
        "token": "The credentials, or a text with `{{name}}`. Left out: user name and password of "
        "`source.conn.username` and `source.conn.password`. Required for `apikey`.",
        "name": "Of `apikey`: the name of the header, or of the member of the query.",
        "in": "Of `apikey`: where it is sent. In a query it is left out of every message.",
        "grant": "Of `oauth2`, as are all below, and required: how a token is asked for. "
        "`password` sends `source.conn.username` and `source.conn.password`.",
        "tokenUri": "Address that gives tokens; `https://`, plain `http://` on this machine only.",
        "clientId": "Name of the client; may be a secret.",
        "clientSecret": "Secret of the client; required by `client_credentials`.",
        "clientAuthentication": "How the client shows who it is: in a header, or in the form.",
        "scope": "Scopes to ask for, with blanks between them.",
        "audience": "The audience to ask for, where the server wants one.",
        "refreshToken": "Of grant `refresh_token`: the token to begin with.",
        "refreshTokenFile": "Of grant `refresh_token`: file of the current refresh token. It wins "
        "over `refreshToken` once it exists; a new token that the server gives is written there, "
        "encrypted where the job has a master password. Relative, it starts at the folder of the "
        "job file.",
        "parameters": "More members of the form that is sent.",
        "expiryMarginSeconds": "How long before its expiry a token is renewed. Left out: a tenth "
        "of its lifetime, at least 30 s; in any case at most half of its lifetime.",
    },
    "ms.http.statuses": {
        "success": "Codes whose response is read.",
        "warning": "Codes that count as a response without rows; so do all below 400 that are "
        "listed nowhere.",
        "error": "Codes below 400 that fail the attempt; all others from 400 on do. Where rows "
        "are sent, 408, 425, 429 and codes from 500 on that are listed refuse the row.",
        "pagination_error": "Codes that tell of a stale token where `ms.secondary.input` gives it.",
        "quota": "Codes from 400 on that tell of a spent quota: the run ends with DIL-QUOTA.",
    },
    "ms.http.status.reasons": {
        "error": "Reason phrases that make a response of a `success` code an error.",
        "success": "Accepted, no effect.",
        "warning": "Accepted, no effect.",
    },
    "ms.ssl": {
        "keyStoreType": "`pkcs12` or `pem`. Java's own `jks` must be converted with keytool.",
        "keyStorePath": "File with the client's certificate, those that vouch for it, and the "
        "private key; the same path wherever tasks run. Relative, it starts at the folder of the "
        "job file.",
        "keyStorePassword": "Password of the key store.",
        "keyPassword": "Password of the private key, where it has one of its own.",
        "trustStorePath": "PKCS#12 or PEM file of the authorities to trust, in place of the "
        "system's. Relative, it starts at the folder of the job file.",
        "trustStorePassword": "Password of the trust store.",
        "connectionTimeoutSeconds": "How long connecting may take; negative is the default.",
        "socketTimeoutSeconds": "How long the source may be silent; negative is the default.",
        "version": "Least version of TLS: `TLSv1.2` or `TLSv1.3`.",
    },
    "ms.validation.attributes": {
        "threshold": "Percent of the expected rows, those of the `validation` entries of "
        "`ms.secondary.input`; without such an entry one row is expected.",
        "criteria": "Whether the rows that count are failures, and have to be less than the "
        "threshold, or successes, and have to reach it.",
        "errorColumn": "Only rows, or items of the only column, with a value in this column count; "
        "neither null nor blank text is one. Left out, all count.",
    },
    "ms.csv": {
        "fieldSeparator": "Character between cells, or its code: `u0009` is a tab.",
        "quoteCharacter": "Character around a cell that may hold separators and line breaks, or "
        "its code; inside it is written twice. Blank or `u0000`: none.",
        "escapeCharacter": "Character that makes a quote or another escape character literal, or "
        "its code; before anything else it is dropped. Blank or `u0000`: none.",
        "recordSeparator": "Accepted, no effect: CR, LF and CRLF end a record.",
        "columnHeaderIndex": "Line with the names of the columns, counted from 0; -1 is none.",
        "linesToSkip": "Lines left out at the top of every response, the header among them. Left "
        "out, all up to the header.",
        "columnProjection": "Cells to take, counted from 0, such as `0,2-4`: one for each column "
        "of `ms.output.schema` that is no derived field.",
        "defaultFieldType": "Type of all cells without `ms.output.schema`, in place of what they "
        "look like.",
        "maxFailures": "Rows per work unit that may be dropped because a cell does not fit its "
        "type.",
        "keepNullString": "Whether the text `null` stays a text. Otherwise it is null, like an "
        "empty cell.",
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

_COLUMNS = (
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
        '`object`; `["int","null"]` is a nullable int. A union of other flat types is the widest '
        "of its numbers, or else text.",
    ),
    ("dataType.name", "text", "Name of an enum, array, map or record in Avro."),
    ("dataType.items", "type word or column", "Of an array: its items."),
    ("dataType.values", "type word or column; columns", "Of a map; of a record or object."),
    ("dataType.fields", "columns", "The same as `values` of a record."),
    ("dataType.symbols", "array of texts", "Of an enum."),
    ("dataType.precision", "whole number", "Digits of a decimal; left out 38."),
    ("dataType.scale", "whole number", "Digits behind its point; left out 0."),
    ("comment", "text", "For people."),
)

# (member, value, meaning) of what is read without a model.
WITHOUT_MODEL: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "ms.extract.preprocessor.parameters": (
        ("(preprocessor)", "object of texts", "Named as in `ms.extract.preprocessors`."),
        (
            "(preprocessor).keystore_path",
            "text",
            "GPG: key file, secret keys to decrypt, public keys to encrypt. Relative, it starts at "
            "the folder of the job file.",
        ),
        (
            "(preprocessor).keystore_password",
            "text, may be a secret",
            "GPG: pass phrase, of the secret key or, without key file, of the message.",
        ),
        ("(preprocessor).key_name", "text", "GPG encryption: id of the key to encrypt for."),
        ("(preprocessor).cipher", "text", "GPG encryption: symmetric cipher; CAST5 if left out."),
        ("(preprocessor).action", "encrypt, decrypt", "What the name `GpgProcessor` stands for."),
        ("(preprocessor).member", "text", "zip, tar: Java expression for the one file inside."),
        ("(preprocessor).header", "text", "aggregated-json: path of the column names."),
        ("(preprocessor).data", "text", "aggregated-json: path of the rows, arrays of values."),
        ("(preprocessor).unwrap", "text", "aggregated-json: path that is followed first."),
        ("(preprocessor).fields", "text", "aggregated-json: paths, comma separated, to copy."),
    ),
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
    "ms.encryption.fields": (),
    "ms.output.schema": _COLUMNS,
    "ms.target.schema": _COLUMNS,
}
