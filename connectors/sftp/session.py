"""Sends one attempt's requests to an SFTP server: list, read or write (docs/sftp.md)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial

from connectors.files.connector import RemoteFileSession
from connectors.files.names import Listed, matching, without_doubles
from connectors.files.once import UnitFile
from connectors.files.payload import PayloadFile
from connectors.sftp.address import SftpAddress, SftpHost, address_of
from connectors.sftp.connection import SftpConnection, SftpSettings
from connectors.sftp.listing import has_wildcards, listed_files
from connectors.sftp.remote_file import SftpFile
from connectors.sftp.upload import put
from dil.errors import TransientSourceError
from dil.model.json import JsonObject
from dil.sections.source import SourceSection
from dil.spi.connector import RequestValues, Response

log = logging.getLogger(__name__)


class SftpSession(RemoteFileSession[SftpAddress]):
    """Lists the files of a folder, reads one file, or writes one file."""

    def __init__(
        self,
        settings: SftpSettings,
        unit: UnitFile | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(settings.job, unit, sleep)
        self._settings = settings
        self._connections: dict[SftpHost, SftpConnection] = {}

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.drop()

    def address(self, values: RequestValues) -> SftpAddress:
        """Return the server and the path of a request."""
        hosts = self._job.properties.section(SourceSection).hosts
        return address_of(self._job.source.uri, values.variables, self._settings.default, hosts)

    def listed(self, address: SftpAddress) -> list[Listed]:
        """Return the files that match the pattern, each once.

        If the listing fails, this method lists again over a new connection.
        """
        connection = self._connection(address.server)
        # If a requested file whose name has a star is gone, no other file may replace it.
        wildcards = not self._reads_one or has_wildcards(self._job.source.uri)
        ask = partial(listed_files, path=address.path, shown=address.shown, wildcards=wildcards)
        try:
            found = ask(connection.client())
        except TransientSourceError as error:
            log.warning("%s; listing once more", error.message)
            connection.drop()
            self.retries += 1
            found = ask(connection.client())
        return without_doubles(matching(found, self._job.properties), address.shown)

    def opened(self, address: SftpAddress, path: str) -> Response:
        """Return the content of a file."""
        file = SftpFile(self._connection(address.server), path)
        return self.content(file, file.first, file.version, {})

    def put(self, address: SftpAddress, payload: PayloadFile) -> tuple[JsonObject, str]:
        """Write a file into the folder."""
        return put(self._connection(address.server), payload, address.path), address.shown

    def _connection(self, server: SftpHost) -> SftpConnection:
        if server not in self._connections:
            self._connections[server] = SftpConnection(self._settings, server)
        return self._connections[server]
