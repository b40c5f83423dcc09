"""The connector for files; cheap to import, clients are loaded when a place is opened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from connectors.files.checks import file_problems
from connectors.files.once import unit_file
from connectors.hdfs.place import lists, place_problems
from dil.errors import Problem
from dil.model.job import Job
from dil.model.json import JsonObject
from dil.model.properties import Properties
from dil.sections.secondary import KEY as SECONDARY
from dil.sections.secondary import SecondarySection
from dil.sections.source import ONCE, SourceSection
from dil.spi.connector import Connector, SessionContext

if TYPE_CHECKING:
    from connectors.hdfs.session import FilesSession


class HdfsConnector(Connector):
    """Lists and reads files of this machine, of HDFS, and of what Arrow reaches."""

    unit_properties = frozenset({ONCE})
    reads_window = False

    @classmethod
    def check(cls, properties: Properties) -> Iterable[Problem]:
        """Return problems of the address, of listing, and of rows to send."""
        return [
            *place_problems(properties),
            *_payload_problems(properties),
            *file_problems(properties, lists=lists(properties.section(SourceSection).uri)),
        ]

    @classmethod
    def units(cls, job: Job, now_ms: int) -> Iterable[JsonObject]:
        """Yield the files as units, where each is read once."""
        del now_ms
        from connectors.hdfs.session import FileSettings, FilesSession

        with FilesSession(FileSettings.of(job)) as session:
            yield from session.units()

    def open(self, context: SessionContext) -> FilesSession:
        """Return a session; nothing is looked at before the first request."""
        from connectors.hdfs.session import FileSettings, FilesSession

        file = unit_file(context.job.properties, context.work_unit)
        return FilesSession(FileSettings.of(context.job), file)


def _payload_problems(properties: Properties) -> Iterable[Problem]:
    for _ in properties.section(SecondarySection).payload:
        yield Problem(
            properties.origin(SECONDARY),
            SECONDARY,
            "has payload rows, and files are only read",
            "Leave the payload entry out, or send to http, s3 or sftp.",
        )
