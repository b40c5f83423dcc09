"""Where Spark's Python daemon finds its modules."""

from __future__ import annotations

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
