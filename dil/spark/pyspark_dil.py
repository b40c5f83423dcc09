"""What Spark looks for: each module ``pyspark_*`` on the import path, and ``DefaultSource`` in it.

The wheel has this file as ``pyspark_dil.py`` beside the package, and `make setup` writes it there.
"""

from dil.spark.source import DilDataSource as DefaultSource

__all__ = ["DefaultSource"]
