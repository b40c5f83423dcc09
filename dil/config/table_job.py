"""The property table: identity of a job, secrets, and what the launcher reads."""

from __future__ import annotations

from dil.config.property import Group, Property
from dil.model.section import Scope, Support, ValueType

IDENTITY = Group(
    "identity",
    "Identity of a job",
    (
        Property(
            "source.class",
            ValueType.CLASS,
            "The connector: a short name such as `http`, a Java name of DIL's, or "
            "`package.module:Class`.",
            required=True,
        ),
        Property(
            "job.name",
            ValueType.STRING,
            "Name of the job and key of everything that is remembered about it: a renamed job "
            "starts from scratch. Letters, digits, dot, dash, underscore, and single blanks "
            "between them.",
            required=True,
            scope=Scope.JOB,
            identity=False,
        ),
        Property(
            "job.group",
            ValueType.STRING,
            "Label for people.",
            scope=Scope.JOB,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "job.description",
            ValueType.STRING,
            "Free text for people.",
            scope=Scope.JOB,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "job.dir",
            ValueType.STRING,
            "A folder to be used as `${job.dir}` in other properties.",
            scope=Scope.JOB,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "job.schedule",
            ValueType.STRING,
            "Cron text of Gobblin's scheduler; start the job from cron or a workflow tool.",
            scope=Scope.JOB,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "job.runonce",
            ValueType.BOOL,
            "Belongs to Gobblin's scheduler; a run is always one run.",
            default="false",
            scope=Scope.JOB,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "job.disabled",
            ValueType.BOOL,
            "When true a run does nothing and ends with success.",
            default="false",
            scope=Scope.JOB,
            identity=False,
        ),
        Property(
            "job.lock.enabled",
            ValueType.BOOL,
            "Gobblin's switch. One run of the job is active at a time, always: the lease cannot be "
            "switched off.",
            default="true",
            scope=Scope.JOB,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "ms.lease.seconds",
            ValueType.INT,
            "How long after its last sign of life a run of another host keeps the job to itself.",
            default="60",
            low=1,
            scope=Scope.JOB,
            identity=False,
        ),
        Property(
            "job.template",
            ValueType.PATH,
            "File whose keys are defaults for this job; use `include` instead.",
            scope=Scope.JOB,
            support=Support.LATER,
            identity=False,
        ),
        Property(
            "ms.plugin.path",
            ValueType.LIST,
            "Folders, comma separated, in which classes of your own are looked for after the "
            "installed packages and the job file's folder.",
            scope=Scope.BOTH,
            identity=False,
        ),
        Property(
            "extract.namespace",
            ValueType.STRING,
            "Dot separated name space: of the Avro record, and with slashes for dots of the "
            "output folder.",
        ),
        Property(
            "extract.table.name",
            ValueType.STRING,
            "Name of the dataset: of its folder and of the Avro record.",
            required=True,
        ),
        Property(
            "extract.table.type",
            ValueType.ENUM,
            "How the dataset is loaded. SNAPSHOT_ONLY reads everything in every run, the other two "
            "are incremental.",
            default="SNAPSHOT_ONLY",
            words=("SNAPSHOT_ONLY", "SNAPSHOT_APPEND", "APPEND_ONLY"),
        ),
        Property(
            "extract.is.full",
            ValueType.BOOL,
            "Asks for a full extract; planning decides (it chooses the element of a list parameter "
            "with two values, and the suffix of the output folder).",
            default="false",
        ),
        Property(
            "extract.primary.key.fields",
            ValueType.LIST,
            "Columns that identify a row. Without rows and without a schema they become columns "
            "of text.",
            scope=Scope.TASK,
        ),
        Property(
            "extract.delta.fields",
            ValueType.LIST,
            "Columns that order the versions of a row. Without rows and without a schema they "
            "become timestamps.",
            scope=Scope.TASK,
        ),
        Property(
            "extract.extractIdTimeZone",
            ValueType.ZONE,
            "Zone of the extract id (`yyyyMMddHHmmss`) in the default output folder.",
            default="UTC",
            scope=Scope.JOB,
        ),
        Property(
            "dataset.urn",
            ValueType.STRING,
            "The work unit's signature as stored.",
            scope=Scope.TASK,
            support=Support.INTERNAL,
            identity=False,
        ),
    ),
)

SECRETS = Group(
    "secrets",
    "Secrets",
    (
        Property(
            "ms.secret.manager.class",
            ValueType.ENUM,
            "DIL's class that reads `ENC(...)`; it is read here without one.",
            default="com.linkedin.cdi.util.GobblinSecretManager",
            words=("com.linkedin.cdi.util.GobblinSecretManager", "GobblinSecretManager"),
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "encrypt.key.loc",
            ValueType.PATH,
            "File whose first line is the master password for `ENC(...)`; `dil secrets encrypt` "
            "writes them. A relative path starts at the job file's folder.",
            identity=False,
        ),
        Property(
            "encrypt.key.fs.uri",
            ValueType.FILE_SYSTEM,
            "File system of the master password file; must be local.",
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "encrypt.use.strong.encryptor",
            ValueType.BOOL,
            "Reads DIL's `ENC(...)` as triple DES instead of DES. `ENC(v1:...)` says by itself how "
            "it is read.",
            default="false",
            identity=False,
        ),
        Property(
            "num.encrypt.keys",
            ValueType.INT,
            "How many master password files are tried: the path itself, then `.1`, `.2` ... "
            "appended; missing ones are skipped.",
            default="2",
            low=1,
            identity=False,
        ),
    ),
)
