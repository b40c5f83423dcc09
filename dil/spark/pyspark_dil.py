"""The module that Spark finds: it looks for ``DefaultSource`` in modules named ``pyspark_*``.

The wheel and an editable install have this file next to the packages, as ``pyspark_dil.py``.
"""

from dil.spark.source import DilDataSource as DefaultSource

__all__ = ["DefaultSource"]
