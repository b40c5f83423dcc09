"""Refuses packed bodies where text is expected; no text begins with their first bytes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import BinaryIO, cast

from dil.errors import SourceContractError
from dil.extraction.streams import ReadStream, read_up_to
from dil.spi.connector import Response

LONGEST = 10
_BEGINNINGS = (
    (re.compile(rb"\x1f\x8b\x08"), "gzip", "gunzip"),
    (re.compile(rb"PK(?:\x03\x04|\x05\x06)"), "a zip archive", "zip"),
    (re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), "zstd", "zstd"),
    (re.compile(rb"\xfd7zXZ\x00"), "xz", "xz"),
    (re.compile(rb"BZh[1-9]1AY&SY"), "bzip2", "bzip2"),
)


def refuse_packed(begin: bytes, place: str) -> None:
    """Refuse a body by its first ``LONGEST`` bytes; ``place`` begins the message.

    Raises:
        SourceContractError: the body begins like a packed file.
    """
    for beginning, what, preprocessor in _BEGINNINGS:
        if beginning.match(begin):
            raise SourceContractError(
                f"{place}the body is {what}, not text",
                f"Write ms.extract.preprocessors={preprocessor} to unpack it; if the job has other"
                f" preprocessors, add {preprocessor} at the right place.",
            )


def as_text(response: Response) -> Response:
    """Check that a body is not packed, and return the response with its body unread.

    Raises:
        SourceContractError: the body begins like a packed file; the body was closed.
    """
    body = response.body
    if body is None:
        return response
    begin = read_up_to(body, LONGEST)
    try:
        refuse_packed(begin, f"{response.location}: " if response.location else "")
    except SourceContractError:
        body.close()
        raise
    return replace(response, body=stream_of(begin, body))


def stream_of(begin: bytes, rest: BinaryIO) -> BinaryIO:
    """Return one stream of bytes that were read already and the rest of their stream."""
    return cast("BinaryIO", _Joined(begin, rest))


class _Joined(ReadStream):
    """Some bytes, and the stream with the bytes behind them; closing this closes that stream."""

    def __init__(self, begin: bytes, rest: BinaryIO) -> None:
        self._begin = begin
        self._rest = rest

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end; -1 means all the rest."""
        if not self._begin:
            return self._rest.read(size)
        end = len(self._begin) if size < 0 else size
        data, self._begin = self._begin[:end], self._begin[end:]
        # Readers treat each result as a piece of its own, so the read is completed.
        left = size if size < 0 else size - len(data)
        return data + self._rest.read(left) if left else data

    def close(self) -> None:
        """Close the stream behind."""
        super().close()
        self._rest.close()
