"""The properties of warehouses: what is read, what contradicts, what is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from dil import config
from dil.config.loading import Loaded
from dil.errors import ConfigError
from dil.model.destination import Operation
from dil.model.job import OutputFormat, PublishMode
from dil.text.warehouse_url import read_warehouse_url
from tests.jobs import write_job

PG = "postgresql://loader:s3cret@db/lake"
MERGE = {"ms__publish__mode": "merge", "extract__primary__key__fields": "id"}


def load(folder: Path, url: str, **changes: str) -> Loaded:
    job = write_job(folder, "http://x", ms__warehouse__url=url, **changes)
    return config.load(job, environ={"SECRET": "s3cret"})


def problem(folder: Path, url: str, **changes: str) -> tuple[str, str]:
    """Return property and text of the one problem."""
    with pytest.raises(ConfigError) as caught:
        load(folder, url, **changes)
    (found,) = caught.value.problems
    assert "s3cret" not in str(caught.value)
    return found.key, f"{found.what}\n{found.fix}"


def test_the_table_is_in_the_schema_of_the_last_part_of_the_namespace(tmp_path: Path) -> None:
    job = load(tmp_path, PG, extract__namespace="com.shop.sales").job
    spec = job.publishing.warehouse
    assert spec is not None
    assert (spec.schema, spec.table) == ("sales", "orders")
    assert spec.url.reveal() == "postgresql://loader:s3cret@db:5432/lake"
    assert job.writing.format is OutputFormat.PARQUET
    assert "s3cret" not in f"{job}"


@pytest.mark.parametrize("url", ["mysql://db/lake", "sqlite:///w.db"])
def test_where_there_are_no_schemas_the_namespace_names_none(tmp_path: Path, url: str) -> None:
    spec = load(tmp_path, url).job.publishing.warehouse
    assert spec is not None
    assert spec.schema == ""


def test_a_file_starts_at_the_job_file(tmp_path: Path) -> None:
    spec = load(tmp_path, "duckdb:///data/w.duckdb").job.publishing.warehouse
    assert spec is not None
    assert read_warehouse_url(spec.url.reveal()).path == str(tmp_path / "data/w.duckdb")


def test_user_and_password_may_come_apart_from_the_url(tmp_path: Path) -> None:
    given = {"ms__warehouse__user": "me", "ms__warehouse__password": "env:SECRET"}
    spec = load(tmp_path, "postgresql://db/lake", **given).job.publishing.warehouse
    assert spec is not None
    assert spec.url.reveal() == "postgresql://me:s3cret@db:5432/lake"


@pytest.mark.parametrize(
    ("changes", "mode", "operation"),
    [
        ({}, PublishMode.APPEND, Operation.INSERT),
        ({"extract__table__type": "SNAPSHOT_ONLY"}, PublishMode.REPLACE, Operation.INSERT),
        ({"ms__warehouse__operation": "replace"}, PublishMode.REPLACE, Operation.REPLACE),
        ({"ms__publish__mode": "window_replace"}, PublishMode.WINDOW_REPLACE, Operation.INSERT),
        (
            {"ms__warehouse__operation": "upsert", "extract__primary__key__fields": "id"},
            PublishMode.MERGE,
            Operation.UPSERT,
        ),
    ],
)
def test_the_operation_says_how_rows_are_published(
    tmp_path: Path, changes: dict[str, str], mode: PublishMode, operation: Operation
) -> None:
    spec = load(tmp_path, PG, **changes).job.publishing
    assert spec.mode is mode
    assert spec.warehouse is not None
    assert spec.warehouse.operation is operation


@pytest.mark.parametrize(
    ("url", "changes", "key", "text"),
    [
        ("oracle://loader:s3cret@db/x", {}, "ms.warehouse.url", "no known database"),
        ("postgresql://loader:s3cret@db", {}, "ms.warehouse.url", "names no database"),
        ("sqlite:///~/w.db", {}, "ms.warehouse.url", "write ${env:HOME}"),
        (PG, {"extract__table__name": "t" * 64}, "extract.table.name", "keeps 63 bytes"),
        (PG, {"extract__namespace": f"a.{'n' * 64}"}, "extract.namespace", "keeps 63 bytes"),
        ("mysql://db/x", {"extract__table__name": "t" * 65}, "extract.table.name", "64 characters"),
        (PG, {"extract__table__name": "dil_commit"}, "extract.table.name", "what was loaded"),
        (PG, {"extract__table__name": "dil_owner"}, "extract.table.name", "what was loaded"),
        *(
            (url, {"extract__table__name": own, **MERGE}, "extract.table.name", "temporary")
            for url in ("mysql://db/x", "sqlite:///w.db")
            for own in ("dil_winners", "dil_stage")
        ),
        *(
            (f"duckdb:///{file}", {"extract__namespace": "a.shop"}, "ms.warehouse.url", "tell it")
            for file in ("shop.duckdb", "data/SHOP.tar.db", "shop", ".shop.db")
        ),
        (
            PG,
            {"ms__warehouse__operation": "replace", "ms__publish__mode": "append"},
            "ms.warehouse.operation",
            "contradicts ms.publish.mode=append",
        ),
        (
            PG,
            {"ms__warehouse__operation": "upsert"},
            "extract.primary.key.fields",
            "rows are merged by it",
        ),
    ],
)
def test_what_cannot_work_is_refused(
    tmp_path: Path, url: str, changes: dict[str, str], key: str, text: str
) -> None:
    found, told = problem(tmp_path, url, **changes)
    assert found == key
    assert text in told


@pytest.mark.parametrize(
    ("url", "changes"),
    [
        ("sqlite:///w.db", {"extract__table__name": "dil_stage"}),
        (PG, {"extract__table__name": "dil_winners", **MERGE}),
        ("duckdb:///main.duckdb", {"extract__namespace": "main"}),
    ],
)
def test_names_that_databases_can_tell_apart_are_free(
    tmp_path: Path, url: str, changes: dict[str, str]
) -> None:
    assert load(tmp_path, url, **changes).job.publishing.warehouse is not None


def test_rows_go_to_one_place(tmp_path: Path) -> None:
    found, told = problem(tmp_path, PG, ms__table__format="delta")
    assert found == "ms.warehouse.url"
    assert "ms.table.format=delta" in told


def test_an_address_whose_variable_is_empty_sends_no_rows_elsewhere(tmp_path: Path) -> None:
    job = write_job(tmp_path, "http://x", ms__warehouse__url="env:URL", writer__file__path__type="")
    with pytest.raises(ConfigError, match=r"ms\.warehouse\.url is no URL of a database"):
        config.load(job, environ={"URL": ""})
    assert config.load(
        job, environ={}, overrides={"ms.warehouse.url": ""}
    ).job.publishing.keeps_files


def test_rows_missing_at_the_source_are_looked_for_where_a_run_reads_all(tmp_path: Path) -> None:
    changes = {
        "ms__publish__mode": "merge",
        "extract__primary__key__fields": "id",
        "ms__merge__delete__missing": "true",
    }
    found, told = problem(tmp_path, PG, **changes)
    assert found == "ms.merge.delete.missing"
    assert "asked from the low watermark on" in told

    whole = {"ms__watermark": "", "ms__work__unit__partition": "none", "ms__parameters": ""}
    merge = load(tmp_path, PG, **changes, **whole).job.publishing.merge
    assert merge is not None
    assert merge.deletes_missing


def test_a_driver_that_is_not_installed_is_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("dil.config.destinations.find_spec", lambda _name: None)
    found, told = problem(tmp_path, PG)
    assert found == "ms.warehouse.url"
    assert "pip install 'dil-spark[postgresql]'" in told


def test_what_has_no_effect_is_told(tmp_path: Path) -> None:
    job = write_job(tmp_path, "http://x", ms__warehouse__user="me")
    told = [(each.key, each.what) for each in config.load(job, environ={}).notices]
    assert told == [("ms.warehouse.user", "has no effect: ms.warehouse.url is not set")]
    told = [each.key for each in load(tmp_path, "sqlite:///w.db", ms__warehouse__user="me").notices]
    assert told == ["ms.warehouse.user"]
