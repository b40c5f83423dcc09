"""Runs work units as Spark tasks; the only package that imports pyspark."""
