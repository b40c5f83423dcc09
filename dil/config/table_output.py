"""The property table: files, and where they are published."""

from __future__ import annotations

from dil.config.property import Group, Property
from dil.model.section import Scope, Support, ValueType

_T = Scope.TASK
_J = Scope.JOB
_PUBLISHER = "org.apache.gobblin.publisher.BaseDataPublisher"
_NOOP = "org.apache.gobblin.publisher.NoopPublisher"

WRITING = Group(
    "writing",
    "Writing files",
    (
        Property(
            "writer.output.format",
            ValueType.ENUM,
            "Format of the files; alone decides it. OTHER stands for AVRO.",
            default="AVRO",
            words=("AVRO", "PARQUET", "ORC", "JSON", "CSV", "OTHER"),
            later_words=("PROTOBUF", "TXT"),
            scope=_T,
        ),
        Property(
            "writer.codec.type",
            ValueType.ENUM,
            "Compression inside the files; unset leaves it to the format (Avro: DEFLATE).",
            words=("DEFLATE", "SNAPPY", "NOCOMPRESSION"),
            scope=_T,
        ),
        Property(
            "writer.deflate.level",
            ValueType.INT,
            "Level of DEFLATE.",
            default="9",
            low=1,
            high=9,
            scope=_T,
        ),
        Property(
            "ms.writer.target.bytes",
            ValueType.LONG,
            "How large a file grows before the next one begins, in bytes as written.",
            default="134217728",
            low=1,
            scope=_T,
        ),
        Property(
            "ms.writer.row.group.rows",
            ValueType.INT,
            "How many rows a row group of Parquet files has at least, but for the last; fewer "
            "where 64 MiB are reached before.",
            default="65536",
            low=1,
            scope=_T,
        ),
        Property(
            "ms.writer.open.files.max",
            ValueType.INT,
            "How many files a work unit writes at once where rows are kept apart.",
            default="64",
            low=1,
            high=1000,
            scope=_T,
            identity=False,
        ),
        Property(
            "ms.output.system.columns",
            ValueType.LIST,
            "Columns that tell where a row comes from, any of `_dil_run_id`, `_dil_signature`, "
            "`_dil_extracted_at` (when the attempt began that read it) and `_timelabel`.",
            default="",
            scope=_T,
        ),
        Property(
            "writer.include.record.count.in.file.names",
            ValueType.BOOL,
            "Puts the number of rows before the file's extension.",
            default="false",
            scope=_T,
        ),
        Property(
            "writer.file.path",
            ValueType.STRING,
            "Relative output folder; wins over `writer.file.path.type`.",
            scope=_T,
        ),
        Property(
            "writer.file.path.type",
            ValueType.ENUM,
            "Relative output folder. default: name space, table and a folder per run; "
            "namespace_table: name space and table; tablename: table.",
            default="default",
            words=("default", "namespace_table", "tablename"),
            aliases=("writer.file.pathType",),
            scope=_T,
        ),
        Property(
            "writer.dir.permissions",
            ValueType.OCTAL,
            "Permission of folders made for the files; unset leaves it to the file system.",
            scope=_T,
        ),
        Property(
            "writer.file.permissions",
            ValueType.OCTAL,
            "Permission of the files; unset leaves it to the file system.",
            scope=_T,
        ),
        Property(
            "writer.file.name",
            ValueType.STRING,
            "How file names begin, in place of `part`; run, work unit and number follow.",
            scope=_T,
        ),
        Property(
            "writer.file.owner",
            ValueType.STRING,
            "Owner of the files; needs the right to give files away. Local files only.",
            scope=_T,
        ),
        Property(
            "writer.file.group",
            ValueType.STRING,
            "Group of the files; the user who runs the job must be in it. Local files only.",
            scope=_T,
        ),
        Property(
            "writer.file.replication.factor",
            ValueType.INT,
            "Copies that HDFS keeps of files of rows; unset leaves it to the cluster. Elsewhere"
            " without effect.",
            low=1,
            scope=_T,
        ),
        Property(
            "writer.file.block.size",
            ValueType.LONG,
            "Bytes of the blocks that HDFS cuts files of rows into, a multiple of 512; unset leaves"
            " it to the cluster. Elsewhere without effect.",
            low=1,
            scope=_T,
        ),
        Property(
            "writer.partitioner.class",
            ValueType.STRING,
            "Gobblin's row partitioner.",
            scope=_T,
            support=Support.LATER,
        ),
        Property(
            "writer.fs.uri",
            ValueType.FILE_SYSTEM,
            "File system of the files; must be local. A place elsewhere is written out in "
            "`data.publisher.final.dir`.",
            default="file:///",
            scope=_T,
            support=Support.NO_EFFECT,
        ),
        Property(
            "writer.destination.type",
            ValueType.ENUM,
            "Gobblin's kind of destination.",
            default="HDFS",
            words=("HDFS",),
            scope=_T,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "writer.builder.class",
            ValueType.STRING,
            "Gobblin's writer; `writer.output.format` decides here.",
            default="org.apache.gobblin.writer.AvroDataWriterBuilder",
            scope=_T,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "writer.staging.dir",
            ValueType.STRING,
            "Unfinished files are in a hidden folder of the final directory here.",
            scope=_T,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "writer.output.dir",
            ValueType.STRING,
            "Finished files are in a hidden folder of the final directory here.",
            scope=_T,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "task.data.root.dir",
            ValueType.STRING,
            "Gobblin's root of the two folders above.",
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "writer.buffer.size",
            ValueType.INT,
            "Gobblin's stream buffer.",
            default="4096",
            low=1,
            scope=_T,
            support=Support.NO_EFFECT,
            identity=False,
        ),
    ),
)

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
