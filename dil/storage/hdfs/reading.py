"""Streams one file of HDFS."""

from __future__ import annotations

import io
from contextlib import suppress

import requests
import urllib3

from dil.errors import WriteError
from dil.storage.hdfs.client import FileState, WebHdfs
from dil.storage.streams import RemoteReader, ResumedAnswers

_TRIES = 4
_BROKEN = (requests.RequestException, urllib3.exceptions.HTTPError, OSError)


class FileReader(RemoteReader):
    """Reads one state of a file.

    Raises:
        FileNotFoundError: the file does not exist.
    """

    def __init__(self, client: WebHdfs, path: str) -> None:
        super().__init__()
        self._answers = ResumedAnswers(
            _BROKEN,
            self._open_body,
            lambda answer, size: answer.raw.read(size, decode_content=False),
        )
        self._client = client
        self._path = path
        # Whether the caller has got bytes or the size. From then on a newer file of the same path
        # must not be read.
        self._is_settled = False
        self._state = self._known_state()

    @property
    def _size(self) -> int:
        return self._state.size

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set and return the position; a seek from the end also settles which file is read."""
        self._is_settled = self._is_settled or whence == io.SEEK_END
        return super().seek(offset, whence)

    def _open_body(self) -> requests.Response:
        """Return an open answer with the data from the position on.

        The file's state is read after the data node has answered. If the state is still the known
        one, the data belongs to the known file. If another file has taken its place, the new file
        is read, but only before the caller got any byte or the size.
        """
        for _ in range(_TRIES):
            body = self._client.opened(self._path, self._position)
            state = self._known_state()
            if state == self._state:
                self._is_settled = True
                return body
            with suppress(*_BROKEN):
                body.close()
            if self._is_settled:
                break
            self._state = state
        raise self._changed()

    def _read(self, size: int) -> bytes:
        data = self._answers.read(size)
        if not data:
            raise WriteError(
                f"{self._path}: the data breaks off at byte {self._position:,} of {self._size:,}",
                "Check the data nodes, and the network between this machine and them.",
            )
        return data

    def _leave(self) -> None:
        self._answers.close()

    def _known_state(self) -> FileState:
        state = self._client.state(self._path)
        if state is not None and not state.is_folder:
            return state
        if self._is_settled:
            raise self._changed()
        raise FileNotFoundError(self._path)

    def _changed(self) -> WriteError:
        return WriteError(
            f"{self._path}: the file was replaced while it was read",
            "Another program writes there; run again.",
        )
