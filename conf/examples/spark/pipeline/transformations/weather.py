"""The rows that the source of the job has, as the pipeline's first table."""

from __future__ import annotations

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

JOB = Path(__file__).resolve().parents[3] / "custom_connector" / "weather.conf"


@dp.materialized_view
def weather() -> DataFrame:
    """Return the weather, hour by hour."""
    return (
        SparkSession.active()
        .read.format("dil")
        .option("conf", str(JOB))
        .option("now", "2013-01-04T12:00:00Z")
        .option("columns", "origin,time_hour,temp")
        .load()
    )
