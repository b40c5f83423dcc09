"""Sends one attempt's requests to an SFTP server: list, read or write (docs/sftp.md)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO, cast

from connectors.address import AddressError
from connectors.files.body import FileBody, closing_on_error
from connectors.files.connector import FileSession, file_view
from connectors.files.listing import listing_response
from connectors.files.names import (
    Listed,
    chosen,
    matching,
    media_type,
    stable_files,
    without_doubles,
)
from connectors.files.once import UnitFile, file_unit
from connectors.files.payload import payload_file, sent_response
from connectors.sftp.address import SftpAddress, SftpHost, address_of
from connectors.sftp.connection import SftpConnection, SftpSettings
from connectors.sftp.listing import has_wildcards, listed_files
from connectors.sftp.remote_file import SftpFile
from connectors.sftp.upload import put
from dil.errors import ConfigError, TransientSourceError
from dil.model.json import JsonObject
from dil.sections.source import SourceSection
from dil.spi.connector import RequestValues, Response
from dil.spi.request_view import RequestView

log = logging.getLogger(__name__)


class SftpSession(FileSession):
    """Lists the files of a folder, reads one file, or writes one file.

    ``seconds_waited`` is the time spent waiting before broken transfers were continued.
    """

    def __init__(
        self,
        settings: SftpSettings,
        unit: UnitFile | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._settings = settings
        self._unit = unit
        self._sleep = sleep
        self._now_ms = now_ms
        self._connections: dict[SftpHost, SftpConnection] = {}
        self.seconds_waited = 0.0

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.drop()

    def describe(self, values: RequestValues) -> RequestView:
        """Return a view of the listing, the file to read, or the target of the file to send."""
        shown = self._address(values).shown
        return file_view(shown, self._unit, self._settings.job.properties)

    def fetch(self, values: RequestValues) -> Response:
        """Send the payload file if there is one; else list the paths, or open the requested file.

        Raises:
            TransientSourceError: no connection, time-outs.
            AuthenticationError: the host key is not known, or the server refuses the user or the
                path.
            SourceContractError: the file vanished or changed.
            SourceError: the file does not exist, or the server refuses the request.
            ConfigError: the address needs a value that this request lacks.
        """
        job = self._settings.job
        address = self._address(values)
        connection = self._connection(address.server)
        payload = payload_file(job.properties, values)
        if payload is not None:
            return sent_response(put(connection, payload, address.path), address.shown)
        if job.extraction.pagination.is_on and job.extraction.session is None and values.page:
            return Response(None, location=address.shown)  # An SFTP source has no pages (rule G30).
        if self._unit is not None:
            return self._opened(connection, self._unit.path)
        files = self._wanted(connection, address)
        if not self._settings.reads_one:
            ready = stable_files(files, job.properties, address.shown, self._now_ms())
            return listing_response((each.path for each in ready), job, address.shown)
        found = chosen(files, address.path, job.properties, address.shown, self._now_ms())
        return self._opened(connection, found.path)

    def units(self) -> Iterator[JsonObject]:
        """Yield a unit for each matching file that has settled, in the order of the paths.

        Raises:
            SourceError: the server refuses the listing, or cannot be reached.
        """
        address, properties = self._address(RequestValues({}, {})), self._settings.job.properties
        files = self._wanted(self._connection(address.server), address)
        for each in stable_files(files, properties, address.shown, self._now_ms()):
            yield file_unit(each.path, each.version, properties)

    def _opened(self, connection: SftpConnection, path: str) -> Response:
        file = SftpFile(connection, path)
        if self._unit is not None:
            with closing_on_error(file.first):
                self._unit.check(file.version)
        body = FileBody(file, partial(self.wait_to_retry, sleep=self._sleep), file.first)
        return Response(
            cast("BinaryIO", body),
            content_type=media_type(path),
            headers={"Content-Length": str(file.size)},
            location=file.shown,
            uri=file.shown,
        )

    def _wanted(self, connection: SftpConnection, address: SftpAddress) -> list[Listed]:
        """Return the files that match the pattern, each once.

        If the listing fails, this method lists again over a new connection.
        """
        settings = self._settings
        # If a requested file whose name has a star is gone, no other file may replace it.
        wildcards = not settings.reads_one or has_wildcards(settings.job.source.uri)
        ask = partial(listed_files, path=address.path, shown=address.shown, wildcards=wildcards)
        try:
            found = ask(connection.client())
        except TransientSourceError as error:
            log.warning("%s; listing once more", error.message)
            connection.drop()
            self.retries += 1
            found = ask(connection.client())
        return without_doubles(matching(found, settings.job.properties), address.shown)

    def _address(self, values: RequestValues) -> SftpAddress:
        settings = self._settings
        try:
            hosts = settings.job.properties.section(SourceSection).hosts
            return address_of(settings.job.source.uri, values.variables, settings.default, hosts)
        except AddressError as error:
            raise ConfigError.single("ms.source.uri", error.what, error.fix) from None

    def _connection(self, server: SftpHost) -> SftpConnection:
        if server not in self._connections:
            self._connections[server] = SftpConnection(self._settings, server)
        return self._connections[server]
