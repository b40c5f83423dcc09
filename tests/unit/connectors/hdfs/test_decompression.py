"""Files that names tell to be packed."""

import bz2
import gzip
import io
import lzma
import zlib
from contextlib import suppress

import cramjam
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from connectors.hdfs.decompression import decompressed, plain_name
from dil.errors import SourceContractError
from dil.model.job import ExpansionSpec

pytestmark = pytest.mark.slow

TEXT = b"".join(b"line %d of some text\n" % number for number in range(40_000))


def hadoop_snappy(data, block=256 * 1024, chunk=64 * 1024):
    """Pack as Hadoop's BlockCompressorStream does: blocks of chunks, each behind its length."""
    packed = b""
    for begin in range(0, len(data), block):
        part = data[begin : begin + block]
        packed += len(part).to_bytes(4, "big")
        for at in range(0, len(part), chunk):
            piece = bytes(cramjam.snappy.compress_raw(part[at : at + chunk]))
            packed += len(piece).to_bytes(4, "big") + piece
    return packed


def framed_snappy(data):
    return bytes(cramjam.snappy.compress(data))


PACKERS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
    "deflate": zlib.compress,
    "snappy": hadoop_snappy,
}


class Dribble(io.RawIOBase):
    """A stream that gives a few bytes at a time."""

    def __init__(self, data, most):
        self.data, self.most = io.BytesIO(data), most

    def read(self, size=-1):
        return self.data.read(min(size, self.most) if size >= 0 else self.most)


def unpacked(data, ending, most=100_000):
    with decompressed(Dribble(data, most), f"a.csv.{ending}", "/in/a", ExpansionSpec()) as stream:
        return b"".join(iter(lambda: stream.read(10_000), b""))


@pytest.mark.parametrize("ending", sorted(PACKERS))
@pytest.mark.parametrize("most", [7, 1_000_000])
def test_what_each_format_packs_is_unpacked(ending, most):
    assert unpacked(PACKERS[ending](TEXT), ending, most) == TEXT
    assert unpacked(PACKERS[ending](TEXT), ending.upper(), most) == TEXT


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zst", "snappy"])
def test_packed_files_that_were_put_together_are_one(ending):
    pack = PACKERS[ending]
    assert unpacked(pack(b"one ") + pack(b"two"), ending) == b"one two"


@pytest.mark.parametrize("ending", sorted(set(PACKERS) - {"snappy"}))
def test_a_file_that_is_cut_off_anywhere_is_an_error_with_its_name(ending):
    packed = PACKERS[ending](TEXT)
    for end in [*range(12), *range(12, len(packed), 2_003), len(packed) - 1]:
        with pytest.raises(SourceContractError, match="/in/a: "):
            unpacked(packed[:end], ending)


@pytest.mark.parametrize("pack", [hadoop_snappy, framed_snappy])
def test_a_snappy_file_that_is_cut_off_inside_of_a_block_is_an_error(pack):
    packed = pack(TEXT)
    whole = set()
    for end in [*range(1, 40), *range(40, len(packed), 2_003)]:
        with suppress(SourceContractError):
            whole.add(len(unpacked(packed[:end], "snappy")))
    assert whole <= {0, *range(0, len(TEXT), 64 * 1024)}


@given(st.binary(max_size=3_000), st.integers(1, 500), st.integers(1, 90))
def test_any_bytes_in_blocks_of_any_size_come_back_from_hadoops_snappy(data, block, chunk):
    assert unpacked(hadoop_snappy(data, block, min(block, chunk)), "snappy", 11) == data


@given(st.binary(min_size=1, max_size=3_000))
def test_any_bytes_come_back_from_framed_snappy(data):
    assert unpacked(framed_snappy(data), "snappy", 11) == data


def test_damaged_snappy_is_an_error():
    for packed in (hadoop_snappy(TEXT), framed_snappy(TEXT)):
        damaged = bytearray(packed)
        damaged[len(packed) // 2] ^= 0xFF
        try:
            found = unpacked(bytes(damaged), "snappy")
        except SourceContractError:
            continue
        # Hadoop's blocks have no checksum: what can be told is only what does not unpack.
        assert packed[:1] != b"\xff"
        assert len(found) == len(TEXT)
    with pytest.raises(SourceContractError, match="no snappy data"):
        unpacked(b"id,name\n1,Zoe\n", "snappy")


def test_only_the_last_ending_counts():
    assert plain_name("a.snappy.parquet") == "a.snappy.parquet"
    assert plain_name("a.csv.BZ2") == "a.csv"
    assert plain_name("gz") == "gz"
    stream = io.BytesIO(b"x")
    assert decompressed(stream, "a.gz.csv", "/in/a", ExpansionSpec()) is stream


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz"])
def test_a_file_that_unpacks_to_more_than_the_job_allows_is_an_error(ending):
    pack = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[ending]
    limit = ExpansionSpec(ratio=10, floor=1000)
    stream = decompressed(io.BytesIO(pack(bytes(1_000_000))), f"a.{ending}", "/in/a", limit)
    with (
        stream,
        pytest.raises(SourceContractError, match="made more than 10 times") as caught,
    ):
        stream.read()
    assert caught.value.message.startswith(f"/in/a: unpacking .{ending} made")
