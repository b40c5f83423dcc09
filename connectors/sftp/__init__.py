"""SFTP: list, read and write files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.lazy import connector_of

if TYPE_CHECKING:
    from connectors.sftp.connector import SftpConnector

__all__ = ["SftpConnector"]
__getattr__ = connector_of(__name__, "SftpConnector")
