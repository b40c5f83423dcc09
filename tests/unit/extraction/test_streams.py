"""A stream that is all told by ``read`` serves whoever takes a binary file."""

import io

from dil.extraction.streams import ReadStream


class Few(ReadStream):
    """Gives at most two bytes at a time, as a socket may."""

    def __init__(self, data: bytes) -> None:
        self.source = io.BytesIO(data)

    def read(self, size: int = -1, /) -> bytes:
        return self.source.read(size if size < 0 else min(size, 2))


def test_a_short_read_is_no_end() -> None:
    assert io.BufferedReader(Few(b"abcdefg"), 4).read() == b"abcdefg"
    assert io.BufferedReader(Few(b"ab\ncde\n"), 4).readlines() == [b"ab\n", b"cde\n"]


def test_a_buffer_of_any_item_size_is_filled_by_bytes() -> None:
    buffer = memoryview(bytearray(8)).cast("I")
    stream = Few(b"abcdefg")
    assert [stream.readinto(buffer) for _ in range(5)] == [2, 2, 2, 1, 0]


def test_what_is_left_is_read_at_once() -> None:
    stream = Few(b"abcdefg")
    stream.read(2)
    assert stream.readable()
    assert stream.readall() == b"cdefg"
