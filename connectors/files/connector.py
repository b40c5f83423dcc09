"""Connectors for files: a session lists files, reads one file, or sends one file.

Problems of their jobs are found before any I/O.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import BinaryIO, Generic, Protocol, TypeVar, cast

from connectors.address import AddressError
from connectors.files.body import FileBody, FileStream, RemoteFile
from connectors.files.listing import listing_problems, listing_response
from connectors.files.names import Listed, chosen, media_type, reads_one_file, stable_files
from connectors.files.once import UnitFile, file_unit, once_problems, unit_file
from connectors.files.payload import (
    PayloadFile,
    payload_file,
    payload_problems,
    sending_problem,
    sends_file,
    sent_response,
)
from dil.errors import ConfigError, Problem, SourceContractError
from dil.model.job import Job
from dil.model.json import JsonObject
from dil.model.properties import Properties
from dil.sections.source import ONCE, URI, FilesSection
from dil.spi.connector import ByteSession, Connector, RequestValues, Response, SessionContext
from dil.spi.request_view import RequestView


class FileSession(ByteSession):
    """A session that lists the files of a job as units."""

    @abstractmethod
    def units(self) -> Iterator[JsonObject]:
        """Yield a unit for each file of a job that reads each file once."""


class RemotePath(Protocol):
    """The place on a server that a job names: a folder, a prefix or a file."""

    @property
    def path(self) -> str:
        """Return the path without the server."""

    @property
    def shown(self) -> str:
        """Return the address for messages, without secrets."""


_P = TypeVar("_P", bound=RemotePath)


class RemoteFileSession(FileSession, Generic[_P]):
    """Lists the files of a server, reads one of them, or sends one file.

    ``seconds_waited`` is the time spent waiting before broken transfers were continued.
    """

    def __init__(
        self, job: Job, unit: UnitFile | None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._job = job
        self._unit = unit
        self._sleep = sleep
        self._reads_one = reads_one_file(job.properties)
        self.seconds_waited = 0.0

    @abstractmethod
    def address(self, values: RequestValues) -> _P:
        """Return the address of a request.

        Raises:
            AddressError: the text is no address of the protocol.
            ConfigError: the address needs a value that this request lacks.
        """

    @abstractmethod
    def listed(self, address: _P) -> Iterable[Listed]:
        """Return the files at an address that match the pattern."""

    @abstractmethod
    def opened(self, address: _P, path: str) -> Response:
        """Return the content of a file."""

    @abstractmethod
    def put(self, address: _P, payload: PayloadFile) -> tuple[JsonObject, str]:
        """Send a file; return the facts about it that become a row, and its place for messages."""

    def _known_address(self, values: RequestValues) -> _P:
        try:
            return self.address(values)
        except AddressError as error:
            raise ConfigError.single(URI, error.what, error.fix) from None

    def describe(self, values: RequestValues) -> RequestView:
        """Return a view of the listing, the file to read, or the target of the file to send."""
        return file_view(self._known_address(values).shown, self._unit, self._job.properties)

    def fetch(self, values: RequestValues) -> Response:
        """Send the payload file if there is one; else list the files, or open the requested file.

        Raises:
            TransientSourceError: no connection, time-outs, a busy server.
            AuthenticationError: the server is not the known one, or refuses the user.
            SourceContractError: the file vanished or changed.
            SourceError: the file does not exist, or the server refuses the request.
            ConfigError: the address needs a value that this request lacks, or is no address.
        """
        job, address = self._job, self._known_address(values)
        payload = payload_file(job.properties, values)
        if payload is not None:
            return sent_response(*self.put(address, payload))
        if job.extraction.pagination.is_on and job.extraction.session is None and values.page:
            return Response(None, location=address.shown)  # A server of files has no pages (G30).
        if self._unit is not None:
            return self.opened(address, self._unit.path)
        found = self.listed(address)
        if self._reads_one:
            one = chosen(found, address.path, job.properties, address.shown, _now_ms())
            return self.opened(address, one.path)
        settled = stable_files(found, job.properties, address.shown, _now_ms())
        return listing_response((each.path for each in settled), job, address.shown)

    def units(self) -> Iterator[JsonObject]:
        """Yield a unit for each matching file that has settled, in the order of the list.

        Raises:
            SourceError: the server refuses the listing, or cannot be reached.
        """
        address, properties = self._known_address(RequestValues({}, {})), self._job.properties
        for each in stable_files(self.listed(address), properties, address.shown, _now_ms()):
            yield file_unit(each.path, each.version, properties)

    def content(
        self,
        file: RemoteFile,
        first: FileStream,
        version: str,
        headers: Mapping[str, str],
        other_type: str = "",
    ) -> Response:
        """Return the answer with a file's bytes; its name shows its type, else ``other_type``.

        Args:
            file: The file.
            first: The open stream from the file's beginning.
            version: The present version, which has to be the one of the work unit.
            headers: More headers than the length.
            other_type: The media type that the server gives.

        Raises:
            SourceContractError: the file changed after it was listed.
        """
        if self._unit is not None:
            try:
                self._unit.check(version)
            except SourceContractError:
                first.close()
                raise
        body = FileBody(file, partial(self.wait_to_retry, sleep=self._sleep), first)
        return Response(
            cast("BinaryIO", body),
            content_type=media_type(file.shown) or other_type,
            headers={"Content-Length": str(file.size), **headers},
            location=file.shown,
            uri=file.shown,
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class FileConnector(Connector):
    """Lists, reads and sends files; ``ms.source.files.once`` can make each file a work unit.

    A protocol that only reads refuses payload rows in its ``check``.
    """

    reads_window = False
    unit_properties = frozenset({ONCE})

    @classmethod
    @abstractmethod
    def session(cls, job: Job, file: UnitFile | None) -> FileSession:
        """Return the session of one attempt.

        The session sends nothing before the first request. If ``file`` is given, the session reads
        only this file.
        """

    @classmethod
    def units(cls, job: Job, now_ms: int) -> Iterable[JsonObject]:
        """Yield a unit for each file of a job that reads each file once."""
        del now_ms
        with cls.session(job, None) as session:
            yield from session.units()

    def open(self, context: SessionContext) -> FileSession:
        """Return a session; it sends nothing before the first request."""
        job = context.job
        return self.session(job, unit_file(job.properties, context.work_unit))

    @classmethod
    def changes(cls, job: Job) -> Problem | None:
        """Return a problem if the job sends a file, because that changes the source."""
        return sending_problem(job.properties)

    @classmethod
    def may_repeat_rows(cls, job: Job) -> bool:
        """Return True: a repeated put writes the same file under the same name."""
        del job
        return True


def file_problems(properties: Properties, *, lists: bool) -> Iterator[Problem]:
    """Yield problems that prevent reading files once, or listing names.

    ``lists`` says whether the job asks for names instead of contents.
    """
    yield from once_problems(properties, lists=lists)
    if lists:
        yield from listing_problems(properties)


def remote_file_problems(properties: Properties) -> Iterator[Problem]:
    """Yield the problems of ``file_problems``, and the problems of files that the job sends."""
    yield from payload_problems(properties)
    lists = not reads_one_file(properties) and not sends_file(properties)
    yield from file_problems(properties, lists=lists)


def file_view(
    place: str, unit: UnitFile | None, properties: Properties, *, lists: bool | None = None
) -> RequestView:
    """Return the description, for people, of a request to list files, read one, or write one.

    Args:
        place: Address of the folder, prefix or file, without a password.
        unit: The file of the work unit, None if work units are no files.
        properties: The properties of the job.
        lists: Whether the names of the files are the rows; None means the opposite of
            ``reads_one_file``.
    """
    if sends_file(properties):
        return RequestView("put", place)
    if unit is not None:
        version = f"version {unit.version}" if unit.version else ""
        return RequestView("read", unit.path, text=version)
    pattern = properties.section(FilesSection).pattern
    is_list = not reads_one_file(properties) if lists is None else lists
    then = "their names are the rows" if is_list else "what is found is read"
    return RequestView("list", place, text=f"files whose names match {pattern}; {then}")
