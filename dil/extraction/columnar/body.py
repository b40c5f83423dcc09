"""Keeps the bytes of a columnar file in memory or a temporary file, because its reader seeks."""

from __future__ import annotations

import tempfile
from contextlib import closing
from itertools import chain
from typing import BinaryIO

import pyarrow as pa

from dil.extraction.arrow_input import arrow_file
from dil.extraction.streams import read_up_to, temporary_file_errors

_CHUNK = 1024 * 1024
_IN_MEMORY = 16 * _CHUNK


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
