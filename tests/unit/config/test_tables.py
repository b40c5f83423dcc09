"""Delta and Iceberg tables: what is read, and what does not go together."""

from __future__ import annotations

import pytest

from dil.model.destination import TableFormat
from dil.model.job import OutputFormat, PublishMode

DELTA = {"ms.table.format": "delta"}
ICEBERG = {"ms.table.format": "iceberg", "extract.namespace": "shop.sales"}


def test_a_job_publishes_plain_files_unless_it_says_otherwise(job_file):
    publishing = job_file.load({}).job.publishing
    assert (publishing.table.format, publishing.run_folder) == (TableFormat.FILES, True)


@pytest.mark.parametrize("properties", [DELTA, ICEBERG])
def test_a_table_is_of_parquet_files_in_one_folder(job_file, properties):
    job = job_file.load({**properties, "ms.table.partition.fields": "day, unit"}).job
    assert job.writing.format is OutputFormat.PARQUET
    assert not job.publishing.run_folder
    assert job.publishing.table.partition_fields == ("day", "unit")


@pytest.mark.parametrize("properties", [DELTA, ICEBERG])
@pytest.mark.parametrize(
    ("more", "mode"),
    [
        ({"extract.table.type": "SNAPSHOT_ONLY"}, PublishMode.REPLACE),
        ({"extract.table.type": "APPEND_ONLY"}, PublishMode.APPEND),
        ({"extract.table.type": "SNAPSHOT_APPEND"}, PublishMode.APPEND),
        (
            {"extract.table.type": "SNAPSHOT_APPEND", "extract.primary.key.fields": "id"},
            PublishMode.MERGE,
        ),
        ({"ms.publish.mode": "window_replace"}, PublishMode.WINDOW_REPLACE),
    ],
)
def test_the_mode_follows_the_table_type(job_file, properties, more, mode):
    assert job_file.load({**properties, **more}).job.publishing.mode is mode


@pytest.mark.parametrize(
    ("more", "merges"),
    [
        ({"extract.table.type": "SNAPSHOT_APPEND"}, True),
        ({"ms.publish.mode": "merge"}, True),
        ({"ms.publish.mode": "append"}, False),
        ({"extract.table.type": "SNAPSHOT_ONLY"}, False),
    ],
)
def test_a_run_that_replaces_merges_its_rows_if_other_runs_merge(job_file, more, merges):
    properties = {**DELTA, "extract.primary.key.fields": "id", **more}
    given = {"ms.publish.mode": "replace"}
    assert (job_file.load(properties, overrides=given).job.publishing.merge is not None) is merges
    assert job_file.load({**properties, **given}).job.publishing.merge is None


@pytest.mark.parametrize(
    ("more", "given", "merges"),
    [
        ({"extract.table.type": "SNAPSHOT_APPEND"}, ("operation",), True),
        ({"extract.table.type": "SNAPSHOT_APPEND"}, ("mode",), True),
        ({"extract.table.type": "APPEND_ONLY"}, ("operation",), False),
        ({"ms.publish.mode": "merge"}, ("mode", "operation"), True),
        ({"ms.publish.mode": "append"}, ("mode", "operation"), False),
        ({"ms.warehouse.operation": "upsert"}, ("operation",), True),
        ({"ms.warehouse.operation": "upsert"}, ("mode", "operation"), True),
        ({"ms.warehouse.operation": "insert"}, ("operation",), False),
    ],
)
def test_a_run_that_replaces_a_table_of_a_database_merges_likewise(job_file, more, given, merges):
    keys = {"extract.primary.key.fields": "id", "ms.warehouse.url": "sqlite:///w.db"}
    names = {"mode": "ms.publish.mode", "operation": "ms.warehouse.operation"}
    flags = {names[each]: "replace" for each in given}
    publishing = job_file.load({**keys, **more}, overrides=flags).job.publishing
    assert publishing.mode is PublishMode.REPLACE
    assert (publishing.merge is not None) is merges


def test_parquet_and_a_folder_of_the_table_may_be_written_out(job_file):
    written = {"writer.output.format": "parquet", "writer.file.path.type": "tablename"}
    assert job_file.load({**DELTA, **written}).job.publishing.dataset_path == "orders"


@pytest.mark.parametrize("properties", [DELTA, ICEBERG])
def test_a_table_may_be_on_s3(job_file, properties):
    place = {"data.publisher.final.dir": "s3a://lake/data"}
    publishing = job_file.load({**properties, **place}).job.publishing
    assert publishing.final_dir == "s3://lake/data"
    assert publishing.table.catalog_warehouse in {"", "s3://lake/data"}


@pytest.mark.parametrize("properties", [DELTA, ICEBERG])
@pytest.mark.parametrize(
    "place", ["gs://lake/data", "abfss://lake@dil.dfs.core.windows.net/data", "webhdfs://nn/data"]
)
def test_a_table_is_refused_where_its_library_does_not_go(job_file, properties, place):
    places = {"data.publisher.final.dir": place, "ms.iceberg.catalog.uri": "sqlite:///c.db"}
    found = job_file.problems({**properties, **places})
    (problem,) = [each for each in found if each.key == "ms.table.format"]
    assert place in problem.what
    assert "plain files" in problem.fix


# Catalogs


def test_the_catalog_is_in_the_state_folder_unless_it_is_named(job_file):
    table = job_file.load(ICEBERG).job.publishing.table
    folder = job_file.folder.resolve()
    assert (table.namespace, table.name) == ("shop.sales", "orders")
    assert table.catalog_uri.reveal() == f"sqlite:///{folder}/.dil/iceberg-catalog.db"
    assert table.catalog_warehouse == f"file://{folder}/out"
    named = job_file.load({**ICEBERG, "state.store.dir": "state"}).job.publishing.table
    assert named.catalog_uri.reveal() == f"sqlite:///{folder}/state/iceberg-catalog.db"


@pytest.mark.parametrize(
    ("given", "uri"),
    [
        ("sqlite:////var/lib/catalog.db", "sqlite:////var/lib/catalog.db"),
        ("sqlite:///catalog.db?timeout=5", "sqlite:///{folder}/catalog.db?timeout=5"),
        ("postgresql://u:p@db/lake", "postgresql://u:p@db/lake"),
        ("mysql+pymysql://db/lake", "mysql+pymysql://db/lake"),
        ("https://catalog.test/api", "https://catalog.test/api"),
    ],
)
def test_a_catalog_is_a_database_or_a_service(job_file, given, uri):
    job = job_file.load({**ICEBERG, "ms.iceberg.catalog.uri": given}).job
    expected = uri.format(folder=job_file.folder.resolve())
    assert job.publishing.table.catalog_uri.reveal() == expected
    assert "***" in repr(job.publishing.table)


@pytest.mark.parametrize(
    "given",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "thrift://hive:9083",
        "catalog.db",
        "oracle://x/y",
        "sqlite:///~/catalog.db",
    ],
)
def test_other_catalogs_are_refused_and_not_shown(job_file, given):
    (problem,) = job_file.problems({**ICEBERG, "ms.iceberg.catalog.uri": given})
    assert problem.key == "ms.iceberg.catalog.uri"
    assert given not in problem.what


def test_a_catalog_whose_variable_is_empty_is_no_other_catalog(job_file):
    given = {**ICEBERG, "ms.iceberg.catalog.uri": "env:URI"}
    (problem,) = job_file.problems(given, environ={"URI": ""})
    assert (problem.key, problem.what) == ("ms.iceberg.catalog.uri", "names no catalog that lasts")


def test_a_job_whose_state_is_on_s3_names_its_catalog(job_file):
    state = {"state.store.type": "fs", "state.store.dir": "s3://lake/state"}
    (problem,) = job_file.problems({**ICEBERG, **state})
    assert problem.key == "ms.iceberg.catalog.uri"
    job_file.load({**ICEBERG, **state, "ms.iceberg.catalog.uri": "https://catalog.test"})
    job_file.load({**DELTA, **state})


def test_a_job_without_a_state_folder_names_its_catalog(job_file):
    server = {
        "state.store.type": "postgresql",
        "state.store.db.url": "postgresql://db.test/dil",
        "state.store.db.user": "u",
        "state.store.db.password": "p",
    }
    (problem,) = job_file.problems({**ICEBERG, **server})
    assert problem.key == "ms.iceberg.catalog.uri"
    job_file.load({**ICEBERG, **server, "ms.iceberg.catalog.uri": "https://catalog.test"})


def test_a_catalog_of_another_format_has_no_effect_and_that_is_said(job_file):
    (notice,) = job_file.notices({**DELTA, "ms.iceberg.catalog.uri": "https://catalog.test"})
    assert "ms.iceberg.catalog.uri" in notice


# What does not go together


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"writer.output.format": "AVRO"}, "writer.output.format"),
        ({"writer.file.path.type": "default"}, "writer.file.path.type"),
        ({"data.publisher.final.dir": "/data/100%"}, "data.publisher.final.dir"),
        ({"data.publisher.final.dir": "s3://lake/100%"}, "data.publisher.final.dir"),
        ({"extract.table.name": "orders#1"}, "extract.table.name"),
        (
            {"ms.extractor.class": "filedump", "ms.extractor.target.file.name": "x"},
            "ms.table.format",
        ),
        ({"ms.warehouse.url": "sqlite:///x.db"}, "ms.warehouse.url"),
    ],
)
@pytest.mark.parametrize("properties", [DELTA, ICEBERG])
def test_what_a_table_cannot_be_is_refused(job_file, properties, more, key):
    found = job_file.problems({**properties, **more})
    assert key in [problem.key for problem in found]


def test_rows_are_merged_by_columns_that_the_files_hold(job_file):
    merge = {
        "ms.publish.mode": "merge",
        "extract.primary.key.fields": "id",
        "ms.table.partition.fields": "id",
    }
    (problem,) = job_file.problems({**DELTA, **merge})
    assert problem.key == "extract.primary.key.fields"
    assert "use ms.table.format=iceberg" in problem.fix
    assert job_file.load({**ICEBERG, **merge}).job.publishing.merge.keys == ("id",)


def test_soft_deletes_have_no_effect_where_no_column_marks_deletes(job_file):
    merge = {"ms.publish.mode": "merge", "extract.primary.key.fields": "id"}
    soft = {**DELTA, **merge, "ms.merge.deletes": "soft"}
    assert job_file.notices(soft) == ["ms.merge.deletes"]
    assert job_file.notices({**soft, "ms.merge.op.field": "op"}) == []


def test_settings_of_merges_have_no_effect_on_rows_that_are_appended(job_file):
    given = {"ms.merge.op.field": "op", "ms.publish.mode": "append"}
    assert job_file.notices(given) == ["ms.merge.op.field"]


@pytest.mark.parametrize("properties", [DELTA, ICEBERG])
def test_a_package_that_is_not_installed_is_named(job_file, monkeypatch, properties):
    monkeypatch.setattr("dil.config.destinations.find_spec", lambda _name: None)
    (problem,) = job_file.problems(properties)
    assert problem.fix == f"Install it: pip install 'dil-spark[{properties['ms.table.format']}]'"


def test_an_iceberg_table_needs_a_namespace(job_file):
    (problem,) = job_file.problems({"ms.table.format": "iceberg"})
    assert problem.key == "extract.namespace"
