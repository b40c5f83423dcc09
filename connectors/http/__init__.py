"""HTTP and HTTPS: ``source.class=connectors.http.HttpConnector``."""

from connectors.http.connector import HttpConnector

__all__ = ["HttpConnector"]
