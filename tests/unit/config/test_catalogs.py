"""``ms.catalog.*``: what is read, and jobs whose output no catalog could show."""

from __future__ import annotations

import json

import pytest

from dil import config
from dil.errors import ConfigError
from dil.model.destination import CatalogSpec, CatalogType
from tests.jobs import write_job

METASTORE = "ms.catalog.hive.metastore"


def job(tmp_path, **properties):
    changes = {f"ms__catalog__{name}": text for name, text in properties.items()}
    return config.load(write_job(tmp_path, "http://h", **changes), environ={})


def problems(tmp_path, **changes):
    with pytest.raises(ConfigError) as caught:
        config.load(write_job(tmp_path, "http://h", **changes), environ={})
    return [(found.key, found.what, found.fix) for found in caught.value.problems]


def test_without_a_type_there_is_no_catalog(tmp_path):
    loaded = job(tmp_path, table="orders")
    assert loaded.job.publishing.catalog is None
    assert [notice.key for notice in loaded.notices] == ["ms.catalog.table"]


def test_names_are_those_of_the_extract_unless_given(tmp_path):
    assert job(tmp_path, type="glue").job.publishing.catalog == CatalogSpec(
        CatalogType.GLUE, "shop", "orders"
    )
    given = job(
        tmp_path,
        type="hive",
        database="Lake",
        table="Orders_2",
        hive__metastore="thrift://a:9083,thrift://b:9083",
    )
    assert given.job.publishing.catalog == CatalogSpec(
        CatalogType.HIVE, "lake", "orders_2", "thrift://a:9083,thrift://b:9083"
    )


def test_a_relative_embedded_metastore_starts_at_the_job_file(tmp_path):
    catalog = job(tmp_path, type="hive", hive__metastore="metastore").job.publishing.catalog
    assert catalog.metastore == str(tmp_path / "metastore")


def test_the_catalog_does_not_change_what_a_job_is(tmp_path):
    assert job(tmp_path).job.digest == job(tmp_path, type="glue").job.digest


@pytest.mark.parametrize(
    ("changes", "key", "what"),
    [
        ({"writer__output__format": "CSV"}, "writer.output.format", "Parquet or ORC"),
        ({"writer__file__path__type": "default"}, "writer.file.path.type", "folder for each run"),
        ({"ms__table__format": "delta"}, "ms.catalog.type", "ms.table.format is set"),
        ({"ms__catalog__table": "or-ders"}, "ms.catalog.table", "no name"),
        ({"ms__catalog__table": "t" * 113}, "ms.catalog.table", "no name"),
        ({"ms__catalog__type": "hvie"}, "ms.catalog.type", "hvie"),
        ({"ms__catalog__glue__endpoint": "localhost:1"}, "ms.catalog.glue.endpoint", "http"),
        (
            {"ms__catalog__type": "hive", "ms__catalog__hive__metastore": "http://h"},
            "ms.catalog.hive.metastore",
            "http://h",
        ),
        (
            {
                "ms__publish__layout": "timelabel",
                "ms__timelabel__schedule": "@daily",
                "ms__output__schema": json.dumps(
                    [{"columnName": "D", "dataType": {"type": "long"}}]
                ),
            },
            "ms.catalog.type",
            "would name two columns",
        ),
        (
            {
                "ms__output__schema": json.dumps(
                    [{"columnName": "at", "dataType": {"type": "time"}}]
                )
            },
            "ms.output.schema",
            "of type time",
        ),
    ],
)
def test_a_job_that_no_catalog_could_show_is_refused(tmp_path, changes, key, what):
    (found,) = problems(tmp_path, **{"ms__catalog__type": "glue", **changes})
    assert found[0] == key
    assert what in found[1]
    assert found[2]


@pytest.mark.parametrize(
    ("changes", "key", "what"),
    [
        ({"type": "hive", "hive__metastore": "thrift://hive"}, METASTORE, "no host and port"),
        ({"type": "hive", "hive__metastore": "thrift://a:x"}, METASTORE, "no host and port"),
        ({"type": "hive", "hive__metastore": "thrift://a:1, thrift://b:1"}, METASTORE, "no host"),
        ({"type": "hive", "hive__metastore": "a;b"}, METASTORE, "no metastore can be kept"),
        ({"type": "hive", "hive__metastore": "s3://lake/metastore"}, METASTORE, "on this machine"),
        ({"type": "glue", "glue__region": "eucentral1"}, "ms.catalog.glue.region", "no region"),
    ],
)
def test_an_address_that_nobody_could_have_is_refused(tmp_path, changes, key, what):
    ((found, told, _),) = problems(tmp_path, **{f"ms__catalog__{k}": v for k, v in changes.items()})
    assert found == key
    assert what in told


def test_a_package_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("dil.config.destinations.find_spec", lambda _name: None)
    (found,) = problems(tmp_path, ms__catalog__type="glue")
    assert found[2] == "Install it: pip install 'dil-spark[glue]'"


def test_a_service_of_ones_own_may_have_any_region(tmp_path):
    endpoint = {"glue__endpoint": "http://glue.test:5000", "glue__region": "home"}
    assert job(tmp_path, type="glue", **endpoint).job.publishing.catalog.region == "home"
    assert job(tmp_path, type="glue", glue__region="us-gov-west-1").job.publishing.catalog
