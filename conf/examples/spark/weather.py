"""The warmest hour at each airport, from the source of a job, by code for Spark.

    PYSPARK_PYTHON=.venv/bin/python .venv/bin/python conf/examples/spark/weather.py

Nothing is published and nothing is remembered: Spark's tasks read the work units of the job.
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

JOB = Path(__file__).resolve().parents[1] / "custom_connector" / "weather.conf"


def warmest(spark: SparkSession) -> DataFrame:
    """Return the highest temperature at each airport, and when it was measured."""
    weather = (
        spark.read.format("dil")
        .option("conf", str(JOB))
        .option("now", "2013-01-04T12:00:00Z")
        .option("columns", "origin,time_hour,temp")
        .load()
    )
    return (
        weather.groupBy("origin")
        .agg(f.max("temp").alias("temp"), f.max_by("time_hour", "temp").alias("at"))
        .orderBy("origin")
    )


if __name__ == "__main__":
    warmest(SparkSession.builder.getOrCreate()).show()
