"""Bytes and streams for readers of Arrow that work in threads of their own.

Such a thread may keep what it has read a moment longer than the reader is used. If the stream
belongs to Python and the interpreter has begun to end, Python ends the thread, and with it the
process: "terminate called without an active exception", exit code 134 after all work was done. So
such a thread gets no Python object here. Source: github.com/apache/arrow/issues/34314, read
2026-11-24.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import BinaryIO

import pyarrow as pa


def arrow_file(*parts: bytes) -> pa.NativeFile:
    """Return a file of some bytes, one part behind the other, copied into memory of Arrow."""
    memory = pa.allocate_buffer(sum(map(len, parts)))
    with memoryview(memory).cast("B") as view:
        end = 0
        for part in parts:
            begin, end = end, end + len(part)
            view[begin:end] = part
    return pa.BufferReader(memory)


@contextmanager
def arrow_stream(opened: Callable[[], AbstractContextManager[BinaryIO]]) -> Iterator[pa.NativeFile]:
    """Open a stream for Arrow, and close it here even if others still hold the file."""
    with opened() as stream, pa.PythonFile(stream, mode="r") as file:
        yield file
