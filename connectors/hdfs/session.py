"""One attempt's files: listed first, then read one after the other (behaviour.md B13.4)."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from connectors.files.body import FileBody
from connectors.files.names import media_type
from connectors.files.once import UnitFile, file_unit
from connectors.hdfs.decompression import decompressed, plain_name
from connectors.hdfs.failures import told
from connectors.hdfs.opening import open_store
from connectors.hdfs.place import BASE, Place, place_of
from connectors.hdfs.store import FileStatus, FileStore, files_below
from connectors.hdfs.watched_file import WatchedFile
from connectors.listing import listing_response
from dil.errors import SourceContractError, TransientSourceError
from dil.model.job import Job
from dil.model.json import JsonObject, JsonValue
from dil.spi.connector import ByteSession, RequestValues, Response
from dil.text.java_regex import compile_java

_LOG = logging.getLogger(__name__)
_PATTERN = "ms.source.files.pattern"
_DECOMPRESS = "ms.source.files.decompress"
_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The connector's view of a job.

    ``keeps`` tells whether a path is wanted. Files that were written to in the last ``settle_ms``
    are not whole yet. ``unpacks`` is whether names tell what is packed. ``polls`` tells that the
    job waits for a condition: what was read to its end is listed and read again.
    """

    job: Job
    base: str = ""
    user: str = field(default="", repr=False)
    settle_ms: int = 0
    unpacks: bool = True
    keeps: Callable[[str], object] = bool
    polls: bool = False

    @classmethod
    def of(cls, job: Job) -> FileSettings:
        """Read the properties of file sources from a parsed job."""
        properties, user = job.properties, job.source.username
        session, pattern = job.extraction.session, properties.text(_PATTERN)
        return cls(
            job,
            base=properties.text(BASE),
            user=user.reveal() if user else "",
            settle_ms=properties.milliseconds("ms.source.files.settle"),
            unpacks=_unpacks(job),
            # A name may have a line break, which a dot does not match; no job means that.
            keeps=bool if pattern == ".*" else compile_java(pattern).fullmatch,
            polls=session is not None and session.condition is not None,
        )


class FilesSession(ByteSession):
    """Answers the first request with a list or with the first file, later ones with the next.

    With a ``file`` that is the only one that is read.
    """

    def __init__(
        self,
        settings: FileSettings,
        file: UnitFile | None = None,
        *,
        opened: Callable[[Place, str], FileStore] = open_store,
        now_ns: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._only = file
        self._opened = opened
        self._now_ns = now_ns
        self._sleep = sleep
        self._place: Place | None = None
        self._store: FileStore | None = None
        self._left: deque[FileStatus] = deque()
        self._shown = ""
        self._was_read = False
        self.seconds_waited = 0.0

    def close(self) -> None:
        """Close what the store holds open."""
        if self._store is not None:
            self._store.close()

    def fetch(self, values: RequestValues) -> Response:
        """Return the list, or the next file; no body where there is none.

        Raises:
            SourceError: the path is missing.
            TransientSourceError: a file or folder vanished, the system cannot be reached.
            AuthenticationError: permission denied.
            SourceContractError: an earlier attempt had read a part of the files.
        """
        place, is_due = self._place, self._settings.polls
        if place is None:
            place, is_due = self._begin(values), True
        if self._only is not None:
            return self._one(self._only)
        if is_due and place.pattern is not None:
            return self._listing(place, place.pattern.fullmatch)
        if is_due and not self._left and place.pattern is None:
            self._left.extend(self._found(place, self._settings.keeps, _refuse))
        if not self._left:
            return Response(None, location=self._shown)
        return self._file(self._left.popleft())

    def units(self) -> Iterator[JsonObject]:
        """Yield a unit for each file that is wanted and has settled, in the order of their paths.

        Raises:
            SourceError: as ``fetch``.
        """
        place = self._open({})
        for each in self._found(place, self._settings.keeps, _leave):
            shown = self._known_store.shown(each.path)
            yield file_unit(shown, _version(each), self._settings.job.properties)

    def _one(self, file: UnitFile) -> Response:
        """Return the file of the work unit, if it is still the one that was listed."""
        if self._was_read:
            return Response(None, location=self._shown)
        self._was_read = True
        store = self._known_store
        with told(file.path):
            status = store.status(file.path.removeprefix(store.prefix))
        file.check(_version(status))
        return self._file(status)

    def _begin(self, values: RequestValues) -> Place:
        """Open the place of the work unit, once."""
        if values.page:
            raise SourceContractError(
                "reading cannot go on in the middle of a folder, which may have changed",
                "Each attempt reads all files from the first.",
            )
        return self._open(values.variables)

    def _open(self, variables: Mapping[str, JsonValue]) -> Place:
        job = self._settings.job
        folder = Path(job.path).resolve().parent
        self._place = place_of(job.source.uri, variables, folder, self._settings.base)
        self._store = self._opened(self._place, self._settings.user)
        self._shown = self._store.shown(self._place.path)
        return self._place

    def _listing(self, place: Place, matches: Callable[[str], object]) -> Response:
        store, keeps = self._known_store, self._settings.keeps
        found = self._found(place, lambda path: matches(path) and keeps(path), _leave)
        names = (store.shown(each.path) for each in found)
        return listing_response(names, self._settings.job, self._shown)

    def _found(
        self, place: Place, keeps: Callable[[str], object], tell: Callable[[str, int], None]
    ) -> Iterator[FileStatus]:
        """Yield the files that are wanted and have settled; tell how many have not."""
        newest = self._now_ns() - self._settings.settle_ms * _NS_PER_MS
        young = 0
        for each in files_below(self._known_store, place.path):
            if not keeps(each.path):
                continue
            if self._settings.settle_ms and each.modified_ns > newest:
                young += 1
                continue
            yield each
        if young:
            tell(self._shown, young)

    def _file(self, status: FileStatus) -> Response:
        store, unpacks = self._known_store, self._settings.unpacks
        file = WatchedFile(store, status)
        body = cast("BinaryIO", FileBody(file, self._wait, file.open_at(0)))
        name = plain_name(status.name) if unpacks else status.name
        if unpacks:
            body = decompressed(body, status.name, file.shown)
        is_plain = name == status.name
        return Response(
            body,
            headers={"Content-Length": str(status.size)} if is_plain else {},
            content_type=media_type(name),
            location=file.shown,
            uri=file.shown,
            has_more=bool(self._left),
        )

    def _wait(self, seconds: float) -> None:
        self._sleep(seconds)
        self.seconds_waited += seconds

    @property
    def _known_store(self) -> FileStore:
        if self._store is None:
            raise RuntimeError("no place was opened")
        return self._store


def _version(status: FileStatus) -> str:
    return f"{status.size}-{status.modified_ns}"


def _unpacks(job: Job) -> bool:
    """Tell whether packed files are unpacked; a dump is a copy, unless the job asks for more."""
    is_copy = bool(job.writing.file_name)
    if is_copy and _DECOMPRESS not in job.properties.explicit:
        return False
    return job.properties.boolean(_DECOMPRESS)


def _leave(shown: str, young: int) -> None:
    """Tell that a list lacks files; a later list has them."""
    _LOG.warning("%s: files left for later by ms.source.files.settle: %d", shown, young)


def _refuse(shown: str, young: int) -> None:
    """Refuse to read a folder without some of its files.

    The work unit would count as read, and nobody would come back for them.
    """
    raise TransientSourceError(
        f"{shown}: files that were written to just now (ms.source.files.settle): {young}",
        "Run again when they have settled. A folder that files come to all the time is better"
        " listed by one job and read, a work unit for each file, by another.",
    )
