"""S3 and services like it: list, get, put."""

from connectors.s3.connector import S3Connector

__all__ = ["S3Connector"]
