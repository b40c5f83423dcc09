"""S3 and compatible services: list, read and write objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.lazy import connector_of

if TYPE_CHECKING:
    from connectors.s3.connector import S3Connector

__all__ = ["S3Connector"]
__getattr__ = connector_of(__name__, "S3Connector")
