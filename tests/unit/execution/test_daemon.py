"""Where Spark's Python daemon finds its modules, and what its workers inherit."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dil.execution.daemon import without_archives


def test_an_installed_pyspark_comes_before_its_archives(tmp_path):
    site = tmp_path / "site-packages"
    for folder in ("pyspark/python/lib", "pyspark/jars"):
        (site / folder).mkdir(parents=True)
    own = str(tmp_path / "own.zip")
    archives = [
        f"{site}/pyspark/python/lib/pyspark.zip",
        f"{site}/pyspark/python/lib/py4j-0.10.9-src.zip",
        f"{site}/pyspark/jars/spark-core_2.13.jar",
    ]
    assert without_archives(["", *archives, own, str(site)]) == ["", own, str(site)]


def test_the_archives_of_a_spark_that_is_not_installed_stay(tmp_path):
    paths = [f"{tmp_path}/spark/python/lib/pyspark.zip", str(tmp_path / "site-packages")]
    assert without_archives(paths) == paths


def test_a_worker_does_not_collect_garbage_among_what_the_daemon_imported():
    program = """
import gc, runpy
from pyspark import daemon
daemon.manager = lambda: print(gc.get_freeze_count(), len(gc.get_objects()))
runpy.run_module("dil.execution.daemon", run_name="__main__")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    spared, left = map(int, done.stdout.split())
    assert spared > 10_000
    assert left < 1_000


@pytest.mark.parametrize(("rows", "stays"), [(100, True), (50_000, False)])
def test_only_pages_of_many_objects_thaw_what_a_worker_inherits(rows: int, stays: bool) -> None:
    program = f"""
import gc
from dil.extraction.json.document import collector_paused
gc.freeze()
for page in range(2):
    with collector_paused():
        objects = [{{}} for row in range({rows})]
print(gc.get_freeze_count() > 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(stays)
