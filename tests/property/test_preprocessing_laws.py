"""Laws of preprocessors: they undo their tools, however bytes come, and never end quietly early."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from typing import BinaryIO, cast

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dil.errors import SourceContractError
from dil.extraction.preprocessing.archives import Tar, Zip
from dil.extraction.preprocessing.compression import Bzip2, Deflate, GunzipProcessor, Xz, Zstd
from dil.spi.preprocessor import Preprocessor, PreprocessorContext
from tests.preprocessing import tar_of, through, zip_of


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


TOOLS: dict[type[Preprocessor], Callable[[bytes], bytes]] = {
    GunzipProcessor: gzip.compress,
    Bzip2: bz2.compress,
    Xz: lzma.compress,
    Zstd: _zstd,
    Deflate: zlib.compress,
    Zip: lambda data: zip_of({"a": data}),
    Tar: lambda data: tar_of({"a": data}),
}
REPEATING = [GunzipProcessor, Bzip2, Xz, Zstd]
# Short, and long enough for several pieces; some of it repeats.
CONTENT = st.one_of(
    st.binary(max_size=200),
    st.builds(lambda seed, times: seed * times, st.binary(min_size=1, max_size=50),
              st.integers(1, 20_000)),
)  # fmt: skip
KINDS = st.sampled_from(list(TOOLS))


@given(kind=KINDS, data=CONTENT, size=st.integers(1, 5000), read=st.integers(1, 400_000))
def test_a_preprocessor_undoes_its_tool_however_the_bytes_come_and_are_read(
    kind: type[Preprocessor], data: bytes, size: int, read: int
) -> None:
    packed = TOOLS[kind](data)
    size = max(size, len(packed) // 500)
    read = max(read, len(data) // 500)
    assert through(kind, packed, size=size, read=read) == data


@given(kinds=st.lists(KINDS, min_size=1, max_size=4), data=CONTENT)
def test_a_chain_undoes_what_was_packed_again_and_again(
    kinds: list[type[Preprocessor]], data: bytes
) -> None:
    packed = data
    for kind in reversed(kinds):
        packed = TOOLS[kind](packed)
    stream = cast("BinaryIO", io.BytesIO(packed))
    for kind in kinds:
        stream = kind(PreprocessorContext(kind.__name__)).process(stream)
    assert stream.read() == data
    stream.close()


@given(kind=KINDS, data=CONTENT, part=st.floats(0, 1, exclude_max=True))
def test_a_stream_that_is_cut_anywhere_is_an_error_never_a_quiet_end(
    kind: type[Preprocessor], data: bytes, part: float
) -> None:
    packed = TOOLS[kind](data)
    if kind is Tar:  # zeros fill an archive up, and losing some of those loses nothing
        packed = packed.rstrip(b"\0")
    with pytest.raises(SourceContractError):
        through(kind, packed[: int(len(packed) * part)])


@given(kind=KINDS, data=CONTENT, more=st.binary(min_size=1, max_size=40))
def test_what_follows_the_end_is_an_error(
    kind: type[Preprocessor], data: bytes, more: bytes
) -> None:
    # Zeros fill up tar archives and xz files; the begin of a member is one that was cut.
    with pytest.raises(SourceContractError):
        through(kind, TOOLS[kind](data) + b"!" + more)


@given(kind=st.sampled_from(REPEATING), parts=st.lists(CONTENT, min_size=1, max_size=4))
def test_members_that_follow_each_other_are_one_stream(
    kind: type[Preprocessor], parts: list[bytes]
) -> None:
    assert through(kind, b"".join(map(TOOLS[kind], parts)), size=777) == b"".join(parts)


@given(data=CONTENT)
def test_deflate_without_a_frame_is_read_as_well(data: bytes) -> None:
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    assert through(Deflate, raw.compress(data) + raw.flush(), size=3000) == data
