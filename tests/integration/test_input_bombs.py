"""Inputs of a job that were made to exhaust the machine on which a plan or a query reads them."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow import parquet as pq

from tests.integration.dil_processes import DIL
from tests.integration.test_memory_limit import MIB, SYNC, avro, number
from tests.marks import all_long_but, some_long

LIMIT = 512 * MIB
# The interpreter and libraries come on top.
MOST = 1024 * MIB
TEXT = "x" * 1000


QUERY = """
import sys
from dil.spark.source import DilDataSource
source = DilDataSource({"conf": sys.argv[1]})
source.reader(source.schema())
"""


# A process counts the memory of the one that started it as its own peak: let that be a small one.
MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, end="")
"""


def plan(folder: Path, name: str, **more: str) -> tuple[int, str, int]:
    """Plan a job whose units are the rows of a file; return exit code, stderr and peak bytes."""
    return read_by([*DIL, "plan"], folder, name, more)


def read_by(
    command: Sequence[str], folder: Path, name: str, more: Mapping[str, str]
) -> tuple[int, str, int]:
    """Give a job to a command that reads its input; return exit code, stderr and peak bytes."""
    properties = {
        "job.name": "reader",
        "source.class": "http",
        "ms.source.uri": "http://127.0.0.1:9/{{a}}",
        "ms.extractor.class": "json",
        "ms.secondary.input": json.dumps([{"path": str(folder / name), "fields": ["a"]}]),
        "extract.namespace": "lake",
        "extract.table.name": "rows",
        "extract.table.type": "SNAPSHOT_ONLY",
        "data.publisher.final.dir": str(folder / "lake"),
        "ms.task.memory.max.bytes": str(LIMIT),
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    job = folder / "reader.conf"
    job.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *command, str(job)],
        capture_output=True,
        text=True,
        check=False,
    )
    code, _, peak = done.stdout.rpartition("\n")[2].partition(" ")
    return int(code), done.stderr, int(peak) * 1024


def many_blocks() -> bytes:
    """Return a file of blocks that are sound, one by one: each has a million rows of nothing."""
    head = avro("null", 1_000_000, b"")
    return head + (number(1_000_000) + number(0) + SYNC) * 100_000


def parquet(folder: Path) -> None:
    table = pa.table({"a": pa.DictionaryArray.from_arrays(pa.array([0] * 4_000_000), [TEXT])})
    schema = pa.schema([pa.field("a", pa.dictionary(pa.int32(), pa.string()))])
    pq.write_table(table.cast(schema), folder / "a.parquet", store_schema=False)


def parquet_of_long_texts(folder: Path) -> None:
    """One page of a few bytes, of which each row takes a megabyte."""
    table = pa.table({"a": pa.DictionaryArray.from_arrays(pa.array([0] * 8000), ["x" * MIB])})
    pq.write_table(table, folder / "a.parquet", store_schema=False)


def stripes(folder: Path) -> None:
    with orc.ORCWriter(folder / "a.orc", compression="zlib") as writer:
        part = pa.table({"a": pa.repeat(TEXT, 50_000)})
        for _ in range(30):
            writer.write(part)


def packed(folder: Path, name: str, line: bytes, head: bytes = b"") -> None:
    with gzip.open(folder / name, "wb", compresslevel=1) as stream:
        stream.write(head)
        for _ in range(150):
            stream.write(line * (MIB // len(line)))


FILES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "array of nulls": (
        "a.avro",
        lambda folder: (folder / "a.avro").write_bytes(
            avro({"type": "array", "items": "null"}, 1, number(10**9) + number(0))
        ),
    ),
    "rows of null": (
        "a.avro",
        lambda folder: (folder / "a.avro").write_bytes(avro("null", 2**33, b"")),
    ),
    "blocks of rows of null": (
        "a.avro",
        lambda folder: (folder / "a.avro").write_bytes(many_blocks()),
    ),
    "equal texts": ("a.parquet", parquet),
    "equal long texts": ("a.parquet", parquet_of_long_texts),
    "stripes": ("a.orc", stripes),
    "one line": ("a.json.gz", lambda folder: packed(folder, "a.json.gz", b"[],", b'{"a":[')),
    "lines": ("a.json.gz", lambda folder: packed(folder, "a.json.gz", b'{"a":1}\n')),
    "empty lines": ("a.json.gz", lambda folder: packed(folder, "a.json.gz", b"\n")),
    "cells": ("a.csv.gz", lambda folder: packed(folder, "a.csv.gz", b"1,\n", b"a,b\n")),
    "columns": (
        "a.csv",
        lambda folder: (folder / "a.csv").write_text(
            ",".join(["a", *(f"c{number}" for number in range(40_000))]) + "\n"
        ),
    ),
}


@pytest.mark.parametrize("kind", some_long(FILES, "equal texts", "stripes", "lines"))
def test_an_input_that_would_exhaust_the_machine_ends_a_plan_with_its_name(tmp_path, kind) -> None:
    name, write = FILES[kind]
    write(tmp_path)
    # An eighth of the default: what is read until then takes as much less time.
    code, stderr, peak = plan(tmp_path, name, ms__secondary__input__max__bytes=str(128 * MIB))
    assert code == 1, stderr
    assert "DIL-SRC-CONTRACT" in stderr
    assert str(tmp_path / name) in stderr
    assert peak < MOST


@pytest.mark.parametrize("kind", some_long(["equal long texts", "stripes"], "stripes"))
def test_an_input_that_would_exhaust_the_machine_ends_a_query_with_its_name(tmp_path, kind) -> None:
    name, write = FILES[kind]
    write(tmp_path)
    more = {
        "ms.output.schema": '[{"columnName": "a", "dataType": {"type": "string"}}]',
        "ms.secondary.input.max.bytes": str(128 * MIB),
    }
    code, stderr, peak = read_by([sys.executable, "-c", QUERY], tmp_path, name, more)
    assert code == 1, stderr
    assert "DIL-SRC-CONTRACT" in stderr
    assert str(tmp_path / name) in stderr
    assert peak < MOST


@pytest.mark.parametrize(
    "name",
    all_long_but(["a.avro", "a.parquet", "a.orc", "a.json", "a.csv"], "a.parquet", "a.json"),
)
def test_a_limit_of_its_own_ends_the_reading_of_an_input_and_0_is_none(tmp_path, name) -> None:
    rows = [str(row) for row in range(2000)]
    text = number(1) + b"x"
    {
        "a.avro": lambda path: path.write_bytes(avro("string", 2000, text * 2000)),
        "a.parquet": lambda path: pq.write_table(pa.table({"a": rows}), path),
        "a.orc": lambda path: orc.write_table(pa.table({"a": rows}), path),
        "a.json": lambda path: path.write_text("".join(f'{{"a":{row}}}\n' for row in rows)),
        "a.csv": lambda path: path.write_text("\n".join(["a", *rows])),
    }[name](tmp_path / name)
    limit = "ms.secondary.input.max.bytes"
    code, stderr, _ = plan(tmp_path, name, **{limit: str(2000 * 256)})
    assert (code, limit in stderr, str(tmp_path / name) in stderr) == (1, True, True), stderr
    for most in ("600000", "0"):
        assert plan(tmp_path, name, **{limit: most})[0] == 0
