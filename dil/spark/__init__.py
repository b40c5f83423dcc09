"""``spark.read.format("dil")``: the source of a job, or the dataset that it published, as rows.

If dil is installed, Spark 4 finds the format by itself: it looks for modules named ``pyspark_*``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Register ``format("dil")`` in a session, for a Spark that does not find it by itself."""
    from dil.spark.source import DilDataSource

    spark.dataSource.register(DilDataSource)
