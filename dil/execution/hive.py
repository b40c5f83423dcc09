"""Changes a Hive metastore by SQL of a Spark session that has Hive support.

Source: Spark SQL reference, "CREATE HIVEFORMAT TABLE", "ALTER TABLE". See rule T28.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from dil.catalog.metastore import (
    JOB_PARAMETER,
    CatalogTable,
    Metastore,
    Partition,
    TableChange,
    refuse_other_table,
)
from dil.errors import ConfigError, WriteError
from dil.execution.jvm_errors import last_line
from dil.execution.session import SparkSettings, spark_context
from dil.model.destination import CatalogSpec, CatalogType

_URIS = "hive.metastore.uris"
_CONNECTION = "javax.jdo.option.ConnectionURL"
_EMBEDDED = {
    "hive.metastore.schema.verification": "false",
    "datanucleus.schema.autoCreateAll": "true",
    # Members may be added to a record.
    "hive.metastore.disallow.incompatible.col.type.changes": "false",
}
_ADDED_A_STATEMENT = 100


@contextmanager
def open_hive(spec: CatalogSpec, settings: SparkSettings) -> Iterator[Metastore]:
    """Yield the metastore, through the run's session if it is open, else through a new session.

    Raises:
        ConfigError: neither the job nor Spark's configuration names a metastore.
        ExecutionError: Spark cannot be started.
        WriteError: the metastore cannot be reached.
    """
    with spark_context(settings) as context, _metastore_named(context, spec) as options:
        with _hive_errors(spec.name, spec.metastore):
            metastore = HiveMetastore(_session(context, options))
        yield metastore


@contextmanager
def _metastore_named(context: Any, spec: CatalogSpec) -> Iterator[Mapping[str, str]]:
    """Set the job's metastore in Hadoop's settings, and restore the settings afterwards.

    Yields:
        The options of a session that uses the metastore.
    """
    options = {"spark.sql.catalogImplementation": "hive"}
    settings: dict[str, str] = {}
    if spec.metastore.startswith("thrift:"):
        settings = {_URIS: spec.metastore}
    elif spec.metastore:
        place = spec.metastore
        Path(place).mkdir(parents=True, exist_ok=True)
        address = f"jdbc:derby:;databaseName={place}/metastore_db;create=true"
        settings = {_CONNECTION: address, **_EMBEDDED}
        system = context._jvm.java.lang.System
        system.setProperty("derby.stream.error.file", f"{place}/derby.log")
        options["spark.sql.warehouse.dir"] = f"{place}/warehouse"
    else:
        require_metastore(context, spec)
    hadoop = context._jsc.hadoopConfiguration()
    before = {name: hadoop.get(name) for name in settings}
    for name, value in settings.items():
        hadoop.set(name, value)
    try:
        yield options
    finally:
        for name, value in before.items():
            if value is None:
                hadoop.unset(name)
            else:
                hadoop.set(name, value)


def _session(context: Any, options: Mapping[str, str]) -> Any:  # pyspark is imported late
    """Return a session with its own catalog, because another session may lack Hive support."""
    from pyspark.sql import SparkSession

    jvm = context._jvm
    made = jvm.java.util.HashMap()
    for name, value in options.items():
        made.put(name, value)
    java_class = SparkSession._get_j_spark_session_class(jvm)  # noqa: SLF001
    java_session = java_class(context._jsc.sc(), made)
    return SparkSession(context, java_session)


def require_metastore(context: Any, spec: CatalogSpec | None) -> None:
    """Refuse a catalog of Hive if neither the job nor Spark's configuration names a metastore.

    Args:
        context: The running SparkContext.
        spec: The job's catalog; None if it has no catalog.

    Raises:
        ConfigError: no metastore is named.
    """
    if spec is None or spec.type is not CatalogType.HIVE or spec.metastore:
        return
    jvm = context._jvm
    hadoop = context._jsc.hadoopConfiguration()
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    is_named = any(hadoop.get(name) for name in (_URIS, _CONNECTION))
    if not is_named and loader.getResource("hive-site.xml") is None:
        raise ConfigError.single(
            "ms.catalog.hive.metastore",
            "is not set, and Spark's configuration names no metastore either: an empty one would be"
            " made in this folder",
            "Set it, such as thrift://host:9083, or put hive-site.xml into SPARK_CONF_DIR.",
        )


def look_for_metastore(spec: CatalogSpec, settings: SparkSettings) -> None:
    """Refuse a missing metastore before a run, as ``require_metastore`` does.

    Raises:
        ConfigError: no metastore is named.
        ExecutionError: Spark cannot be started.
    """
    with spark_context(settings) as context:
        require_metastore(context, spec)


class HiveMetastore:
    """The metastore of a Spark session that has Hive support."""

    def __init__(self, session: Any) -> None:  # a SparkSession
        self._session = session
        java = session._jsparkSession  # SQL cannot read and change all of it
        self._catalog = java.sharedState().externalCatalog()
        self._types = session._jvm.org.apache.spark.sql.types.StructType

    def put_table(self, table: CatalogTable, changing: Callable[[], None]) -> TableChange:
        """Create the table and its database, or set the table's columns and folder."""
        with _hive_errors(table.full_name):
            # A user who may create tables may lack the right to create databases.
            if not self._catalog.databaseExists(table.database):
                self._sql(f"CREATE DATABASE IF NOT EXISTS {_name(table.database)}")
            if not self._catalog.tableExists(table.database, table.name):
                changing()
                apart = ", ".join(f"{_name(name)} STRING" for name in table.apart)
                self._sql(
                    f"CREATE EXTERNAL TABLE IF NOT EXISTS {_named(table)} ({_columns(table)})"
                    f"{f' PARTITIONED BY ({apart})' if apart else ''}"
                    f" STORED AS {table.format.upper()} LOCATION {_text(table.location)}"
                    f" TBLPROPERTIES ({_text(JOB_PARAMETER)} = {_text(table.job)})"
                )
                return TableChange.CREATED
            return self._change(table, changing)

    def put_partitions(self, table: CatalogTable, partitions: Sequence[Partition]) -> None:
        """Add partitions, and set the folder and columns of existing ones."""
        with _hive_errors(table.full_name):
            rows = self._sql(f"SHOW PARTITIONS {_named(table)}").collect()
            known = {
                tuple(unquote(part.partition("=")[2]) for part in row[0].split("/")) for row in rows
            }
            there = [each for each in partitions if each.values in known]
            new = [each for each in partitions if each.values not in known]
            for start in range(0, len(new), _ADDED_A_STATEMENT):
                added = " ".join(
                    f"{_partition(table, each)} LOCATION {_text(each.location)}"
                    for each in new[start : start + _ADDED_A_STATEMENT]
                )
                self._sql(f"ALTER TABLE {_named(table)} ADD IF NOT EXISTS {added}")
            for each in there:
                place = f"{_partition(table, each)} SET LOCATION {_text(each.location)}"
                self._sql(f"ALTER TABLE {_named(table)} {place}")

    def drop_partitions(self, table: CatalogTable, partitions: Sequence[Partition]) -> None:
        """Remove partitions from the table; their files stay, because the table is external."""
        with _hive_errors(table.full_name):
            for start in range(0, len(partitions), _ADDED_A_STATEMENT):
                some = partitions[start : start + _ADDED_A_STATEMENT]
                gone = ", ".join(_partition(table, each) for each in some)
                self._sql(f"ALTER TABLE {_named(table)} DROP IF EXISTS {gone}")

    def _change(self, table: CatalogTable, changing: Callable[[], None]) -> TableChange:
        found = self._catalog.getTable(table.database, table.name)
        apart = found.partitionColumnNames().mkString("\n").split("\n")
        owner = found.properties().get(JOB_PARAMETER)
        reads = found.storage().inputFormat()
        refuse_other_table(
            table,
            found.tableType().name(),
            [name for name in apart if name],
            owner.get() if owner.isDefined() else "",
            reads.get() if reads.isDefined() else "",
        )
        wanted = self._types.fromDDL(_columns(table))
        is_other = found.dataSchema().catalogString() != wanted.catalogString()
        # Hadoop may escape a location, and writes file:/x for file:///x.
        here = unquote(found.location().toString()).replace("file:///", "file:/")
        is_elsewhere = here != table.location.replace("file:///", "file:/")
        if not (is_other or is_elsewhere):
            return TableChange.NONE
        changing()
        if is_other:
            self._catalog.alterTableDataSchema(table.database, table.name, wanted)
        if is_elsewhere:
            self._sql(f"ALTER TABLE {_named(table)} SET LOCATION {_text(table.location)}")
        self._sql(f"REFRESH TABLE {_named(table)}")
        return TableChange.CHANGED

    def _sql(self, statement: str) -> Any:  # a DataFrame
        return self._session.sql(statement)


def _columns(table: CatalogTable) -> str:
    return ", ".join(f"{_name(name)} {kind}" for name, kind in table.columns)


def _partition(table: CatalogTable, partition: Partition) -> str:
    pairs = zip(table.apart, partition.values, strict=True)
    values = ", ".join(f"{_name(name)} = {_text(text)}" for name, text in pairs)
    return f"PARTITION ({values})"


def _named(table: CatalogTable) -> str:
    return f"{_name(table.database)}.{_name(table.name)}"


def _name(text: str) -> str:
    return f"`{text.replace('`', '``')}`"


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


@contextmanager
def _hive_errors(name: str, place: str = "") -> Iterator[None]:
    """Translate exceptions of Spark and the JVM; ``place`` is the place of the metastore."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise WriteError(
            f"the table {name} cannot be registered in the Hive metastore{place and f' {place}'}:"
            f" {last_line(error)}",
            "Check the metastore, ms.catalog.hive.metastore and permissions, then run again: the "
            "run first registers missing tables and partitions. If the metastore refuses to change "
            "the table's "
            "columns, you may drop the table: the files of an external table stay.",
        ) from error
