"""Reading ahead on an SFTP server: every byte, and few bytes under way at any time."""

from __future__ import annotations

from typing import Any

import pytest
from paramiko.message import Message
from paramiko.sftp import CMD_DATA, int64

from connectors.sftp import remote_file
from connectors.sftp.remote_file import _ReadAhead

CONTENT = bytes(range(251)) * 400


class Client:
    """Answers with at most ``most`` bytes, oldest request first; ``largest`` were under way."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.lengths: list[int] = []
        self.largest = 0
        self._waiting: list[tuple[Any, int, int, int]] = []

    def _async_request(
        self, reader: Any, _kind: int, _handle: Any, position: int64, length: int
    ) -> int:
        self.lengths.append(length)
        self._waiting.append((reader, len(self.lengths), int(position), length))
        self.largest = max(self.largest, sum(each[-1] for each in self._waiting))
        return len(self.lengths)

    def _read_response(self) -> None:
        reader, number, position, length = self._waiting.pop(0)
        answer = Message()
        answer.add_string(CONTENT[position : position + min(length, self.most)])
        answer.rewind()
        reader._async_response(CMD_DATA, answer, number)


def read(client: Client) -> bytes:
    ahead = _ReadAhead(client, None, 0, len(CONTENT))
    return b"".join(iter(lambda: ahead.read(1 << 20), b""))


def test_few_bytes_are_under_way_at_any_time(monkeypatch) -> None:
    monkeypatch.setattr(remote_file, "_BLOCK", 1000)
    monkeypatch.setattr(remote_file, "_UNDER_WAY", 8000)
    client = Client(most=1 << 20)
    assert read(client) == CONTENT
    assert client.largest == 8000


def test_a_server_with_a_smaller_limit_is_asked_for_no_more_than_that(monkeypatch) -> None:
    monkeypatch.setattr(remote_file, "_BLOCK", 8000)
    monkeypatch.setattr(remote_file, "_UNDER_WAY", 24_000)
    client = Client(most=5000)
    assert read(client) == CONTENT
    assert max(client.lengths[6:]) == 5000


def test_an_answer_without_bytes_is_no_end_of_a_file_that_has_more() -> None:
    with pytest.raises(EOFError):
        read(Client(most=0))
