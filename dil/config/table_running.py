"""The property table: execution, state, events."""

from __future__ import annotations

from dil.config.property import Group, Property, Scope, Support, ValueType

_T = Scope.TASK
_J = Scope.JOB


def _later(name: str, kind: ValueType, meaning: str, default: str = "") -> Property:
    return Property(
        name, kind, meaning, default, scope=_J, support=Support.LATER, identity=False
    )  # fmt: skip


def _unused(name: str, kind: ValueType, meaning: str, default: str = "") -> Property:
    return Property(
        name, kind, meaning, default, scope=_J, support=Support.NO_EFFECT, identity=False
    )  # fmt: skip


EXECUTION = Group(
    "execution",
    "Execution",
    (
        Property(
            "taskexecutor.threadpool.size",
            ValueType.INT,
            "Work units that run at the same moment.",
            default="10",
            low=1,
            scope=_J,
            identity=False,
        ),
        Property(
            "task.maxretries",
            ValueType.INT,
            "How often a failed work unit is tried again inside a run.",
            default="4",
            low=0,
            scope=_J,
            identity=False,
        ),
        Property(
            "task.retry.intervalinsec",
            ValueType.LONG,
            "Retry k waits k - 1 times this many seconds. Unset: a random wait that grows from 1 "
            "to 60 seconds.",
            low=0,
            scope=_J,
            identity=False,
        ),
        Property(
            "job.commit.policy",
            ValueType.ENUM,
            "full publishes nothing when any work unit failed; successful publishes those that "
            "succeeded; partial is an older word for successful.",
            default="full",
            words=("full", "successful", "partial"),
            scope=_J,
            identity=False,
        ),
        _unused(
            "workunit.retry.enabled",
            ValueType.BOOL,
            "Gobblin's switch; failed work units are always due again.",
            "true",
        ),
        Property(
            "workunit.retry.policy",
            ValueType.ENUM,
            "Goes with the switch above.",
            default="always",
            words=("always", "onfull", "onpartial", "never"),
            scope=_J,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        _later("qualitychecker.task.policies", ValueType.LIST, "Checks of task totals."),
        _later("qualitychecker.task.policy.types", ValueType.LIST, "One word per check."),
        _later("qualitychecker.row.policies", ValueType.LIST, "Checks of rows."),
        _later("qualitychecker.row.policy.types", ValueType.LIST, "One word per check."),
        _later("qualitychecker.row.err.file", ValueType.STRING, "File of rejected rows."),
    ),
)

STATE = Group(
    "state",
    "State",
    (
        Property(
            "state.store.enabled",
            ValueType.BOOL,
            "When false no watermarks are kept and every run sees no history.",
            default="true",
            scope=_J,
            identity=False,
        ),
        Property(
            "state.store.type",
            ValueType.ENUM,
            "Kind of store. fs on a local path is sqlite in that folder; filelog is a tree of "
            "files that needs no locks, for network mounts; postgresql and mysql (MariaDB too) "
            "keep it on a server; noop keeps nothing.",
            default="sqlite",
            words=("sqlite", "fs", "filelog", "postgresql", "mysql", "noop"),
            scope=_J,
            identity=False,
        ),
        Property(
            "dataset.state.store.type",
            ValueType.ENUM,
            "Wins over `state.store.type`.",
            words=("sqlite", "fs", "filelog", "postgresql", "mysql", "noop"),
            scope=_J,
            identity=False,
        ),
        Property(
            "state.store.dir",
            ValueType.PATH,
            "Folder of the store. A relative path starts at the job file's folder; unset: `.dil` "
            "there. A place elsewhere, such as `s3://bucket/folder`, is for the file log.",
            scope=_J,
            identity=False,
        ),
        Property(
            "state.store.fs.uri",
            ValueType.FILE_SYSTEM,
            "File system of the folder; must be local.",
            scope=_J,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        _unused(
            "state.store.compressedValues",
            ValueType.BOOL,
            "Gobblin's compression of stored values.",
            "true",
        ),
        Property(
            "state.store.db.url",
            ValueType.STRING,
            "Database of the store, needed for types postgresql and mysql: "
            "`postgresql://host:5432/database` or `mysql://host:3306/database`, options behind `?`."
            " A `jdbc:` URL is translated.",
            secret=True,
            scope=_J,
            identity=False,
        ),
        Property(
            "state.store.db.user",
            ValueType.STRING,
            "User of that database; wins over one in the URL.",
            secret=True,
            scope=_J,
            identity=False,
        ),
        Property(
            "state.store.db.password",
            ValueType.STRING,
            "Password of that database; wins over one in the URL.",
            secret=True,
            scope=_J,
            identity=False,
        ),
        _unused(
            "state.store.db.table",
            ValueType.STRING,
            "Gobblin's one table; the store here has several, whose names are fixed. Give it a "
            "database or a schema of its own.",
            "gobblin_job_state",
        ),
        _unused(
            "state.store.db.jdbc.driver",
            ValueType.STRING,
            "Java driver; not needed outside a JVM.",
            "com.mysql.cj.jdbc.Driver",
        ),
        Property(
            "ms.retention",
            ValueType.JSON_OBJECT,
            "How long state, data and logs are wanted. Nothing is deleted by a run: its "
            "`state.store` (P90D unless given) is what `dil state prune` goes by, the other "
            "members have no effect.",
            scope=_J,
            identity=False,
        ),
    ),
)

EVENTS = Group(
    "events",
    "Events",
    (
        _later("ms.metrics.enabled", ValueType.BOOL, "Sends planning events.", "false"),
        _later(
            "ms.reporter.class",
            ValueType.STRING,
            "Where events are sent.",
            "com.linkedin.cdi.factory.producer.KafkaEventReporter",
        ),
        Property(
            "ms.kafka",
            ValueType.JSON_OBJECT,
            "Kafka producer of events.",
            hidden_members="the passwords",
            scope=_J,
            support=Support.LATER,
            identity=False,
        ),
        _later("ms.kafka.events.topic.name", ValueType.STRING, "Topic of the planning events."),
    ),
)
