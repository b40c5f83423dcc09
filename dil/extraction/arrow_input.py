"""Turns bytes and streams into files for Arrow's readers that work in threads of their own.

Such a thread may hold its buffers a moment longer than our code uses the reader. If the stream is
an object of Python and the interpreter is already shutting down, Python ends the thread and thereby
the process: "terminate called without an active exception", exit code 134, after all work was done.
So this module gives such threads no Python objects. Source: github.com/apache/arrow/issues/34314,
read 2026-11-24.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import BinaryIO

import pyarrow as pa


def arrow_file(*parts: bytes) -> pa.NativeFile:
    """Return a file of the joined parts, copied into memory of Arrow."""
    memory = pa.allocate_buffer(sum(map(len, parts)))
    with memoryview(memory).cast("B") as view:
        end = 0
        for part in parts:
            begin, end = end, end + len(part)
            view[begin:end] = part
    return pa.BufferReader(memory)


@contextmanager
def arrow_stream(opened: Callable[[], AbstractContextManager[BinaryIO]]) -> Iterator[pa.NativeFile]:
    """Yield an opened stream as a file of Arrow; close it even if Arrow still holds the file."""
    with opened() as stream, pa.PythonFile(stream, mode="r") as file:
        yield file
