"""Workers import what is installed, and the job's own classes; nothing else that lies about."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dil.submit
from tests.jobs import ROOT
from tests.servers.class_archive import quick_start
from tests.servers.spark_cluster import SPARK_HOME

pytestmark = pytest.mark.spark

DIL = Path(sys.executable).with_name("dil")
EXAMPLE = ROOT / "conf/examples/custom_connector"
NOW = ("--now", "2013-01-04T12:00:00Z")
PLANTED = (
    "dil",
    "connectors",
    "msgspec",
    "chardet",
    "pyarrow",
    "requests",
    "secrets",
    "simplejson",
)


def plant(folder: Path, *names: str) -> Path:
    """Put modules into a folder that leave a trace when they are imported; return the trace."""
    trace = folder / "executed"
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / f"{name}.py").write_text(f"open({str(trace)!r}, 'a').write('{name} ')\n")
    return trace


def weather(folder: Path) -> tuple[Path, list[str]]:
    """Copy the example with its connector; return the job, and what puts its output there."""
    shutil.copytree(EXAMPLE, folder)
    places = {"data.publisher.final.dir": "lake", "state.store.dir": "state"}
    return folder / "weather.conf", [f"-D{key}={folder / to}" for key, to in places.items()]


def submit(*options: str) -> list[str]:
    return [str(SPARK_HOME / "bin/spark-submit"), "--master", "local[1]",
            "--driver-java-options", quick_start(), *options]  # fmt: skip


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([str(DIL), "run"], id="dil"),
        pytest.param([sys.executable, "-m", "dil", "run"], id="python -m"),
        pytest.param(submit(dil.submit.__file__), id="spark-submit"),
    ],
)
def test_a_job_with_a_class_beside_it_runs_and_nothing_else_of_its_folder_does(
    tmp_path: Path, command: list[str]
) -> None:
    job, moved = weather(tmp_path / "jobs")
    beside = plant(job.parent, *PLANTED)
    # `python -m dil` in a folder with a dil.py runs that one: nothing of ours has begun by then.
    here = [name for name in PLANTED if name != "dil" or "-m" not in command]
    started_in = plant(tmp_path / "started_in", *here)

    done = subprocess.run(
        [*command, str(job), *moved, *NOW, "--report", str(tmp_path / "report.json")],
        cwd=started_in.parent, capture_output=True, text=True, timeout=180, check=False,
        env={
            **{key: text for key, text in os.environ.items() if key != "PYTHONPATH"},
            "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(SPARK_HOME),
        },
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["status"], report["work_units"]["succeeded"]) == ("success", 9)
    assert not started_in.exists(), started_in.read_text()
    assert not beside.exists(), beside.read_text()
