"""The module that Spark finds: it looks for ``DefaultSource`` in modules named ``pyspark_*``.

The wheel has this file next to the packages, as ``pyspark_dil.py``, and so has an editable install.
"""

from dil.spark.source import DilDataSource as DefaultSource

__all__ = ["DefaultSource"]
