"""What damaged, foreign and oversized data is told as."""

from __future__ import annotations

import gzip
import lzma
import tracemalloc
import zlib
from typing import BinaryIO, cast

import pytest
import zstandard

from dil.errors import SourceContractError
from dil.extraction.preprocessing.compression import Bzip2, Deflate, GunzipProcessor, Xz, Zstd
from dil.spi.preprocessor import Preprocessor, PreprocessorContext
from tests.preprocessing import Dribble, through

pytestmark = pytest.mark.slow

ALL = [GunzipProcessor, Bzip2, Xz, Zstd, Deflate]


@pytest.mark.parametrize("kind", ALL)
def test_an_empty_body_is_no_packed_data(kind: type[Preprocessor]) -> None:
    with pytest.raises(SourceContractError, match="the stream is empty"):
        through(kind, b"")


@pytest.mark.parametrize("kind", [GunzipProcessor, Bzip2, Xz, Zstd])
def test_a_login_page_is_told_as_what_it_is(kind: type[Preprocessor]) -> None:
    with pytest.raises(SourceContractError, match=r"this is no .* begins: .<html>Please log in"):
        through(kind, b"<html>Please log in</html>")


@pytest.mark.parametrize("kind", [GunzipProcessor, Bzip2, Xz, Zstd])
def test_a_body_that_is_shorter_than_a_header_is_called_what_it_is(
    kind: type[Preprocessor],
) -> None:
    with pytest.raises(SourceContractError, match=r"this is no .* begins: .aa,a"):
        through(kind, b"id,a\n")


def test_a_short_text_behind_gzip_is_no_beginning_of_another_member() -> None:
    with pytest.raises(SourceContractError, match="follows the gzip data"):
        through(GunzipProcessor, gzip.compress(b"row") + b"xx")


def test_a_wrong_checksum_is_an_error() -> None:
    packed = bytearray(gzip.compress(b"row\n" * 1000))
    packed[-6] ^= 1
    with pytest.raises(SourceContractError, match=r"gzip data is damaged: .*(?i:incorrect)"):
        through(GunzipProcessor, bytes(packed))


def test_zeros_between_xz_streams_are_filling_only_in_fours() -> None:
    one = lzma.compress(b"a")
    assert through(Xz, one + b"\0" * 8 + one + b"\0" * 4, size=3) == b"aa"
    with pytest.raises(SourceContractError, match="follows the xz data"):
        through(Xz, one + b"\0" * 5)


def test_zstd_that_needs_a_window_of_a_gigabyte_is_refused() -> None:
    settings = zstandard.ZstdCompressionParameters.from_level(3, window_log=30)
    tool = zstandard.ZstdCompressor(compression_params=settings)
    writer = tool.compressobj()  # of unknown size, so that the window is asked for
    packed = writer.compress(b"row\n" * 1000) + writer.flush()
    with pytest.raises(SourceContractError, match="too much memory"):
        through(Zstd, packed)


def test_a_gigabyte_of_zeros_passes_in_little_memory() -> None:
    tool = zlib.compressobj(wbits=31)
    packed = b"".join([*(tool.compress(bytes(1 << 20)) for _ in range(256)), tool.flush()])
    made = GunzipProcessor(PreprocessorContext("gunzip"))
    stream = made.process(cast("BinaryIO", Dribble(packed, 1 << 16)))
    tracemalloc.start()
    size = sum(len(piece) for piece in iter(lambda: stream.read(1 << 20), b""))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    stream.close()
    assert size == 256 << 20
    assert peak < 8 << 20


@pytest.mark.parametrize(
    ("kind", "name", "after"),
    [
        (GunzipProcessor, "a/x.csv.gz", "a/x.csv"),
        (GunzipProcessor, "a.gz/x.csv", "a.gz/x.csv"),
        (GunzipProcessor, "x.TGZ", "x.tar"),
        (GunzipProcessor, "a/.gz", "a/.gz"),
        (Bzip2, "x.bz2", "x"),
        (Xz, "x.json.xz", "x.json"),
        (Zstd, "x.zst", "x"),
        (Deflate, "x.zz", "x"),
    ],
)
def test_the_ending_of_the_format_leaves_the_name(
    kind: type[Preprocessor], name: str, after: str
) -> None:
    assert kind.file_name(name) == after
