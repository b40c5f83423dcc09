"""AWS Glue: the Data Catalog, by its API. Source: AWS Glue Web API reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from dil import __version__
from dil.catalog.metastore import (
    JOB_PARAMETER,
    CatalogTable,
    Metastore,
    Partition,
    TableChange,
    refuse_other_table,
)
from dil.errors import ConfigError, WriteError
from dil.model.destination import CatalogSpec
from dil.model.job import OutputFormat

# The most items that one call may name, according to the API reference.
_CREATED_A_CALL = 100
_DELETED_A_CALL = 25
_TYPE = "ms.catalog.type"
_CONNECT_S, _READ_S = 20, 60
_ALREADY = "AlreadyExistsException"
_MISSING = "EntityNotFoundException"
_HIVE = "org.apache.hadoop.hive.ql.io"
_FORMATS = {
    OutputFormat.PARQUET: (
        f"{_HIVE}.parquet.MapredParquetInputFormat",
        f"{_HIVE}.parquet.MapredParquetOutputFormat",
        f"{_HIVE}.parquet.serde.ParquetHiveSerDe",
    ),
    OutputFormat.ORC: (
        f"{_HIVE}.orc.OrcInputFormat",
        f"{_HIVE}.orc.OrcOutputFormat",
        f"{_HIVE}.orc.OrcSerde",
    ),
}

T = TypeVar("T")


@contextmanager
def open_glue(spec: CatalogSpec) -> Iterator[Metastore]:
    """Yield the Data Catalog that a job names; nothing is sent yet.

    Credentials come from the AWS tools, and so do region and endpoint if the job names none.

    Raises:
        ConfigError: no region is named, or the AWS tools' environment is invalid.
    """
    client = _client(spec)
    try:
        yield GlueCatalog(client)
    finally:
        client.close()


def require_settings(spec: CatalogSpec) -> None:
    """Refuse a job whose catalog cannot be queried at all; Glue itself is not queried.

    Raises:
        ConfigError: no region is named, or there are no credentials.
    """
    _client(spec).close()


def ask(spec: CatalogSpec) -> str:
    """Look up the job's database, which need not exist, in the Data Catalog; return the region.

    Raises:
        ConfigError: see ``require_settings``.
        WriteError: the Data Catalog cannot be reached, or refuses.
    """
    client = _client(spec)
    try:
        with _glue_errors(spec.name), suppress(client.exceptions.EntityNotFoundException):
            client.get_database(Name=spec.database)
        return str(client.meta.region_name)
    finally:
        client.close()


def _client(spec: CatalogSpec) -> Any:  # botocore has no types
    import botocore.session
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, NoRegionError

    try:
        session = botocore.session.Session()
        client = session.create_client(
            "glue",
            region_name=spec.region or None,
            endpoint_url=spec.endpoint or None,
            config=Config(
                connect_timeout=_CONNECT_S,
                read_timeout=_READ_S,
                retries={"total_max_attempts": 4, "mode": "standard"},
                user_agent_extra=f"dil-spark/{__version__}",
            ),
        )
        has_credentials = session.get_credentials() is not None
    except NoRegionError as error:
        raise ConfigError.single(
            "ms.catalog.glue.region",
            "is not set, and the environment of the AWS tools names no region either",
            "Set it, such as eu-central-1, or AWS_DEFAULT_REGION.",
        ) from error
    except (BotoCoreError, ValueError) as error:
        raise ConfigError.single(
            _TYPE,
            f'is "glue", and no client of AWS Glue can be made: {error}',
            "Correct ms.catalog.glue.region and ms.catalog.glue.endpoint, or the AWS_ variables of"
            " the environment.",
        ) from error
    if not has_credentials:
        client.close()
        raise ConfigError.single(
            _TYPE,
            'is "glue", and the environment of the AWS tools has no credentials',
            "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give this machine"
            " a role.",
        )
    return client


class GlueCatalog:
    """The Data Catalog of one account and region."""

    def __init__(self, client: Any) -> None:  # botocore has no types
        self._client = client

    def put_table(self, table: CatalogTable, changing: Callable[[], None]) -> TableChange:
        """Create the table and its database, or give the table these columns and this folder."""
        with _glue_errors(table.full_name):
            found: dict[str, Any] | None = None
            with suppress(self._client.exceptions.EntityNotFoundException):
                answer = self._client.get_table(DatabaseName=table.database, Name=table.name)
                found = answer["Table"]
            if found is None:
                changing()
                return self._create(table)
            parameters = found.get("Parameters") or {}
            apart = [key["Name"] for key in found.get("PartitionKeys") or ()]
            owner = parameters.get(JOB_PARAMETER, "")
            known = found.get("StorageDescriptor") or {}
            reads = known.get("InputFormat") or ""
            refuse_other_table(table, found.get("TableType") or "", apart, owner, reads)
            wanted = _table_input(table)
            members = ("Columns", "Location")
            if all(_plain(known.get(m)) == wanted["StorageDescriptor"][m] for m in members):
                return TableChange.NONE
            changing()
            self._client.update_table(
                DatabaseName=table.database,
                TableInput={**wanted, "Parameters": {**parameters, **wanted["Parameters"]}},
            )
            return TableChange.CHANGED

    def put_partitions(self, table: CatalogTable, partitions: Sequence[Partition]) -> None:
        """Add partitions, and give existing ones this folder and the table's columns."""
        with _glue_errors(table.full_name):
            for some in _portions(partitions, _CREATED_A_CALL):
                inputs = {
                    each.values: {
                        "Values": list(each.values),
                        "StorageDescriptor": _storage(table, each.location),
                    }
                    for each in some
                }
                answer = self._client.batch_create_partition(
                    DatabaseName=table.database,
                    TableName=table.name,
                    PartitionInputList=list(inputs.values()),
                )
                if there := _refused(table, answer, _ALREADY):
                    answer = self._client.batch_update_partition(
                        DatabaseName=table.database,
                        TableName=table.name,
                        Entries=[
                            {"PartitionValueList": list(each), "PartitionInput": inputs[each]}
                            for each in there
                        ],
                    )
                    _refused(table, answer, "")

    def drop_partitions(self, table: CatalogTable, partitions: Sequence[Partition]) -> None:
        """Remove partitions from the table; their files stay."""
        with _glue_errors(table.full_name):
            for some in _portions(partitions, _DELETED_A_CALL):
                answer = self._client.batch_delete_partition(
                    DatabaseName=table.database,
                    TableName=table.name,
                    PartitionsToDelete=[{"Values": list(each.values)} for each in some],
                )
                _refused(table, answer, _MISSING)

    def _create(self, table: CatalogTable) -> TableChange:
        """Create the missing database and table; another job may create either one first."""
        errors = self._client.exceptions
        try:
            self._client.get_database(Name=table.database)
        except errors.EntityNotFoundException:
            with suppress(errors.AlreadyExistsException):
                self._client.create_database(DatabaseInput={"Name": table.database})
        try:
            self._client.create_table(DatabaseName=table.database, TableInput=_table_input(table))
        except errors.AlreadyExistsException as error:
            raise WriteError(
                f"another program made the table {table.full_name} at the same time",
                "Run again: missing entries of the catalog are registered first.",
            ) from error
        return TableChange.CREATED


def _table_input(table: CatalogTable) -> dict[str, Any]:
    return {
        "Name": table.name,
        "TableType": "EXTERNAL_TABLE",
        "Parameters": {
            "EXTERNAL": "TRUE",
            "classification": table.format.value,
            JOB_PARAMETER: table.job,
        },
        "PartitionKeys": [{"Name": name.lower(), "Type": "string"} for name in table.apart],
        "StorageDescriptor": _storage(table, table.location),
    }


def _storage(table: CatalogTable, location: str) -> dict[str, Any]:
    reads, writes, serde = _FORMATS[table.format]
    return {
        "Columns": [{"Name": name.lower(), "Type": kind.lower()} for name, kind in table.columns],
        "Location": location,
        "InputFormat": reads,
        "OutputFormat": writes,
        "SerdeInfo": {
            "SerializationLibrary": serde,
            "Parameters": {"serialization.format": "1"},
        },
    }


def _plain(value: object) -> object:
    """Return columns with only the members that we set."""
    if not isinstance(value, list):
        return value
    return [{"Name": each["Name"], "Type": each.get("Type", "")} for each in value]


def _portions(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _refused(table: CatalogTable, answer: dict[str, Any], expected: str) -> list[tuple[str, ...]]:
    """Return the partitions that a call refused for the expected reason.

    Raises:
        WriteError: a partition was refused for another reason.
    """
    found = []
    for each in answer.get("Errors") or ():
        detail = each.get("ErrorDetail") or {}
        values = tuple(each.get("PartitionValues") or each.get("PartitionValueList") or ())
        if detail.get("ErrorCode") != expected:
            raise WriteError(
                f"AWS Glue refused the partition {'/'.join(values)} of {table.full_name}:"
                f" {detail.get('ErrorCode')}: {detail.get('ErrorMessage')}",
                "Run again: missing entries of the catalog are registered first.",
            )
        found.append(values)
    return found


@contextmanager
def _glue_errors(name: str) -> Iterator[None]:
    """Translate the client's errors; ``name`` is the table's name."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise WriteError(
            f"the table {name} cannot be registered in AWS Glue: {error}",
            "Check credentials, region and permissions (glue:GetTable, CreateTable, UpdateTable,"
            " BatchCreatePartition, UpdatePartition, BatchDeletePartition, GetDatabase,"
            " CreateDatabase), then run again: missing entries are registered first.",
        ) from error
