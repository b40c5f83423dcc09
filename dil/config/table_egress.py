"""The property table: rows to send, and the record of what was sent."""

from __future__ import annotations

from dil.config.property import Group, Property, Scope, Support, ValueType

_T = Scope.TASK


def _of_kafka(name: str, meaning: str) -> Property:
    return Property(
        name,
        ValueType.STRING,
        f"{meaning} The audit goes to files, see `ms.audit.dir`.",
        scope=_T,
        support=Support.NO_EFFECT,
        identity=False,
    )


EGRESS = Group(
    "egress",
    "Sending rows, and the audit",
    (
        Property(
            "ms.egress.failed.rows",
            ValueType.ENUM,
            "What a payload row does that the receiver refuses for good: a status that is neither "
            "success nor warning, nor about credentials, quota or a passing failure. fail: the "
            "work unit fails. keep: the row is kept with the answer in the dataset's folder "
            "`_failed`, and the next one is sent.",
            default="fail",
            words=("fail", "keep"),
            scope=_T,
        ),
        Property(
            "ms.egress.failed.max.rows",
            ValueType.LONG,
            "Rows of a work unit that may be refused and kept before it fails; -1 is no limit.",
            default="-1",
            low=-1,
            scope=_T,
        ),
        Property(
            "ms.egress.batch.rows",
            ValueType.INT,
            "Payload rows that go into one request, as the array `ms.egress.batch.field` of its "
            "body.",
            default="1",
            low=1,
            scope=_T,
        ),
        Property(
            "ms.egress.batch.field",
            ValueType.STRING,
            "The member of the body that holds the rows of a batch. With it even a single row is "
            "sent as an array.",
            scope=_T,
        ),
        Property(
            "ms.egress.resume",
            ValueType.BOOL,
            "Whether a later attempt goes on after the last row that the receiver has "
            "acknowledged, in place of sending the work unit from its first row. Progress is kept "
            "after every row, as with `ms.state.cursor.commit` page.",
            default="false",
            scope=_T,
            identity=False,
        ),
        Property(
            "ms.egress.send.again",
            ValueType.BOOL,
            "For one run, with -D: send the rows of work units although an earlier attempt may "
            "have sent them.",
            default="false",
            scope=_T,
            identity=False,
        ),
        Property(
            "ms.audit.enabled",
            ValueType.BOOL,
            "Records every request, before it is sent, and what became of it, in files of JSON "
            "lines. Secrets are masked.",
            default="false",
            scope=_T,
            identity=False,
        ),
        Property(
            "ms.audit.dir",
            ValueType.PATH,
            "Folder of the audit, on a local path. Unset: `_audit` in the dataset's folder.",
            scope=_T,
            identity=False,
        ),
        Property(
            "ms.audit.required",
            ValueType.BOOL,
            "Whether a request that cannot be recorded is not sent and fails the work unit.",
            default="true",
            scope=_T,
            identity=False,
        ),
        _of_kafka("ms.kafka.audit.topic.name", "Topic of the audit in DIL's documents."),
        _of_kafka("ms.kafka.brokers", "Brokers of the audit producer."),
        _of_kafka("ms.kafka.clientId", "Client id of the audit producer."),
        _of_kafka("ms.kafka.schema.registry.url", "Schema registry of the audit producer."),
    ),
)
