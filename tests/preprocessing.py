"""Streams through preprocessors, for tests."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from typing import BinaryIO, cast

from dil.extraction.streams import ReadStream
from dil.model.secret import Secret
from dil.spi.preprocessor import Preprocessor, PreprocessorContext


class Dribble(ReadStream):
    """A source that gives ``size`` bytes at a time at most, as networks do."""

    def __init__(self, data: bytes, size: int) -> None:
        self._rest = io.BytesIO(data)
        self._size = size
        self.most_asked = 0

    def read(self, size: int = -1, /) -> bytes:
        self.most_asked = max(self.most_asked, size)
        return self._rest.read(self._size if size < 0 else min(size, self._size))


def through(
    kind: type[Preprocessor],
    data: bytes,
    /,
    *,
    size: int = 1 << 30,
    read: int = -1,
    **parameters: str | Secret,
) -> bytes:
    """Return what a preprocessor makes of bytes that come and are read in small pieces."""
    made = kind(PreprocessorContext("test", parameters))
    stream = made.process(cast("BinaryIO", Dribble(data, size)))
    try:
        if read < 0:
            return stream.read()
        return b"".join(iter(lambda: stream.read(read), b""))
    finally:
        stream.close()
        made.close()


def tar_of(files: Mapping[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zip_of(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()
