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
from tests.servers.token_server import CLIENT, CLIENT_SECRET, TokenServer

pytestmark = pytest.mark.spark

# The interpreter below the virtual environment: it has none of our packages.
BARE_PYTHON = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
EXAMPLE = ROOT / "conf" / "examples" / "custom_connector"
CONNECTOR = '''
from connectors.http.connector import HttpConnector


class Shop(HttpConnector):
    """A source of the user's own; tasks find the class by its name."""
'''


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shipped")
    modules = folder / "shop_connector.py"
    modules.write_text(CONNECTOR)
    code, libraries = folder / "dil.zip", folder / "libraries.tgz"
    command = ["package", "--out", code, "--libraries", libraries, "--module", modules]
    command += ["--module", EXAMPLE / "my_connector.py"]
    subprocess.run([*DIL, *map(str, command)], check=True, capture_output=True, cwd=ROOT)
    return code, libraries


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def submit(cluster, shipped, job, report, *flags, folder=None):
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
        cwd=folder,
        env=cluster.environ(),
    )


def executors_used(cluster) -> list[Path]:
    return [path for path in cluster.folder.glob("work-*/app-*/*") if path.is_dir()]


def test_a_submitted_job_with_a_connector_of_the_users_own_publishes_each_row_once(
    cluster, shipped, tmp_path
):
    """Executors of other processes also reach the driver, for the one token and the rate."""
    dataset = Dataset.generate(4 * 72, units=("a", "b"), step_ms=DAY_MS // 72)
    with (
        HttpServer(dataset) as source,
        TokenServer(issued=lambda token: setattr(source.state, "token", token)) as tokens,
    ):
        client = {"clientId": CLIENT, "clientSecret": CLIENT_SECRET}
        facts = {"method": "oauth2", "grant": "client_credentials", "tokenUri": tokens.url}
        job = write_job(
            tmp_path,
            source.url,
            source__class="shop_connector:Shop",
            ms__plugin__path=str(shipped[0].parent),
            ms__authentication=json.dumps({**facts, **client}),
            ms__http__rate__limit="2/s",
        )
        done = submit(cluster, shipped, job, tmp_path / "report.json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["status"] == "success"
    assert report["work_units"]["succeeded"] == 6
    assert published_ids(visible_files(tmp_path)) == Counter(
        (unit, number) for unit in ("a", "b") for number in range(3 * 72)
    )
    assert len(executors_used(cluster)) >= 2
    assert len(tokens.forms) == 1
    sent = [entry.at for entry in source.requests]
    # Five intervals of 0.5 s; a machine that stalls takes some of them at once.
    assert max(sent) - min(sent) > 1


@pytest.mark.long
def test_the_documented_connector_finds_its_file_from_the_executors(cluster, shipped, tmp_path):
    folders = [f"data.publisher.final.dir={tmp_path}/lake", f"state.store.dir={tmp_path}/state"]
    flags = [part for each in folders for part in ("-D", each)]
    flags += ["--now", "2013-01-04T12:00:00Z"]  # the last one counts
    report = tmp_path / "report.json"
    # As the example says it: the path of the job file is relative.
    done = submit(cluster, shipped, "weather.conf", report, *flags, folder=EXAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(report.read_text())["work_units"]["succeeded"] == 9
