"""ORC files that become much more than they are: read in small parts, or refused."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from dil.errors import SourceContractError
from dil.extraction.columnar.orc_extractor import OrcExtractor
from dil.extraction.columnar.orc_sizes import OrcTail
from dil.model.job import ClassRef, ExtractionSpec
from dil.spi.connector import Response

MIB = 1024 * 1024
CODECS = ["uncompressed", "zlib", "snappy", "zstd"]
# The reader of the library ends its process where it gets no memory: the test needs one of its own.
READ = """
import sys
from dil.execution.worker import limited
from dil.extraction.columnar.orc_extractor import OrcExtractor
from dil.model.job import ClassRef, ExtractionSpec
from dil.spi.connector import Response

memory = int(sys.argv[2])
with limited(memory), open(sys.argv[1], "rb") as body:
    spec = ExtractionSpec(ClassRef("", ""), memory_bytes=memory)
    page = OrcExtractor(spec).extract(Response(body))
    print(sum(batch.num_rows for batch in page.batches))
"""


def packed(table: pa.Table, codec: str = "zstd", **options: object) -> bytes:
    sink = io.BytesIO()
    orc.write_table(table, sink, compression=codec, **options)
    return sink.getvalue()


def tail_of(body: bytes) -> OrcTail:
    return OrcTail(pa.BufferReader(body), len(body), 64 * MIB)


def rows_of(body: bytes, memory: int) -> int:
    spec = ExtractionSpec(ClassRef("", ""), memory_bytes=memory)
    page = OrcExtractor(spec).extract(Response(io.BytesIO(body)))
    return sum(batch.num_rows for batch in page.batches)


@pytest.mark.slow
def test_a_small_file_of_many_long_texts_kills_no_worker(tmp_path: Path) -> None:
    path = tmp_path / "bomb.orc"
    texts = pa.table({"text": pa.array(["a" * MIB] * 400)})
    path.write_bytes(packed(texts, "zstd", dictionary_key_size_threshold=0.0))
    assert path.stat().st_size < 4 * MIB

    done = subprocess.run(
        [sys.executable, "-c", READ, str(path), str(256 * MIB)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "400\n"), done.stderr[-500:]


def test_a_row_that_takes_more_than_a_worker_may_is_refused_before_it_is_read() -> None:
    body = packed(pa.table({"data": pa.array([b"a" * (40 * MIB)])}))
    with pytest.raises(SourceContractError, match=r"a row has 41,9.* bytes") as caught:
        rows_of(body, 64 * MIB)
    assert "ms.task.memory.max.bytes" in caught.value.fix
    assert rows_of(body, 1024 * MIB) == 1


def test_a_stripe_that_is_read_as_a_whole_is_refused_where_it_is_too_long() -> None:
    body = packed(pa.table({"data": pa.array([{"a.b": b"a" * MIB}] * 40)}))
    with pytest.raises(SourceContractError, match="a stripe has 41,9"):
        rows_of(body, 64 * MIB)
    assert rows_of(body, 1024 * MIB) == 40


def test_long_texts_in_the_statistics_are_refused_before_the_library_reads_them() -> None:
    body = packed(pa.table({"text": pa.array(["a" * (8 * MIB)])}))
    with pytest.raises(SourceContractError, match="the metadata at the end"):
        rows_of(body, 64 * MIB)


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_says_how_long_its_rows_are(codec: str) -> None:
    table = pa.table(
        {
            "id": range(1000),
            "text": ["a" * 100] * 1000,
            "items": [[0] * 200] * 1000,
            "record": [{"data": b"b" * 300, "text": "c"}] * 1000,
        }
    )
    tail = tail_of(packed(table, codec))
    sizes = {name: tail.parts([name])[0].row_bytes for name in table.column_names}
    assert sizes == {"id": 8, "text": 108, "items": 8 + 1600, "record": 8 + 308 + 9}
    (whole,) = tail.parts(table.column_names)
    assert (whole.rows, whole.row_bytes) == (1000, sum(sizes.values()))


def test_each_stripe_counts_for_itself() -> None:
    chance = random.Random(1)
    texts = [chance.randbytes(2).hex() for _ in range(50_000)]
    texts += [chance.randbytes(500).hex() for _ in range(5_000)]
    body = packed(
        pa.table({"text": texts}), "uncompressed", stripe_size=64 * 1024, batch_size=1000,
        dictionary_key_size_threshold=0.0,
    )  # fmt: skip
    parts = tail_of(body).parts(["text"])
    assert sum(part.rows for part in parts) == len(texts)
    assert min(part.row_bytes for part in parts) == 12
    assert max(part.row_bytes for part in parts) == 1008


def test_a_file_whose_packing_is_not_read_here_is_taken_for_a_long_one() -> None:
    body = packed(pa.table({"text": ["a" * 1000] * 1000}), "lz4")
    (part,) = tail_of(body).parts(["text"])
    assert part.bytes >= 1_000_000
    assert rows_of(body, 1024 * MIB) == 1000


@pytest.mark.parametrize("codec", [*CODECS, "lz4"])
def test_a_tail_that_is_damaged_anywhere_is_an_error_of_the_source_or_is_read(codec: str) -> None:
    body = bytearray(packed(pa.table({"text": ["a", "b"] * 50, "id": range(100)}), codec))
    for place in range(len(body) - 250, len(body)):
        damaged = bytes(body[:place]) + bytes([body[place] ^ 0xFF]) + bytes(body[place + 1 :])
        with suppress(SourceContractError, ValueError):
            tail_of(damaged).parts(["text", "id"])


def test_a_tail_whose_chunks_are_longer_than_any_is_damaged() -> None:
    body = packed(pa.table({"text": ["a"] * 10}), "zlib", compression_block_size=64 * 1024)
    script = body[-1 - body[-1] : -1]
    usual, huge = b"\x18\x80\x80\x04", b"\x18\x80\x80\x80\x80\x40"  # 64 KiB and 16 GiB
    assert usual in script
    changed = script.replace(usual, huge)
    with pytest.raises(ValueError, match="damaged"):
        tail_of(body[: -1 - len(script)] + changed + bytes([len(changed)]))
