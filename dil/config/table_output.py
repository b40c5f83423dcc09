"""The property table: where files are published."""

from __future__ import annotations

from dil.config.property import Group, Property
from dil.model.section import Scope, Support, ValueType

_T = Scope.TASK
_J = Scope.JOB
_PUBLISHER = "org.apache.gobblin.publisher.BaseDataPublisher"
_NOOP = "org.apache.gobblin.publisher.NoopPublisher"

PUBLISHING = Group(
    "publishing",
    "Publishing",
    (
        Property(
            "data.publisher.final.dir",
            ValueType.PATH,
            "Root of what is published: a path, relative ones start at the job file's folder, or "
            "a place elsewhere: `s3://bucket/folder`, `gs://bucket/folder`, "
            "`abfss://container@account.dfs.core.windows.net/folder`, `webhdfs://host:9870/folder`.",
            required=True,
        ),
        Property(
            "ms.publish.mode",
            ValueType.ENUM,
            "append adds rows; replace puts the run's rows in place of all earlier ones; "
            "window_replace puts a work unit's rows in place of its own earlier ones; merge puts a "
            "row in place of the earlier one of its primary key. Unset: append for files, or what "
            "`data.publisher.replace.final.dir` says; for tables and warehouses replace, append or "
            "merge, as `extract.table.type` and the keys say.",
            words=("append", "replace", "window_replace", "merge"),
            scope=_J,
        ),
        Property(
            "ms.publish.layout",
            ValueType.ENUM,
            "timelabel puts files into folders y=/m=/d=/h=/n= of their timelabel.",
            default="default",
            words=("default", "timelabel"),
            scope=_J,
        ),
        Property(
            "data.publisher.replace.final.dir",
            ValueType.BOOL,
            "Replaces the dataset's folder by each run; has no effect where each run has its own "
            "folder.",
            default="false",
            scope=_J,
        ),
        Property(
            "data.publisher.appendExtractToFinalDir",
            ValueType.BOOL,
            "When false the relative output folder is not added to the final directory.",
            default="true",
            scope=_J,
        ),
        Property(
            "data.publisher.permissions",
            ValueType.OCTAL,
            "Permission of folders that publishing makes; unset leaves it to the file system.",
            scope=_J,
        ),
        Property(
            "data.publisher.fs.uri",
            ValueType.FILE_SYSTEM,
            "File system of the final directory; must be local. A directory elsewhere is written "
            "out: `s3://bucket/folder`.",
            scope=_J,
            support=Support.NO_EFFECT,
        ),
        Property(
            "fs.uri",
            ValueType.FILE_SYSTEM,
            "File system where a more specific key is unset; must be local. Paths elsewhere are "
            "written out.",
            default="file:///",
            support=Support.NO_EFFECT,
        ),
        Property(
            "data.publisher.type",
            ValueType.ENUM,
            "Gobblin's publisher; NoopPublisher for file dumps only.",
            default=_PUBLISHER,
            words=(_PUBLISHER, "BaseDataPublisher", _NOOP, "NoopPublisher"),
            scope=_J,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "data.publisher.job.type",
            ValueType.ENUM,
            "Gobblin's publisher at the end of a run; NoopPublisher for file dumps only.",
            words=(_PUBLISHER, "BaseDataPublisher", _NOOP, "NoopPublisher"),
            scope=_J,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "data.publisher.task.type",
            ValueType.STRING,
            "Gobblin's publisher at the end of a task.",
            scope=_T,
            support=Support.LATER,
            identity=False,
        ),
        Property(
            "data.publisher.final.dir.group",
            ValueType.STRING,
            "Group of published data.",
            scope=_J,
            support=Support.LATER,
        ),
        Property(
            "publish.data.at.job.level",
            ValueType.BOOL,
            "Publishes after all work units, and false all that succeeded though others fail, as "
            "`job.commit.policy=successful` does.",
            default="true",
            scope=_J,
        ),
    ),
)
