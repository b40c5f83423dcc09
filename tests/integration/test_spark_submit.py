"""spark-submit on a real standalone cluster, executors fed by what ``dil package`` writes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import dil.submit
from tests.jobs import DIL, ROOT, published_ids, visible_files, write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS, Dataset
from tests.servers.spark_cluster import SPARK_HOME, SparkCluster

pytestmark = pytest.mark.spark

# The interpreter below the virtual environment: it has none of our packages.
BARE_PYTHON = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
CONNECTOR = '''
import io, json
from dil.spi.connector import ByteSession, Connector, RequestValues, Response


class Numbers(Connector):
    """Five numbers for each work unit."""

    def open(self, context):
        return NumbersSession(context.work_unit)


class NumbersSession(ByteSession):
    def __init__(self, unit):
        self._unit = unit

    def fetch(self, values: RequestValues) -> Response:
        day = self._unit.low // 86_400_000
        rows = [{"unit": self._unit.unit["unit"], "id": day * 10 + n} for n in range(5)]
        return Response(io.BytesIO(json.dumps({"data": rows}).encode()))
'''


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shipped")
    modules = folder / "numbers_connector.py"
    modules.write_text(CONNECTOR)
    code, libraries = folder / "dil.zip", folder / "libraries.tgz"
    command = ["package", "--out", code, "--libraries", libraries, "--module", modules]
    subprocess.run([*DIL, *map(str, command)], check=True, capture_output=True, cwd=ROOT)
    return code, libraries


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def submit(cluster, shipped, job, report, *flags):
    code, libraries = shipped
    command = [
        SPARK_HOME / "bin" / "spark-submit", "--master", cluster.url,
        "--conf", f"spark.pyspark.python={BARE_PYTHON}",
        "--conf", f"spark.pyspark.driver.python={sys.executable}",
        "--conf", "spark.executorEnv.PYTHONPATH=dil-libraries",
        "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false",
        "--py-files", code, "--archives", f"{libraries}#dil-libraries",
        dil.submit.__file__, job, "--now", "2020-01-04T00:00:00Z", "--report", report, *flags,
    ]  # fmt: skip
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=cluster.environ(),
    )


def executors_used(cluster) -> list[Path]:
    return [path for path in cluster.folder.glob("work-*/app-*/*") if path.is_dir()]


def test_a_submitted_job_runs_on_the_executors_and_publishes_each_row_once(
    cluster, shipped, tmp_path
):
    dataset = Dataset.generate(4 * 72, units=("a", "b"), step_ms=DAY_MS // 72)
    with HttpServer(dataset) as source:
        job = write_job(tmp_path, source.url)
        done = submit(cluster, shipped, job, tmp_path / "report.json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["status"] == "success"
    assert report["work_units"]["succeeded"] == 6
    assert published_ids(visible_files(tmp_path)) == Counter(
        (unit, number) for unit in ("a", "b") for number in range(3 * 72)
    )
    assert len(executors_used(cluster)) >= 2


def test_a_connector_of_the_users_own_reaches_the_executors_in_the_zip(cluster, shipped, tmp_path):
    job = write_job(
        tmp_path,
        "numbers://",
        source__class="numbers_connector:Numbers",
        ms__plugin__path=str(shipped[0].parent),
        ms__session__key__field="{}",
        ms__parameters="",
        ms__output__schema="",
    )
    done = submit(cluster, shipped, job, tmp_path / "report.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(published_ids(visible_files(tmp_path)).values()) == 6 * 5
