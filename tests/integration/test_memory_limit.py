"""Sources that send what becomes larger than memory: one work unit fails, the others are there."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Mapping
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest

from tests.integration.dil_processes import dil_alone, report_of
from tests.jobs import visible_files

MIB = 1024**2
LIMIT = 512 * MIB
# Libraries and what Arrow has reserved come on top.
MOST = 1024 * MIB
SYNC = b"0123456789abcdef"


def number(value: int) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, "long", value)
    return stream.getvalue()


def avro(kind: object, rows: int, block: bytes, codec: str = "null") -> bytes:
    """Return a container file of one column and one block."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}
    facts = {"avro.schema": json.dumps(schema), "avro.codec": codec}
    parts = [b"Obj\x01", number(len(facts))]
    for name, value in facts.items():
        parts += [number(len(name)), name.encode(), number(len(value)), value.encode()]
    return b"".join([*parts, number(0), SYNC, number(rows), number(len(block)), block, SYNC])


def zeros(size: int) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return b"".join([*(packer.compress(bytes(MIB)) for _ in range(size // MIB)), packer.flush()])


def write_job(folder: Path, extractor: str, files: Mapping[str, bytes], **more: str) -> Path:
    """Return the file of a job with one work unit for each file."""
    source = folder / "in"
    source.mkdir(parents=True)
    for name, body in files.items():
        (source / name).write_bytes(body)
    properties = {
        "job.name": "bombs",
        "source.class": "hdfs",
        "ms.source.uri": f"file://{source}/{{{{file}}}}",
        "ms.extractor.class": extractor,
        "extract.namespace": "lake",
        "extract.table.name": "bombs",
        "extract.table.type": "SNAPSHOT_ONLY",
        "ms.watermark": json.dumps([{"name": "file", "type": "unit", "units": ",".join(files)}]),
        "ms.parameters": '[{"name": "file"}]',
        "writer.output.format": "PARQUET",
        "data.publisher.final.dir": str(folder / "lake"),
        "state.store.dir": str(folder / "state"),
        "job.commit.policy": "successful",
        "task.maxretries": "0",
        "ms.task.memory.max.bytes": str(LIMIT),
        **more,
    }
    job = folder / "bombs.conf"
    job.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return job


def run(folder: Path, extractor: str, files: Mapping[str, bytes], **more: str) -> tuple[int, dict]:
    """Run a job with one work unit for each file; return its exit code and its report."""
    done = dil_alone("run", write_job(folder, extractor, files, **more), "--json", timeout=300)
    return done.returncode, report_of(done)


def failed(report: dict) -> dict[str, str]:
    """Return the code of each file whose work unit failed."""
    return {
        json.loads(each["signature"].partition("file.")[2].rstrip("]"))["file"]: each["code"]
        for each in report["failures"]
    }


@pytest.mark.spark
def test_bombs_fail_their_own_work_units_and_the_others_are_published(tmp_path) -> None:
    sound = avro("long", 2, number(1) + number(2))
    bombs = {
        "nulls.avro": avro("null", 2**40, b""),
        "array.avro": avro({"type": "array", "items": "null"}, 1, number(2**40) + number(0)),
        "lists.avro": avro(
            {"type": "array", "items": {"type": "array", "items": "long"}},
            1,
            number(20 * MIB) + bytes(20 * MIB) + number(0),
        ),
        "deflate.avro": avro("bytes", 1, zeros(700 * MIB), "deflate"),
        "length.avro": avro("bytes", 1, number(2**40)),
    }
    code, report = run(tmp_path, "avro", {"a.avro": sound, **bombs, "z.avro": sound})

    assert (code, report["status"], report["rows"]) == (4, "partial", 4)
    assert failed(report) == dict.fromkeys(bombs, "DIL-SRC-CONTRACT")
    rows = [row["a"] for path in visible_files(tmp_path) for row in pq.read_table(path).to_pylist()]
    assert sorted(rows) == [1, 1, 2, 2]
    assert report["peak_rss_bytes"] < MOST
    told = {each["error"] for each in report["failures"]}
    assert any(f"{LIMIT:,} bytes of memory that a worker may take" in text for text in told)


@pytest.mark.spark
def test_a_run_of_bombs_alone_fails_and_nothing_is_published(tmp_path) -> None:
    bombs = {
        "text.json": b'[{"a": "' + b"x" * (100 * MIB) + b'"}]',
        "keys.json": json.dumps({f"k{number}": 1 for number in range(300_000)}).encode(),
        "deep.json": b"[" * 1_000_000 + b"]" * 1_000_000,
        "rows.json": b"[" + b"{}," * 5_000_000 + b'{"a": 1}]',
    }
    code, report = run(tmp_path, "json", bombs)

    assert (code, report["status"], report["rows"]) == (1, "failed", 0)
    assert failed(report) == dict.fromkeys(bombs, "DIL-SRC-CONTRACT")
    assert report["peak_rss_bytes"] < MOST
    assert visible_files(tmp_path) == []


@pytest.mark.parametrize(
    ("extractor", "body", "why"),
    [
        ("json", b'[{"a": "' + b"x" * (100 * MIB) + b'"}]', "ms.task.memory.max.bytes"),
        (
            "avro",
            avro({"type": "array", "items": "null"}, 1, number(LIMIT // 4) + number(0)),
            "items of arrays",
        ),
    ],
)
def test_a_preview_takes_no_more_memory_than_a_worker_may(tmp_path, extractor, body, why) -> None:
    done = dil_alone("preview", write_job(tmp_path, extractor, {"a": body}), timeout=300)

    assert done.returncode == 1
    assert "DIL-SRC-CONTRACT" in done.stderr
    assert why in done.stderr


@pytest.mark.spark
def test_a_limit_below_what_a_worker_takes_by_itself_is_no_limit_but_a_problem(tmp_path) -> None:
    job = tmp_path / "job.conf"
    job.write_text("ms.task.memory.max.bytes=1000000\n")
    done = dil_alone("validate", job)
    assert done.returncode == 2
    assert "268435456" in done.stdout + done.stderr
