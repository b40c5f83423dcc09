"""Unpacks files whose names show a compression (docs/files.md)."""

from __future__ import annotations

from typing import BinaryIO, cast

from connectors.hdfs.snappy import unsnapped
from dil.errors import SourceContractError
from dil.extraction.preprocessing.compression import Bzip2, Deflate, GunzipProcessor, Xz, Zstd
from dil.extraction.preprocessing.decoded import PieceStream
from dil.extraction.preprocessing.limits import CountedStream, LimitedStream, ReceivedBytes
from dil.extraction.streams import ReadStream
from dil.model.job import ExpansionSpec
from dil.spi.preprocessor import Preprocessor, PreprocessorContext

_FORMATS: dict[str, type[Preprocessor]] = {
    ".gz": GunzipProcessor,
    ".bz2": Bzip2,
    ".deflate": Deflate,
    ".xz": Xz,
    ".zst": Zstd,
}
_SNAPPY = ".snappy"


def plain_name(name: str) -> str:
    """Return a file name without the ending that shows a compression.

    >>> plain_name("a.csv.GZ"), plain_name("a.snappy.parquet")
    ('a.csv', 'a.snappy.parquet')
    """
    stem, point, ending = name.rpartition(".")
    return stem if f"{point}{ending}".lower() in {*_FORMATS, _SNAPPY} else name


def decompressed(stream: BinaryIO, name: str, shown: str, limit: ExpansionSpec) -> BinaryIO:
    """Return a stream of a file's unpacked bytes; closing it closes ``stream``.

    Reading raises an error if the data is incomplete or unpacks to more than ``limit`` allows.
    """
    ending = name[len(plain_name(name)) :].lower()
    if not ending:
        return stream
    received = ReceivedBytes()
    stream = cast("BinaryIO", CountedStream(stream, received))
    if ending == _SNAPPY:
        plain = cast("BinaryIO", PieceStream(unsnapped(stream), stream))
    else:
        plain = _FORMATS[ending](PreprocessorContext(ending[1:])).process(stream)
    limited = cast("BinaryIO", LimitedStream(plain, f"unpacking {ending}", received, limit))
    return cast("BinaryIO", _Placed(limited, shown))


class _Placed(ReadStream):
    """A stream whose errors name the file."""

    def __init__(self, stream: BinaryIO, shown: str) -> None:
        self._stream = stream
        self._shown = shown

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end; -1 means all the rest."""
        try:
            return self._stream.read(size)
        except SourceContractError as error:
            if error.message.startswith(self._shown):
                raise
            raise SourceContractError(f"{self._shown}: {error.message}", error.fix) from error

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        super().close()
