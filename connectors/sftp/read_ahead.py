"""Reads a file with many open requests, so that the network's delay does not matter.

The client library's own ``prefetch`` starts threads that outlive a broken connection, and keeps a
list of all requests of the file. Its requests of 32 KiB take six times as much processor time as
the largest requests that OpenSSH answers. So this module sends the messages itself.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from paramiko.message import Message
from paramiko.sftp import CMD_DATA, CMD_READ, CMD_STATUS, SFTPError, int64

# The most bytes that OpenSSH sends in one answer.
_BLOCK = 255 * 1024
# A shorter answer than this means the end of the file, not a server's limit.
_LEAST = 4096
# At most this many bytes are requested and have not arrived yet.
_UNDER_WAY = 8 * 1024 * 1024


class ReadAhead:
    """The bytes of an open file from a position to an end, in order."""

    def __init__(self, client: Any, handle: Any, position: int, end: int) -> None:
        self._client = client
        self._handle = handle
        self._next = position
        self._end = end
        self._length = _BLOCK
        self._asked: deque[tuple[int, int, int]] = deque()
        self._answers: dict[int, bytes | Exception] = {}
        self._block = memoryview(b"")

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes, empty at the end.

        Raises:
            EOFError: the file ends before the expected end.
        """
        if not self._block:
            while self._next < self._end and len(self._asked) * self._length < _UNDER_WAY:
                length = min(self._length, self._end - self._next)
                self._asked.append(self._request(self._next, length))
                self._next += length
            if not self._asked:
                return b""
            self._block = memoryview(self._first_block())
        taken, self._block = self._block[:size], self._block[size:]
        return bytes(taken)

    def _first_block(self) -> bytes:
        """Return the bytes that answer the oldest request.

        If the server sends fewer bytes than requested, this method requests the rest, and later
        requests are smaller.
        """
        number, position, length = self._asked.popleft()
        while number not in self._answers:
            self._client._read_response()  # noqa: SLF001 - there is no public one
        answer = self._answers.pop(number)
        if isinstance(answer, Exception):
            raise answer
        if not answer:
            raise EOFError
        if len(answer) > length:
            raise SFTPError(f"{len(answer)} bytes to a read of {length}")
        if len(answer) < length:
            self._length = min(self._length, max(len(answer), _LEAST))
            places = range(position + len(answer), position + length, self._length)
            rest = [(at, min(self._length, position + length - at)) for at in places]
            self._asked.extendleft(self._request(*each) for each in reversed(rest))
        return answer

    def _request(self, position: int, length: int) -> tuple[int, int, int]:
        number = self._client._async_request(  # noqa: SLF001 - there is no public one
            self, CMD_READ, self._handle, int64(position), length
        )
        return number, position, length

    def _async_response(self, kind: int, message: Message, number: int) -> None:
        """Keep an answer; the client library calls this while any caller waits for an answer."""
        if kind == CMD_DATA:
            self._answers[number] = message.get_string()
        elif kind == CMD_STATUS:
            try:
                self._client._convert_status(message)  # noqa: SLF001 - there is no public one
            except (EOFError, OSError) as error:
                self._answers[number] = error
        else:
            self._answers[number] = SFTPError(f"an answer of kind {kind} to a read")
