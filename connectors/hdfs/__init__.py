"""Files of this machine, of HDFS and of what else Arrow reaches: ``source.class=hdfs``."""

from connectors.hdfs.connector import HdfsConnector

__all__ = ["HdfsConnector"]
