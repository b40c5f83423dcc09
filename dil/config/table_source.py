"""The property table: source and connection."""

from __future__ import annotations

from dil.config.property import Property
from dil.model.section import Scope, ValueType

SOURCE = (
    Property(
        "source.filebased.fs.uri",
        ValueType.STRING,
        "File system of the paths of a file source that name none, such as "
        "`hdfs://namenode:8020` or `webhdfs://namenode:9870`; left out, this machine.",
        scope=Scope.TASK,
    ),
    Property(
        "ms.source.files.settle",
        ValueType.DURATION,
        "How long a file must not have been written to before a file source takes it, such as "
        "`PT10M`. A list leaves younger ones out; reading fails, and is tried again later.",
        scope=Scope.TASK,
        identity=False,
    ),
    Property(
        "ms.source.files.once",
        ValueType.ENUM,
        "Whether each file of a file source is a work unit of its own that is read once. "
        "`version`: a file is another one when its size, its time or its version at the source "
        "changed, and is read again, whole. `path`: a path is read once, whatever becomes of "
        "it. `none`: work units read all files that there are.",
        default="none",
        words=("none", "version", "path"),
    ),
    Property(
        "ms.source.files.decompress",
        ValueType.BOOL,
        "Whether a file source unpacks files whose names end in `.gz`, `.bz2`, `.xz`, `.zst`, "
        "`.deflate` or `.snappy`. A file dump copies them as they are unless this is set.",
        default="true",
        scope=Scope.TASK,
    ),
    Property(
        "ms.source.files.pattern",
        ValueType.REGEX,
        "Keeps the objects (S3) or files (SFTP, HDFS, local) whose whole path matches.",
        default=".*",
        scope=Scope.TASK,
    ),
    Property(
        "ms.jdbc.statement",
        ValueType.STRING,
        "SQL of a database source, run once for each page. Values put in for `{{name}}` are "
        "bound, inside quotes escaped; they can never become SQL. A statement that is no query "
        "is run for its effect and gives no rows.",
        variables=True,
        scope=Scope.TASK,
    ),
    Property(
        "ms.jdbc.schema.refactor",
        ValueType.ENUM,
        "Letter case of the column names of a database source.",
        default="none",
        words=("none", "toupper", "tolower"),
        scope=Scope.TASK,
    ),
    Property(
        "ms.jdbc.invalid.dates",
        ValueType.ENUM,
        "What a database source makes of dates that no calendar has, such as `0000-00-00` of "
        "MySQL and `infinity` of PostgreSQL: an error (`fail`), or null.",
        default="fail",
        words=("fail", "null"),
        scope=Scope.TASK,
    ),
    Property(
        "ms.jdbc.partition.column",
        ValueType.STRING,
        "Key column by which the rows of `ms.jdbc.statement` are cut into ranges, one work "
        "unit each; rows without a key are a range of their own. The bounds move as the table "
        "grows, so the dataset has to be replaced as a whole (`ms.publish.mode=replace`).",
        scope=Scope.BOTH,
    ),
    Property(
        "ms.jdbc.partitions",
        ValueType.INT,
        "How many ranges `ms.jdbc.partition.column` is cut into.",
        default="8",
        low=1,
        high=10_000,
    ),
    Property(
        "ms.jdbc.partition.by",
        ValueType.ENUM,
        "How `ms.jdbc.partition.column` is cut: into ranges of equal width (`range`, whole "
        "numbers only), or of equal numbers of rows (`quantile`).",
        default="range",
        words=("range", "quantile"),
    ),
    Property(
        "ms.jdbc.cursor.delay",
        ValueType.DURATION,
        "How long before now the datetime watermark ends at the latest, such as `PT10M`: "
        "longer than transactions that write rows with an earlier time are open.",
    ),
    Property(
        "ms.jdbc.read.only",
        ValueType.BOOL,
        "Whether queries of a database source run in a transaction, or on a file, that cannot "
        "be written to.",
        default="true",
        scope=Scope.TASK,
        identity=False,
    ),
    Property(
        "ms.jdbc.reader",
        ValueType.ENUM,
        "What reads the rows of a database source: a Python driver in each task (`driver`), or "
        "Spark with a JDBC driver (`spark`), for databases that have no Python driver here. "
        "Then `ms.source.uri` is any `jdbc:` URL, and there are no pages.",
        default="driver",
        words=("driver", "spark"),
        scope=Scope.TASK,
    ),
    Property(
        "ms.jdbc.driver.jar",
        ValueType.STRING,
        "Jar of the JDBC driver for `ms.jdbc.reader=spark`, or several with commas between. A "
        "relative path starts at the job file's folder; left out, Spark has it (`--jars`).",
        scope=Scope.TASK,
        identity=False,
    ),
    Property(
        "ms.jdbc.driver.class",
        ValueType.STRING,
        "Class of the JDBC driver, where its jar does not tell.",
        scope=Scope.TASK,
        identity=False,
    ),
    Property(
        "ms.source.s3.parameters",
        ValueType.JSON_OBJECT,
        "Region, bucket, endpoint, kind of credentials and time-outs of an S3 source.",
        hidden_members="`session_token`",
        scope=Scope.TASK,
    ),
    Property(
        "ms.s3.list.max.keys",
        ValueType.INT,
        "Keys asked for per list call of an S3 source; all pages are read.",
        default="1000",
        low=1,
        scope=Scope.TASK,
        identity=False,
    ),
)
