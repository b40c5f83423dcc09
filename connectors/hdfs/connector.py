"""The connector for files. Importing it is quick: opening a place loads the client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from connectors.files.connector import FileConnector, file_problems
from connectors.files.once import UnitFile
from connectors.hdfs.place import lists, place_problems
from dil.errors import Problem
from dil.model.job import Job
from dil.model.properties import Properties
from dil.sections.secondary import SECONDARY, SecondarySection
from dil.sections.source import SourceSection

if TYPE_CHECKING:
    from connectors.hdfs.session import FilesSession


class HdfsConnector(FileConnector):
    """Lists and reads files of this machine, of HDFS, and of Arrow's other file systems."""

    @classmethod
    def check(cls, properties: Properties) -> Iterable[Problem]:
        """Return problems of the address, of listing, and of rows to send."""
        payload_problems = [
            Problem(
                properties.origin(SECONDARY),
                SECONDARY,
                "has payload rows, but files are only read",
                "Leave the payload entry out, or send to http, s3 or sftp.",
            )
            for _ in properties.section(SecondarySection).payload
        ]
        return [
            *place_problems(properties),
            *payload_problems,
            *file_problems(properties, lists=lists(properties.section(SourceSection).uri)),
        ]

    @classmethod
    def session(cls, job: Job, file: UnitFile | None) -> FilesSession:
        """Return a session; it opens nothing before the first request."""
        from connectors.hdfs.session import FileSettings, FilesSession

        return FilesSession(FileSettings.of(job), file)
