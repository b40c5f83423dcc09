"""Lists the files of a server, reads one of them, or sends one: the order of a protocol's steps."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO, Generic, Protocol, TypeVar, cast

from connectors.address import AddressError
from connectors.files.body import FileBody, FileStream, RemoteFile
from connectors.files.connector import FileSession, file_view
from connectors.files.listing import listing_response
from connectors.files.names import Listed, chosen, media_type, reads_one_file, stable_files
from connectors.files.once import UnitFile, file_unit
from connectors.files.payload import PayloadFile, payload_file, sent_response
from dil.errors import ConfigError
from dil.model.job import Job
from dil.model.json import JsonObject
from dil.sections.source import URI
from dil.spi.connector import RequestValues, Response
from dil.spi.request_view import RequestView


class RemotePath(Protocol):
    """The place on a server that a job names: a folder, a prefix or a file."""

    @property
    def path(self) -> str:
        """Return the path without the server."""

    @property
    def shown(self) -> str:
        """Return the address for messages, without secrets."""


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file and the open stream from its beginning, ``first``.

    ``version`` is the present one, ``headers`` are more headers than the length, ``given_type`` is
    the media type that the server gives.
    """

    file: RemoteFile
    first: FileStream
    version: str
    headers: Mapping[str, str] = field(default_factory=dict)
    given_type: str = ""


_P = TypeVar("_P", bound=RemotePath)


class FileServer(ABC, Generic[_P]):
    """One protocol's steps for the job of a session; it connects at the first step."""

    @abstractmethod
    def address(self, values: RequestValues) -> _P:
        """Return the address of a request.

        Raises:
            AddressError: the text is no address of the protocol.
            ConfigError: the address needs a value that this request lacks.
        """

    @abstractmethod
    def listed(self, address: _P, count_retry: Callable[[], None]) -> Iterable[Listed]:
        """Return the files at an address that match the pattern.

        A protocol that lists again after a failure calls ``count_retry`` before.
        """

    @abstractmethod
    def opened(self, address: _P, path: str) -> OpenedFile:
        """Return a file on the server of an address, open at its beginning."""

    @abstractmethod
    def put(self, address: _P, payload: PayloadFile) -> tuple[JsonObject, str]:
        """Send a file; return the facts about it that become a row, and its place for messages."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""


class RemoteFileSession(FileSession, Generic[_P]):
    """Lists the files of a server, reads one of them, or sends one file.

    ``seconds_waited`` is the time spent waiting before broken transfers were continued.
    """

    def __init__(
        self,
        job: Job,
        server: FileServer[_P],
        unit: UnitFile | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._job = job
        self._server = server
        self._unit = unit
        self._sleep = sleep
        self.seconds_waited = 0.0

    def close(self) -> None:
        """Close all connections."""
        self._server.close()

    def describe(self, values: RequestValues) -> RequestView:
        """Return a view of the listing, the file to read, or the target of the file to send."""
        return file_view(self._address(values).shown, self._unit, self._job.properties)

    def fetch(self, values: RequestValues) -> Response:
        """Send the payload file if there is one; else list the files, or open the requested file.

        Raises:
            TransientSourceError: no connection, time-outs, a busy server.
            AuthenticationError: the server is not the known one, or refuses the user.
            SourceContractError: the file vanished or changed.
            SourceError: the file does not exist, or the server refuses the request.
            ConfigError: the address needs a value that this request lacks, or is no address.
        """
        job, address = self._job, self._address(values)
        payload = payload_file(job.properties, values)
        if payload is not None:
            return sent_response(*self._server.put(address, payload))
        if job.extraction.pagination.is_on and job.extraction.session is None and values.page:
            return Response(None, location=address.shown)  # A server of files has no pages (G30).
        if self._unit is not None:
            return self._content(self._server.opened(address, self._unit.path))
        found = self._server.listed(address, self._count_retry)
        if reads_one_file(job.properties):
            one = chosen(found, address.path, job.properties, address.shown, _now_ms())
            return self._content(self._server.opened(address, one.path))
        settled = stable_files(found, job.properties, address.shown, _now_ms())
        return listing_response((each.path for each in settled), job, address.shown)

    def units(self) -> Iterator[JsonObject]:
        """Yield a unit for each matching file that has settled, in the order of the list.

        Raises:
            SourceError: the server refuses the listing, or cannot be reached.
        """
        address, properties = self._address(RequestValues({}, {})), self._job.properties
        found = self._server.listed(address, self._count_retry)
        for each in stable_files(found, properties, address.shown, _now_ms()):
            yield file_unit(each.path, each.version, properties)

    def _address(self, values: RequestValues) -> _P:
        try:
            return self._server.address(values)
        except AddressError as error:
            raise ConfigError.single(URI, error.what, error.fix) from None

    def _count_retry(self) -> None:
        self.retries += 1

    def _content(self, opened: OpenedFile) -> Response:
        """Return the answer with a file's bytes, if the file is in the version of the work unit."""
        file = opened.file
        if self._unit is not None:
            try:
                self._unit.check(opened.version)
            except BaseException:
                opened.first.close()
                raise
        body = FileBody(file, partial(self.wait_to_retry, sleep=self._sleep), opened.first)
        return Response(
            cast("BinaryIO", body),
            content_type=media_type(file.shown) or opened.given_type,
            headers={"Content-Length": str(file.size), **opened.headers},
            location=file.shown,
            uri=file.shown,
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
