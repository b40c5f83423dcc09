"""Connectors for files: a session lists files, reads one file, or sends one file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator

from connectors.files.once import UnitFile, unit_file
from connectors.files.payload import sending_problem
from dil.errors import Problem
from dil.model.job import Job
from dil.model.json import JsonObject
from dil.sections.source import ONCE
from dil.spi.connector import ByteSession, Connector, SessionContext


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
