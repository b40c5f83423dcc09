"""The texts about error codes, as in docs/errors.md: what each code means and what to do."""

from __future__ import annotations

from collections.abc import Mapping

# By code: its meaning, and what to do.
CODES: Mapping[str, tuple[str, str]] = {
    "DIL-CONFIG": (
        "the job file is wrong; every problem is listed with file and line",
        "fix it; `dil validate` checks again",
    ),
    "DIL-PLUGIN-CLASS": (
        "a class that the job file names is missing or of the wrong kind",
        "check the name, the import path, `ms.plugin.path`",
    ),
    "DIL-PLAN": (
        "configuration and recorded state contradict each other",
        "read the message; it names both",
    ),
    "DIL-SRC": (
        "the source refused or failed",
        "see the message; the attempt was repeated",
    ),
    "DIL-SRC-TRANSIENT": (
        "429, 5xx, a broken connection or a time-out, also after retries",
        "run again later; raise `task.maxretries` or `ms.http.retry.max.seconds`; see HTTP",
    ),
    "DIL-SRC-AUTH": (
        "the credentials were refused",
        "check the secret and its rights; `dil check` tries them with one request",
    ),
    "DIL-SRC-CONTRACT": (
        "the answer is not of the declared format, schema or paging, or the source leads in "
        "circles",
        "compare the answer with the job file: `dil preview`, `ms.data.field`, "
        "`ms.output.schema`, content type; see Formats and Paging",
    ),
    "DIL-SRC-UNKNOWN": (
        "a row was or may have been sent, it is unknown whether the receiver took it, and sending "
        "it again might repeat it",
        "look at the receiver, see Sending rows, then run once with `-D "
        "ms.egress.send.again=true`; `ms.http.idempotency.header` avoids it",
    ),
    "DIL-QUOTA": (
        "the source's quota, or `ms.http.requests.max`, is spent; the message says when the source "
        "opens again, if the source says so",
        "run again then: the next run continues; or ask less often: Limits and quotas",
    ),
    "DIL-CONVERT": (
        "a row cannot be converted, breaks the schema contract, or in-flow validation failed; "
        "column and row are named, the value is not shown",
        "fix the schema, or let such rows be put aside: Rows",
    ),
    "DIL-QUERY": (
        "the query of a derived dataset is wrong, or failed over the rows of its inputs",
        "read what Spark says of it, and correct the query: Derive a table from another",
    ),
    "DIL-WRITE": (
        "files cannot be written or moved",
        "check space and permissions of the named path",
    ),
    "DIL-PLUGIN": (
        "a plug-in raised something unexpected",
        "a defect of the plug-in: the message names its file and line, `-v` shows the "
        "traceback; mistakes such as a `KeyError` are not tried again",
    ),
    "DIL-EXEC": (
        "Spark failed outside the work units: no Java, no session, a lost cluster,"
        " a JVM that was killed",
        "`-v` shows what Spark said",
    ),
    "DIL-COMMIT-CONFLICT": (
        "another commit came first; nothing of this run was recorded",
        "run again",
    ),
    "DIL-COMMIT-UNKNOWN": (
        "a commit may have been made; nothing was deleted",
        "run again: the run checks first. Delete nothing by hand. If it says that staged files are "
        "gone: `dil runs finish`",
    ),
    "DIL-STATE": (
        "the state store cannot be read, is damaged, or was written by a newer version",
        "see the message; restore a copy, or upgrade",
    ),
    "DIL-LEASE": (
        "another run of the job holds the lease",
        "wait, or `--wait-lease`",
    ),
    "DIL-LEASE-LOST": (
        "another run took over, because this one seemed dead; this one published nothing after "
        "that",
        "find out why it stood still: a suspended machine, an overloaded disk; or the state server "
        "failed over to a replica that lagged",
    ),
    "DIL-INTERRUPTED": (
        "the run was stopped by a signal",
        "run again",
    ),
    "DIL-INTERNAL": (
        "a defect of dil itself",
        "run with `-v` and report the traceback",
    ),
    "DIL-ERROR": (
        "the root of all of them; does not occur by itself",
        "",
    ),
}
