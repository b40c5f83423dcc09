"""The wheel, in clean environments: the newest packages that it allows, and the oldest."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dil.execution.java import find_java

ROOT = Path(__file__).parents[2]
UV = str(Path(sys.executable).with_name("uv"))
TOKEN = "release"
# Interpreters on the path of this machine; those it lacks are left out.
VERSIONS = ("3.11", "3.12", "3.13")

# A user's script: what the job has published, found by Spark without being told.
SCRIPT = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
job, lake, state = sys.argv[1:]
reader = spark.read.format("dil").option("dataset", job)
places = {"data.publisher.final.dir": lake, "state.store.dir": state}
print(reader.options(**places).load().count())
"""

pytestmark = pytest.mark.long


def uv(*words: str) -> None:
    done = subprocess.run([UV, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--quiet", "--wheel", "--out-dir", str(folder), ".")
    return next(folder.glob("*.whl"))


@pytest.fixture
def service() -> Iterator[str]:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    environ = {**os.environ, "DEMO_TOKEN": TOKEN}
    command = [sys.executable, "conf/demo/server.py", "--port", str(port)]
    with subprocess.Popen(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert "ready" in process.stdout.readline()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def interpreter(version: str) -> str:
    """Return the path of an interpreter; the test is skipped where there is none."""
    found = subprocess.run(
        [UV, "python", "find", "--no-python-downloads", version],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        pytest.skip(f"there is no Python {version} here")
    return found.stdout.strip()


@pytest.mark.parametrize("resolution", ["highest", "lowest-direct"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_job_runs_and_spark_reads_it_with_nothing_but_the_wheel(
    version: str, resolution: str, wheel: Path, service: str, tmp_path: Path
) -> None:
    environment = tmp_path / "venv"
    python = str(environment / "bin/python")
    uv("venv", "--quiet", "--python", interpreter(version), str(environment))
    # The requirements are read from the project: of the wheel's own only the newest are chosen.
    uv(
        "pip",
        "install",
        "-q",
        "--python",
        python,
        "--resolution",
        resolution,
        "-r",
        "pyproject.toml",
    )
    uv("pip", "install", "-q", "--python", python, "--no-deps", str(wheel))
    project = tmp_path / "project"
    project.mkdir()
    job = shutil.copy(ROOT / "conf/jobs/own_api.conf", project)

    done = subprocess.run(
        [
            str(environment / "bin/dil"), "run", job, "--json", "--now", "2013-01-03T06:00:00Z",
            "-D", f"data.publisher.final.dir={project}/lake",
            "-D", f"state.store.dir={project}/state",
        ],
        env={**os.environ, "DEMO_API": service, "DEMO_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["work_units"]["succeeded"] == 2
    assert report["rows"] > 0
    assert counted_by_spark(python, project, job, service) == report["rows"]


def counted_by_spark(python: str, project: Path, job: str, service: str) -> int:
    """Return the rows of what the job published, by a script of the environment."""
    done = subprocess.run(
        [python, "-c", SCRIPT, job, f"{project}/lake", f"{project}/state"],
        env={
            **os.environ,
            "DEMO_API": service,
            "DEMO_TOKEN": TOKEN,
            "PYSPARK_PYTHON": python,
            "JAVA_HOME": find_java(os.environ).home,
        },
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])
