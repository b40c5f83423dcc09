"""The query of frost_hours.conf."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql.functions import count, lit
from pyspark.sql.functions import min as least


def frost_hours(inputs: Mapping[str, DataFrame]) -> DataFrame:
    """Return the hours of frost of each station, and its lowest temperature."""
    by_station = inputs["frost"].groupBy("origin")
    return by_station.agg(count(lit(1)).alias("hours"), least("celsius").alias("coldest"))
