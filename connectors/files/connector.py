"""Connectors for files: a session lists files, reads one file, or sends one file.

Problems of their jobs are found before any I/O.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator

from connectors.files.listing import listing_problems
from connectors.files.names import reads_one_file
from connectors.files.once import UnitFile, once_problems, unit_file
from connectors.files.payload import payload_problems, sending_problem, sends_file
from dil.errors import Problem
from dil.model.job import Job
from dil.model.json import JsonObject
from dil.model.properties import Properties
from dil.sections.source import ONCE, FilesSection
from dil.spi.connector import ByteSession, Connector, SessionContext
from dil.spi.request_view import RequestView


class FileSession(ByteSession):
    """A session that lists the files of a job as units."""

    @abstractmethod
    def units(self) -> Iterator[JsonObject]:
        """Yield a unit for each file of a job that reads each file once."""


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
