"""AWS Glue answers that an entry exists, is refused, or is a table of another job."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.credentials import Credentials

from dil.catalog.glue import GlueCatalog, ask, open_glue
from dil.catalog.metastore import CatalogTable, Partition, TableChange, refuse_other_table
from dil.errors import ConfigError, WriteError
from dil.model.destination import CatalogSpec, CatalogType
from dil.model.job import OutputFormat

TABLE = CatalogTable(
    "db", "orders", (("id", "bigint"),), ("Day",), "file:///lake", OutputFormat.PARQUET, "orders"
)
DAYS = tuple(Partition((str(day),), f"file:///lake/Day={day}") for day in range(3))


class MissingError(Exception):
    """Stands for EntityNotFoundException."""


class AlreadyError(Exception):
    """Stands for AlreadyExistsException."""


class Client:
    """A catalog whose answers are given; ``calls`` are the names of all calls."""

    exceptions = SimpleNamespace(
        EntityNotFoundException=MissingError, AlreadyExistsException=AlreadyError
    )

    def __init__(self, table: dict[str, Any] | None = None, **answers: Any) -> None:
        self.table = table
        self.answers = answers
        self.calls: list[str] = []
        self.sent: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        def call(**sent: Any) -> Any:
            self.calls.append(name)
            self.sent[name] = sent
            answer = self.answers.get(name, {})
            if isinstance(answer, type):
                raise answer
            return answer

        return call

    def get_table(self, **_: str) -> dict[str, Any]:
        if self.table is None:
            raise MissingError
        return {"Table": self.table}


def refused(code: str, *days: str) -> dict[str, Any]:
    return {"Errors": [{"ErrorDetail": {"ErrorCode": code}, "PartitionValues": [d]} for d in days]}


def there(**changes: Any) -> dict[str, Any]:
    """Return the table as this job registered it, with some members changed."""
    client = Client()
    GlueCatalog(client).put_table(TABLE, lambda: None)
    return {**client.sent["create_table"]["TableInput"], **changes}


def test_partitions_that_are_there_get_their_folder_anew() -> None:
    client = Client(batch_create_partition=refused("AlreadyExistsException", "1"))
    GlueCatalog(client).put_partitions(TABLE, DAYS)
    (entry,) = client.sent["batch_update_partition"]["Entries"]
    assert entry["PartitionValueList"] == ["1"]
    assert entry["PartitionInput"]["StorageDescriptor"]["Location"] == "file:///lake/Day=1"


@pytest.mark.parametrize(
    "answers",
    [
        {"batch_create_partition": refused("InternalServiceException", "1")},
        {
            "batch_create_partition": refused("AlreadyExistsException", "1"),
            "batch_update_partition": {
                "Errors": [
                    {
                        "ErrorDetail": {"ErrorCode": "EntityNotFoundException"},
                        "PartitionValueList": ["1"],
                    }
                ]
            },
        },
    ],
)
def test_a_partition_that_is_refused_is_an_error(answers: dict[str, Any]) -> None:
    with pytest.raises(WriteError, match=r"partition 1 of db\.orders"):
        GlueCatalog(Client(**answers)).put_partitions(TABLE, DAYS)


def test_a_partition_is_gone_that_was_gone_before_and_no_other_that_is_refused() -> None:
    gone = Client(batch_delete_partition=refused("EntityNotFoundException", "1"))
    GlueCatalog(gone).drop_partitions(TABLE, DAYS)
    kept = Client(batch_delete_partition=refused("AccessDeniedException", "1"))
    with pytest.raises(WriteError):
        GlueCatalog(kept).drop_partitions(TABLE, DAYS)


def test_a_database_that_another_job_makes_first_is_as_good() -> None:
    client = Client(get_database=MissingError, create_database=AlreadyError)
    assert GlueCatalog(client).put_table(TABLE, lambda: None) is TableChange.CREATED
    late = GlueCatalog(Client(create_table=AlreadyError))
    with pytest.raises(WriteError):
        late.put_table(TABLE, lambda: None)


@pytest.mark.parametrize(
    ("table", "change"),
    [(None, "create_table"), ({"Location": "file:///old"}, "update_table"), ({}, "")],
)
def test_the_record_goes_right_before_a_table_changes(
    table: dict[str, str] | None, change: str
) -> None:
    known = None
    if table is not None:
        known = there()
        known = {**known, "StorageDescriptor": {**known["StorageDescriptor"], **table}}
    client = Client(known)
    GlueCatalog(client).put_table(TABLE, lambda: client.calls.append("record"))
    steps = [call for call in client.calls if call != "get_database"]
    assert steps == (["record", change] if change else [])


@pytest.mark.parametrize(
    ("kind", "apart", "owner", "reads"),
    [
        ("VIRTUAL_VIEW", ["day"], "orders", ""),
        ("EXTERNAL_TABLE", ["day"], "returns", ""),
        ("EXTERNAL_TABLE", ["day"], "", ""),
        ("EXTERNAL_TABLE", [], "orders", ""),
        ("EXTERNAL_TABLE", ["day"], "orders", "org.apache.OrcInputFormat"),
    ],
)
def test_a_table_of_another_kind_job_shape_or_format_is_refused(
    kind: str, apart: Sequence[str], owner: str, reads: str
) -> None:
    refuse_other_table(TABLE, "external_table", ["day"], "orders", "org.MapredParquetInputFormat")
    with pytest.raises(WriteError):
        refuse_other_table(TABLE, kind, apart, owner, reads)


def test_an_update_keeps_the_parameters_of_others_and_renews_our_own() -> None:
    known = there(Parameters={"owner": "them", "classification": "csv", "dil.job": "orders"})
    client = Client({**known, "StorageDescriptor": {}})
    assert GlueCatalog(client).put_table(TABLE, lambda: None) is TableChange.CHANGED
    parameters = client.sent["update_table"]["TableInput"]["Parameters"]
    assert (parameters["owner"], parameters["classification"]) == ("them", "parquet")


def test_what_a_catalog_says_beside_the_columns_is_no_change() -> None:
    known = there()
    (column,) = known["StorageDescriptor"]["Columns"]
    storage = {**known["StorageDescriptor"], "Columns": [{**column, "Comment": "the key"}]}
    found = GlueCatalog(Client({**known, "StorageDescriptor": storage}))
    assert found.put_table(TABLE, lambda: None) is TableChange.NONE


def test_columns_of_partitions_have_small_letters_as_hive_reads_them() -> None:
    assert there()["PartitionKeys"] == [{"Name": "day", "Type": "string"}]


def test_a_table_whose_files_are_read_in_another_format_is_left_alone() -> None:
    known = there()
    storage = {**known["StorageDescriptor"], "InputFormat": "org.apache.OrcInputFormat"}
    with pytest.raises(WriteError, match="Orc"):
        GlueCatalog(Client({**known, "StorageDescriptor": storage})).put_table(TABLE, lambda: None)


def test_each_call_has_as_many_partitions_as_the_service_takes() -> None:
    sent: list[int] = []

    class Counting(Client):
        def batch_create_partition(self, **given: Any) -> dict[str, Any]:
            sent.append(len(given["PartitionInputList"]))
            return {}

        def batch_delete_partition(self, **given: Any) -> dict[str, Any]:
            sent.append(len(given["PartitionsToDelete"]))
            return {}

    many = tuple(Partition((str(day),), "file:///lake") for day in range(101))
    GlueCatalog(Counting()).put_partitions(TABLE, many)
    GlueCatalog(Counting()).drop_partitions(TABLE, many[:26])
    assert sent == [100, 1, 25, 1]


@pytest.mark.parametrize("has_credentials", [True, False])
def test_no_connection_of_a_catalog_stays_open(
    has_credentials: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[object] = []

    def close(client: object) -> None:
        closed.append(client)

    monkeypatch.setattr("botocore.client.BaseClient.close", close)
    monkeypatch.setattr(
        "botocore.session.Session.get_credentials",
        lambda _: Credentials("id", "key") if has_credentials else None,
    )
    spec = CatalogSpec(CatalogType.GLUE, "db", "orders", region="eu-central-1")
    with (
        nullcontext() if has_credentials else pytest.raises(ConfigError, match="credentials"),
        open_glue(spec),
    ):
        assert not closed
    assert len(closed) == 1
    if has_credentials:
        monkeypatch.setattr("botocore.client.BaseClient._make_api_call", lambda *_: {})
        assert ask(spec) == "eu-central-1"
        assert len(closed) == 2


def test_partition_columns_in_another_order_are_those_of_another_table() -> None:
    two = replace(TABLE, apart=("Day", "Unit"))
    refuse_other_table(two, "EXTERNAL_TABLE", ["day", "unit"], "orders", "")
    with pytest.raises(WriteError):
        refuse_other_table(two, "EXTERNAL_TABLE", ["unit", "day"], "orders", "")
