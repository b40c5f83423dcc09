"""The property table: source, HTTP, parameters, paging, and the connectors to come."""

from __future__ import annotations

from dil.config.property import Group, Property, Scope, Support, ValueType

_DEFAULT_FACTORY = "com.linkedin.cdi.factory.DefaultConnectionClientFactory"

SOURCE = Group(
    "source",
    "Source and connection",
    (
        Property(
            "ms.source.uri",
            ValueType.URI_TEMPLATE,
            "Where the data is, for HTTP `https://host/path?query`. Values put in for `{{name}}` "
            "are URL-encoded.",
            required=True,
            variables=True,
            scope=Scope.TASK,
        ),
        Property(
            "ms.connection.client.factory",
            ValueType.ENUM,
            "DIL's class that makes clients; the secure one, with client certificates, is not "
            "supported yet.",
            default=_DEFAULT_FACTORY,
            words=(_DEFAULT_FACTORY, "DefaultConnectionClientFactory"),
            later_words=(
                "com.linkedin.cdi.factory.SecureConnectionClientFactory",
                "SecureConnectionClientFactory",
            ),
            scope=Scope.TASK,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "source.conn.username",
            ValueType.STRING,
            "User name, for `ms.authentication` without a token.",
            secret=True,
            scope=Scope.TASK,
        ),
        Property(
            "source.conn.password",
            ValueType.STRING,
            "Password that goes with the user name.",
            secret=True,
            scope=Scope.TASK,
        ),
        Property(
            "source.conn.use.proxy.url",
            ValueType.STRING,
            "Host of the proxy; used when the port is given as well.",
            scope=Scope.TASK,
            identity=False,
        ),
        Property(
            "source.conn.use.proxy.port",
            ValueType.INT,
            "Port of the proxy, -1 for none.",
            default="-1",
            low=-1,
            high=65535,
            scope=Scope.TASK,
            identity=False,
        ),
        Property(
            "ms.ssl",
            ValueType.JSON_OBJECT,
            "Time-outs of every HTTP client (`connectionTimeoutSeconds`, `socketTimeoutSeconds`, "
            "60 each). Client certificates and own trust stores are not supported yet.",
            hidden_members="the four passwords",
            scope=Scope.TASK,
            identity=False,
        ),
        Property(
            "source.conn.host",
            ValueType.STRING,
            "Host of an SFTP source.",
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "source.conn.port",
            ValueType.INT,
            "Port of an SFTP source.",
            default="22",
            low=1,
            high=65535,
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "source.conn.private.key",
            ValueType.STRING,
            "Private key file of an SFTP source.",
            secret=True,
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "source.conn.known.hosts",
            ValueType.STRING,
            "Known hosts file of an SFTP source.",
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "source.filebased.fs.uri",
            ValueType.FILE_SYSTEM,
            "File system of an HDFS source.",
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "ms.source.files.pattern",
            ValueType.REGEX,
            "Keeps the listed objects (S3) or files (SFTP) whose whole path matches.",
            default=".*",
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "ms.jdbc.statement",
            ValueType.STRING,
            "SQL of a database source.",
            variables=True,
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "ms.jdbc.schema.refactor",
            ValueType.ENUM,
            "Letter case of the column names of a database source.",
            default="none",
            words=("none", "toupper", "tolower"),
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "ms.source.s3.parameters",
            ValueType.JSON_OBJECT,
            "Region, bucket, endpoint and time-outs of an S3 source.",
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "ms.s3.list.max.keys",
            ValueType.INT,
            "Keys asked for per list call of an S3 source; all pages are read.",
            default="1000",
            low=1,
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "ms.sftp.conn.timeout.millis",
            ValueType.INT,
            "Time-out of an SFTP source, 0 for none.",
            default="60000",
            low=0,
            scope=Scope.TASK,
            support=Support.LATER,
        ),
    ),
)

HTTP = Group(
    "http",
    "HTTP",
    (
        Property(
            "ms.http.request.method",
            ValueType.ENUM,
            "Verb of the requests. GET_XE is GET that puts values into the URI without encoding.",
            default="GET",
            words=("GET", "GET_XE"),
            later_words=("POST", "PUT", "DELETE"),
            scope=Scope.TASK,
        ),
        Property(
            "ms.http.request.headers",
            ValueType.JSON_OBJECT,
            "Headers of every request, name to text. A value may be a secret.",
            variables=True,
            hidden_members="every value",
            scope=Scope.TASK,
        ),
        Property(
            "ms.authentication",
            ValueType.JSON_OBJECT,
            "One header with credentials: `method` basic, bearer, oauth or custom; `encryption` "
            "base64 or none; `header`; `token`, in place of user name and password.",
            variables=True,
            hidden_members="token",
            scope=Scope.TASK,
        ),
        Property(
            "ms.http.statuses",
            ValueType.JSON_OBJECT,
            "Status codes that are a `success`, a `warning` (no data, no failure), an `error`, or "
            "tell of a stale token (`pagination_error`). What is left out keeps its default.",
            default='{"success":[200,201,202],"pagination_error":[401]}',
            scope=Scope.TASK,
        ),
        Property(
            "ms.http.status.reasons",
            ValueType.JSON_OBJECT,
            "Reason phrases under `error` that make a successful status an error.",
            scope=Scope.TASK,
        ),
        Property(
            "ms.http.response.type",
            ValueType.JSON_OBJECT,
            "More content types to accept; the values count when there is a `Content-Type`.",
            scope=Scope.TASK,
        ),
        Property(
            "ms.http.conn.max",
            ValueType.INT,
            "Size of DIL's connection pool. There is none here: each attempt of a work unit sends "
            "one request after the other on a connection of its own.",
            default="50",
            low=0,
            high=500,
            special={0: 50},
            scope=Scope.TASK,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "ms.http.conn.per.route.max",
            ValueType.INT,
            "Connections of DIL's pool to one host. How many work units ask a source at once is "
            "`taskexecutor.threadpool.size`.",
            default="20",
            low=0,
            high=200,
            special={0: 20},
            scope=Scope.TASK,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "ms.http.conn.ttl.seconds",
            ValueType.INT,
            "Age at which DIL's pool closes a connection. Here a connection lasts as long as its "
            "attempt, or until the server closes it.",
            default="10",
            low=0,
            scope=Scope.TASK,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "ms.http.retry.max",
            ValueType.INT,
            "How often one request is sent again after 429, 502, 503, 504 or a broken "
            "connection. 0 switches this off.",
            default="3",
            low=0,
            scope=Scope.TASK,
            identity=False,
        ),
        Property(
            "ms.http.retry.max.seconds",
            ValueType.INT,
            "Longest time that the repetitions of one request may take together.",
            default="120",
            low=0,
            scope=Scope.TASK,
            identity=False,
        ),
    ),
)

PAGING = Group(
    "paging",
    "Parameters, paging and sessions",
    (
        Property(
            "ms.parameters",
            ValueType.JSON_ARRAY,
            "Request parameters in order; each is a variable as well. Names that start with `tmp` "
            "are never sent.",
            variables=True,
            hidden_members="values of type list",
            scope=Scope.TASK,
        ),
        Property(
            "ms.pagination",
            ValueType.JSON_OBJECT,
            "Turns paging on: `initialvalues` for page start, page size and page number, `fields` "
            "for where the response tells them.",
            scope=Scope.TASK,
        ),
        Property(
            "ms.session.key.field",
            ValueType.JSON_OBJECT,
            "Header or path of a cursor or status: `name`, `initValue`, `condition` (done), "
            "`failCondition` (failed).",
            scope=Scope.TASK,
        ),
        Property(
            "ms.total.count.field",
            ValueType.STRING,
            "Path of the total number of rows in the response.",
            scope=Scope.TASK,
        ),
        Property(
            "ms.call.interval.millis",
            ValueType.LONG,
            "Least time between the starts of two requests of a work unit.",
            default="0",
            low=0,
            scope=Scope.TASK,
            identity=False,
        ),
        Property(
            "ms.wait.timeout.seconds",
            ValueType.LONG,
            "How long a session may take to meet its condition.",
            default="600",
            low=0,
            high=86400,
            scope=Scope.TASK,
            identity=False,
        ),
    ),
)
