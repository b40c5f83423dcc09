"""Turns bytes and streams into files for Arrow's readers that work in threads of their own.

Such a thread may hold its buffers a moment longer than our code uses the reader. If the stream is
an object of Python and the interpreter is already shutting down, Python ends the thread and thereby
the process: "terminate called without an active exception", exit code 134, after all work was done.
So this module gives such threads no Python objects. Source: github.com/apache/arrow/issues/34314,
read 2026-11-24.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import chain
from typing import BinaryIO

import pyarrow as pa

from dil.extraction.streams import read_up_to, temporary_file_errors

_CHUNK = 1024 * 1024
_IN_MEMORY = 16 * _CHUNK


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


def seekable_body(body: BinaryIO) -> tuple[pa.NativeFile, int]:
    """Read a body to its end and close it; return a file of its bytes, and their number.

    Only reading a body to its end shows whether the body was cut off. A long body is kept in the
    folder of temporary files, which TMPDIR names, until the file is closed.

    Raises:
        WriteError: the folder of temporary files is full.
    """
    with closing(body):
        begin = read_up_to(body, _IN_MEMORY)
        more = body.read(_CHUNK) if len(begin) == _IN_MEMORY else b""
        if not more:
            return arrow_file(begin), len(begin)
        with temporary_file_errors("a file"):
            file = tempfile.NamedTemporaryFile(buffering=0)  # noqa: SIM115 - closed below
        with closing(file):
            size = 0
            for chunk in chain((begin, more), iter(lambda: body.read(_CHUNK), b"")):
                with temporary_file_errors("a file"):
                    file.write(chunk)
                size += len(chunk)
            with temporary_file_errors("a file"):
                # Arrow opens the file by name and reads it without Python objects; then the name is
                # removed.
                return pa.OSFile(file.name), size
