"""A file from afar as one stream: every byte once, in order, or an error."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.files.body import FileBody, RemoteFile, changed
from dil.errors import SourceContractError, SourceError, TransientSourceError


class FileStream:
    """Gives at most ``limit`` bytes, then breaks off or just ends."""

    def __init__(self, data: bytes, limit: int, *, ends: bool) -> None:
        self._stream, self._left, self._ends = io.BytesIO(data), limit, ends
        self.is_closed = False

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(min(size, max(self._left, 0)))
        self._left -= len(data)
        if not data and not self._ends:
            raise TransientSourceError("cut")
        return data

    def close(self) -> None:
        self.is_closed = True


class Remote(RemoteFile):
    """Bytes that come in parts of these lengths; behind the last one all comes."""

    def __init__(self, data: bytes, limits=(), *, ends: bool = False) -> None:
        self.data, self.size, self.shown = data, len(data), "far://file"
        self.limits, self.ends = list(limits), ends
        self.parts: list[FileStream] = []
        self.seen, self.checks = b"", 0
        self.failure: SourceError | None = None

    def open_at(self, position: int) -> FileStream:
        limit = self.limits.pop(0) if self.limits else self.size
        self.parts.append(FileStream(self.data[position:], limit, ends=self.ends))
        return self.parts[-1]

    def taken(self, data: bytes) -> None:
        self.seen += data

    def check_end(self) -> None:
        self.checks += 1
        if self.failure is not None:
            raise self.failure


def body(remote: Remote, waits: list | None = None) -> FileBody:
    return FileBody(remote, (waits if waits is not None else []).append, remote.open_at(0))


@given(
    data=st.binary(max_size=200),
    limits=st.lists(st.integers(0, 60), max_size=4),
    size=st.sampled_from([1, 7, 1000, -1]),
    ends=st.booleans(),
)
def test_wherever_it_is_cut_every_byte_comes_once(data, limits, size, ends):
    remote = Remote(data, limits, ends=ends)
    stream = body(remote)
    found = b""
    while piece := stream.read(size):
        found += piece
    assert found == remote.seen == data
    assert remote.checks == 1
    stream.close()
    assert all(part.is_closed for part in remote.parts)


def test_tries_without_progress_are_bounded_and_wait_longer_and_longer():
    waits: list[float] = []
    stream = body(Remote(b"x" * 100, [10, 0, 0, 0, 0, 0, 0]), waits)
    assert stream.read(10) == b"x" * 10
    with pytest.raises(TransientSourceError, match="given up after 5 tries at byte 10 of 100"):
        stream.read(10)
    assert waits == [1.0, 2.0, 4.0]


def test_a_transfer_that_goes_on_is_never_given_up():
    size = 12 << 20
    remote = Remote(bytes(size), [1 << 20] * 11)
    assert len(body(remote).read()) == size
    assert len(remote.parts) == 12


def test_the_last_bytes_are_not_given_before_the_whole_was_checked():
    remote = Remote(bytes(1 << 16) + b"abcdef")
    remote.failure = changed("far://file", "it was written again")
    stream = body(remote)
    assert stream.read(1 << 20) == bytes(1 << 16)
    with pytest.raises(SourceContractError, match="the file changed while it was read"):
        stream.read(1)


def test_an_empty_file_is_checked_as_well():
    remote = Remote(b"")
    assert body(remote).read() == b""
    assert remote.checks == 1
