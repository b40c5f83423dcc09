"""Lists the files of one attempt, then reads them one after the other (docs/files.md)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import BinaryIO, cast

from connectors.files.body import FileBody
from connectors.files.connector import FileSession, file_view
from connectors.files.listing import listing_response
from connectors.files.names import matching, media_type, require_all_stable, stable_files
from connectors.files.once import UnitFile, file_unit
from connectors.hdfs.decompression import decompressed, plain_name
from connectors.hdfs.opening import open_store
from connectors.hdfs.place import HdfsSourcePath, base_of, place_of
from connectors.hdfs.section import HdfsSection
from connectors.hdfs.store import (
    FileStatus,
    FileStore,
    WatchedFile,
    each_once,
    files_below,
    translated_errors,
)
from dil.errors import SourceContractError
from dil.model.job import Job
from dil.model.json import JsonObject, JsonValue
from dil.sections.source import SourceSection
from dil.spi.connector import RequestValues, Response
from dil.spi.request_view import RequestView

_DECOMPRESS = "ms.source.files.decompress"


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The connector's view of a job.

    If ``unpacks`` is true, files whose names show a compression are unpacked. If ``polls`` is true,
    the job waits for a condition: after the last file, the files are listed and read again.
    """

    job: Job
    base: str = ""
    user: str = field(default="", repr=False)
    unpacks: bool = True
    polls: bool = False

    @classmethod
    def of(cls, job: Job) -> FileSettings:
        """Return the settings of a parsed job."""
        properties, user = job.properties, job.source.username
        session = job.extraction.session
        # A dump copies files unchanged unless the job says otherwise.
        may_unpack = not job.writing.file_name or _DECOMPRESS in properties.explicit
        return cls(
            job,
            base=base_of(properties),
            user=user.reveal() if user else "",
            unpacks=may_unpack and properties.section(HdfsSection).decompresses,
            polls=session is not None and session.condition is not None,
        )


class FilesSession(FileSession):
    """Answers the first request with a list or the first file, later requests with the next file.

    If ``file`` is given, only this file is read.
    """

    def __init__(
        self,
        settings: FileSettings,
        file: UnitFile | None = None,
        *,
        opened: Callable[[HdfsSourcePath, str], FileStore] = open_store,
        sleep: Callable[[float], None] = time.sleep,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._settings = settings
        self._only = file
        self._opened = opened
        self._sleep = sleep
        self._now_ms = now_ms
        self._source_path: HdfsSourcePath | None = None
        self._store: FileStore | None = None
        self._left: deque[FileStatus] = deque()
        self._shown = ""
        self._was_read = False
        self.seconds_waited = 0.0

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()

    def describe(self, values: RequestValues) -> RequestView:
        """Return a view of the listing, or of the one file of the work unit."""
        source_path = self._place_of(values.variables)
        shown = f"{source_path.prefix}{source_path.path}"
        lists = source_path.pattern is not None
        return file_view(shown, self._only, self._settings.job.properties, lists=lists)

    def fetch(self, values: RequestValues) -> Response:
        """Return the list, or the next file; the response has no body if no file is left.

        Raises:
            SourceError: the path is missing.
            TransientSourceError: a file or folder vanished, or the file system cannot be reached.
            AuthenticationError: permission denied.
            SourceContractError: an earlier attempt has already read a part of the files.
        """
        source_path, is_due = self._source_path, self._settings.polls
        if source_path is None:
            if values.page:
                raise SourceContractError(
                    "reading cannot go on in the middle of a folder, which may have changed",
                    "You need not do anything: the next attempt reads all files from the first"
                    " one.",
                )
            source_path, is_due = self._open(values.variables), True
        if self._only is not None:
            return self._one(self._only)
        if is_due and source_path.pattern is not None:
            job, store = self._settings.job, self._known_store
            found = stable_files(
                self._found(source_path), job.properties, self._shown, self._now_ms()
            )
            return listing_response((store.shown(each.path) for each in found), job, self._shown)
        if is_due and not self._left and source_path.pattern is None:
            properties, now_ms = self._settings.job.properties, self._now_ms()
            self._left.extend(
                require_all_stable(self._found(source_path), properties, self._shown, now_ms)
            )
        if not self._left:
            return Response(None, location=self._shown)
        return self._file(self._left.popleft())

    def units(self) -> Iterator[JsonObject]:
        """Yield a unit for each matching file that has settled, in the order of paths.

        Raises:
            SourceError: see ``fetch``.
        """
        found, properties = self._found(self._open({})), self._settings.job.properties
        for each in stable_files(found, properties, self._shown, self._now_ms()):
            yield file_unit(self._known_store.shown(each.path), each.version, properties)

    def _one(self, file: UnitFile) -> Response:
        """Return the file of the work unit, if it has not changed since it was listed."""
        if self._was_read:
            return Response(None, location=self._shown)
        self._was_read = True
        store = self._known_store
        with translated_errors(file.path):
            status = store.status(file.path.removeprefix(store.prefix))
        file.check(status.version)
        return self._file(status)

    def _place_of(self, variables: Mapping[str, JsonValue]) -> HdfsSourcePath:
        job = self._settings.job
        folder = _folder_of(job.path)
        hosts = job.properties.section(SourceSection).hosts
        return place_of(job.source.uri, variables, folder, self._settings.base, hosts)

    def _open(self, variables: Mapping[str, JsonValue]) -> HdfsSourcePath:
        self._source_path = self._place_of(variables)
        self._store = self._opened(self._source_path, self._settings.user)
        self._shown = self._store.shown(self._source_path.path)
        return self._source_path

    def _found(self, source_path: HdfsSourcePath) -> Iterator[FileStatus]:
        store = self._known_store
        found = matching(files_below(store, source_path.path), self._settings.job.properties)
        return each_once(store, (each for each in found if source_path.matches(each.path)))

    def _file(self, status: FileStatus) -> Response:
        store, unpacks = self._known_store, self._settings.unpacks
        file = WatchedFile(store, status)
        wait = partial(self.wait_to_retry, sleep=self._sleep)
        body = cast("BinaryIO", FileBody(file, wait, file.open_at(0)))
        name = plain_name(status.name) if unpacks else status.name
        if unpacks:
            limit = self._settings.job.extraction.expansion
            body = decompressed(body, status.name, file.shown, limit)
        is_plain = name == status.name
        return Response(
            body,
            headers={"Content-Length": str(status.size)} if is_plain else {},
            content_type=media_type(name),
            location=file.shown,
            uri=file.shown,
            has_more=bool(self._left),
        )

    @property
    def _known_store(self) -> FileStore:
        if self._store is None:
            raise RuntimeError("the session has opened no path yet")
        return self._store


@lru_cache(maxsize=4)  # All attempts of a task have the same job.
def _folder_of(job_path: str) -> Path:
    return Path(job_path).resolve().parent
