"""What readers of Arrow are given: once a read is over, its threads hold nothing of Python.

A thread that still does aborts the process where the interpreter ends at that moment.
"""

from __future__ import annotations

import io
import sys
import tracemalloc
from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

from dil.extraction.arrow_input import arrow_file, arrow_stream, seekable_body
from dil.extraction.csv.cells import CellReader
from dil.extraction.csv.dialect import CsvDialect

MIB = 1024 * 1024
# A thread that keeps the text keeps it in one of fifty reads or more.
READS = 1000


@given(st.lists(st.binary(max_size=50), max_size=4))
def test_a_file_for_arrow_has_the_bytes_of_all_parts(parts: list[bytes]) -> None:
    assert arrow_file(*parts).read() == b"".join(parts)


def test_a_body_in_memory_is_memory_of_arrow() -> None:
    body = io.BytesIO(bytes(8 * MIB))
    tracemalloc.start()
    file, size = seekable_body(body)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (size, file.size()) == (8 * MIB, 8 * MIB)
    assert held < MIB


def test_the_text_of_a_csv_block_is_free_once_it_is_read() -> None:
    cells = CellReader(CsvDialect(",", '"', ""), keeps_null_text=False)
    text = b"1,x\n" * 5000
    free = sys.getrefcount(text)
    held = 0
    for _ in range(READS):
        assert cells.columns(text, 2, [0, 1]) is not None
        held += sys.getrefcount(text) != free
    assert held == 0


def test_a_stream_for_arrow_is_free_once_it_is_closed_whoever_has_its_reader() -> None:
    stream = io.BytesIO(b"a,b\n" + b"1,x\n" * 5000)
    free = sys.getrefcount(stream)
    with arrow_stream(lambda: closing(stream)) as file:
        reader = csv.open_csv(file)
        assert reader.read_next_batch().num_rows == 5000
    del file
    assert sys.getrefcount(stream) == free
    assert stream.closed
    del reader
