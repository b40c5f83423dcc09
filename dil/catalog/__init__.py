"""Tables and partitions of a dataset in a catalog, where other engines look for files."""

from dil.catalog.metastore import Metastore
from dil.catalog.registering import is_due, register

__all__ = ["Metastore", "is_due", "register"]
