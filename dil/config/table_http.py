"""The property table: HTTP."""

from __future__ import annotations

from dil.config.property import Group, Property, Scope, Support, ValueType

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
