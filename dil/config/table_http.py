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
            "Verb of the requests. GET_XE is GET that puts values into the URI without encoding. "
            "With POST, PUT, PATCH and DELETE the parameters that nothing consumed go into the "
            "body: a JSON object, or a form with the Content-Type "
            "`application/x-www-form-urlencoded`.",
            default="GET",
            words=("GET", "GET_XE", "POST", "PUT", "PATCH", "DELETE"),
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
            "How the job shows who it is. `method` basic, bearer, oauth or custom: one header of "
            "`token`, or of user name and password. `apikey`: a header or a member of the query. "
            "`oauth2`: a token that is fetched inside the job, renewed ahead of its expiry, once "
            "for all work units.",
            variables=True,
            hidden_members="token, clientSecret, refreshToken",
            scope=Scope.TASK,
        ),
        Property(
            "ms.http.statuses",
            ValueType.JSON_OBJECT,
            "Status codes that are a `success`, a `warning` (no data, no failure), an `error`, "
            "tell of a stale token (`pagination_error`) or of a spent `quota`. What is left out "
            "keeps its default.",
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
            "More content types to accept; the values count when there is a `Content-Type`. A "
            "type of JSON lines, such as `application/x-ndjson`, has every body read line by line.",
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
            "connection. 0 switches this off. The waits are those that the source asks for "
            "(`Retry-After`, `RateLimit-Reset`), else 1, 2, 4 s and so on.",
            default="3",
            low=0,
            scope=Scope.TASK,
            identity=False,
        ),
        Property(
            "ms.http.retry.max.seconds",
            ValueType.INT,
            "Longest time that the repetitions of one request may take together. A source that "
            "asks to wait longer has its quota spent: the run ends with DIL-QUOTA.",
            default="120",
            low=0,
            scope=Scope.TASK,
            identity=False,
        ),
        Property(
            "ms.http.retry.unsafe",
            ValueType.BOOL,
            "Sends POST with a row, and PATCH, again as well when nobody knows whether the source "
            "acted on them; else they fail then, unless an idempotency header is sent. POST "
            "without a row is taken for a query and always sent again.",
            default="false",
            scope=Scope.TASK,
            identity=False,
        ),
        Property(
            "ms.http.idempotency.header",
            ValueType.STRING,
            "Header that carries a key of the row that is sent, the same in every attempt and "
            "run, such as `Idempotency-Key`: a receiver that knows it takes each row once. Blank: "
            "none.",
            scope=Scope.TASK,
            identity=False,
        ),
        Property(
            "ms.http.response.max.seconds",
            ValueType.INT,
            "Longest wait for each MiB of an answer's body, or for the rest of it, so that one "
            "that trickles is given up. 0: no limit.",
            default="600",
            low=0,
            scope=Scope.TASK,
            identity=False,
        ),
        Property(
            "ms.http.rate.limit",
            ValueType.RATE,
            "Most requests that all work units of a run together may send, evenly spaced: "
            "requests, a slash, a time in s, min, h or d, such as `10/s`, `600/min` or `1/2s`. "
            "Blank: no limit.",
            scope=Scope.TASK,
            identity=False,
        ),
        Property(
            "ms.http.requests.max",
            ValueType.INT,
            "Most requests of one run, retries included. Once they are spent the run ends with "
            "DIL-QUOTA, keeps what is done, and the next run goes on. 0: no limit.",
            default="0",
            low=0,
            scope=Scope.TASK,
            identity=False,
        ),
    ),
)
