"""What Spark looks for: each module ``pyspark_*`` on the import path, and ``DefaultSource`` in it.

The wheel has this file beside the packages, as ``pyspark_dil.py``, and so has an editable install.
"""

from dil.spark.source import DilDataSource as DefaultSource

__all__ = ["DefaultSource"]
