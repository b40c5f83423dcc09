"""SFTP: list, get, put."""

from connectors.sftp.connector import SftpConnector

__all__ = ["SftpConnector"]
