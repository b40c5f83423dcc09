"""Sends one attempt's requests to an SFTP server: list, read or write (docs/sftp.md)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from connectors.files.names import Listed, matching, reads_one_file, without_doubles
from connectors.files.payload import PayloadFile
from connectors.files.remote import FileServer, OpenedFile
from connectors.sftp.address import SftpAddress, SftpHost, address_of
from connectors.sftp.connection import SftpConnection, SftpSettings
from connectors.sftp.listing import has_wildcards, listed_files
from connectors.sftp.remote_file import SftpFile
from connectors.sftp.upload import put
from dil.errors import TransientSourceError
from dil.model.json import JsonObject
from dil.sections.source import SourceSection
from dil.spi.connector import RequestValues

log = logging.getLogger(__name__)


class SftpFiles(FileServer[SftpAddress]):
    """Lists the files of a folder, reads one file, or writes one file."""

    def __init__(self, settings: SftpSettings) -> None:
        self._settings = settings
        self._connections: dict[SftpHost, SftpConnection] = {}

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.drop()

    def address(self, values: RequestValues) -> SftpAddress:
        """Return the server and the path of a request."""
        job = self._settings.job
        hosts = job.properties.section(SourceSection).hosts
        return address_of(job.source.uri, values.variables, self._settings.default, hosts)

    def listed(self, address: SftpAddress, count_retry: Callable[[], None]) -> list[Listed]:
        """Return the files that match the pattern, each once.

        If the listing fails, this method lists again over a new connection.
        """
        job, connection = self._settings.job, self._connection(address.server)
        # If a requested file whose name has a star is gone, no other file may replace it.
        wildcards = not reads_one_file(job.properties) or has_wildcards(job.source.uri)
        ask = partial(listed_files, path=address.path, shown=address.shown, wildcards=wildcards)
        try:
            found = ask(connection.client())
        except TransientSourceError as error:
            log.warning("%s; listing once more", error.message)
            connection.drop()
            count_retry()
            found = ask(connection.client())
        return without_doubles(matching(found, job.properties), address.shown)

    def opened(self, address: SftpAddress, path: str) -> OpenedFile:
        """Return a file, open at its beginning."""
        file = SftpFile(self._connection(address.server), path)
        return OpenedFile(file, file.first, file.version)

    def put(self, address: SftpAddress, payload: PayloadFile) -> tuple[JsonObject, str]:
        """Write a file into the folder."""
        return put(self._connection(address.server), payload, address.path), address.shown

    def _connection(self, server: SftpHost) -> SftpConnection:
        if server not in self._connections:
            self._connections[server] = SftpConnection(self._settings, server)
        return self._connections[server]
