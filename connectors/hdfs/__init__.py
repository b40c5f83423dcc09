"""Files of this machine, of HDFS and of Arrow's other file systems: ``source.class=hdfs``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.lazy import connector_of

if TYPE_CHECKING:
    from connectors.hdfs.connector import HdfsConnector

__all__ = ["HdfsConnector"]
__getattr__ = connector_of(__name__, "HdfsConnector")
