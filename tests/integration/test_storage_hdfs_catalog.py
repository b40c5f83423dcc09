"""A table of a Hive metastore whose files are on HDFS, read where it lies by Spark."""

from __future__ import annotations

import os

import pytest

from dil.execution.hive import open_hive
from dil.execution.session import SparkSettings
from dil.model.destination import CatalogSpec, CatalogType
from dil.model.report import RunStatus
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.testing.in_process import InProcessExecutor
from tests.integration.hdfs_places import Folder, use
from tests.integration.places import on_place
from tests.servers.hdfs import Hdfs
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import STEP_MS, Story, day

pytestmark = [
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def folder(monkeypatch):
    """Return a folder of a name node whose web server has the port that hdfs: paths imply."""
    use(monkeypatch)
    with Hdfs(host="127.8.0.20", port=9870) as cluster:
        found = Folder(cluster)
        found.uri = f"hdfs://{cluster.host}:{cluster.rpc_port}{found.path}"
        yield found


def test_a_table_s_location_is_the_folder_on_hdfs(folder, tmp_path):
    metastore = tmp_path / "hive"
    with HttpServer(Dataset.generate(8, units=("a", "b"), step_ms=STEP_MS)) as source:
        story = Story(
            tmp_path / "job", source,
            **on_place(
                folder,
                ms__catalog__type="hive",
                ms__catalog__hive__metastore=str(metastore),
                taskexecutor__threadpool__size="1",
            ),
        )  # fmt: skip
        # Spark's workers of this process have the user of whoever started them first.
        options = RunOptions(
            now_ms=day(1),
            clock=lambda: day(1),
            environ=dict(os.environ),
            executor=InProcessExecutor(),
        )
        report = run_job(story.job(), options)
    assert (report.status, report.failures) == (RunStatus.SUCCESS, ())
    spec = CatalogSpec(CatalogType.HIVE, "shop", "orders", str(metastore))
    with open_hive(spec, SparkSettings("hive", 1, dict(os.environ))) as hive:
        ((count,),) = hive._session.sql("SELECT COUNT(*) FROM shop.orders").collect()
    assert count == report.rows
