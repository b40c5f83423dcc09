"""Work units as Spark tasks; the only room that imports pyspark."""
