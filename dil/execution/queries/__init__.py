"""Queries of derived datasets: rows of published files through Spark SQL into staged files."""
