"""SFTP: list, get, put."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from connectors.sftp.connector import SftpConnector

__all__ = ["SftpConnector"]


def __getattr__(name: str) -> object:
    """Import the connector when it is asked for: its section is read without it."""
    if name != "SftpConnector":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from connectors.sftp.connector import SftpConnector

    return SftpConnector
