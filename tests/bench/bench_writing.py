"""Staged Parquet files beside a bare pyarrow ParquetWriter: CPU seconds of writing alone.

    python tests/bench/bench_writing.py [rows] [rounds]

The rows are those of bench_files.py, 3,000,000 by default, in memory before the clock runs. All
sides write the same batches in one process, turn by turn; the quickest of the rounds counts.

The goal is at most 1.15 for batches of 65,536 rows, against a bare writer with pyarrow's defaults.
A task's writer leaves out dictionaries of values that hardly repeat, and is quicker by that. A
second bare writer does the same, so that what sizes, hashes and syncing cost can be seen. Pages of
2,000 rows are measured against the same bare writers with whole row groups. System columns and
folders by column come on top.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dil.model.job import OutputFormat, WritingSpec
from dil.storage import Folder, LocalFilesystem
from dil.writing.formats import writer_for
from dil.writing.output import OutputWriter
from dil.writing.parquet_writer import dictionary_columns
from dil.writing.partitioned import PartitionedWriter, RowPartitioning
from dil.writing.rolling import OutputFolder
from dil.writing.staging import StagedWriter
from dil.writing.system_columns import RUN_ID, SIGNATURE, SystemColumns
from tests.bench.bench_files import table

GROUP_ROWS = 65_536
PAGE_ROWS = 2000
SHOPS = 20
SPEC = WritingSpec(format=OutputFormat.PARQUET)


def bare(folder: Path, batches: Sequence[pa.RecordBatch]) -> None:
    """Write the batches as anybody would."""
    with pq.ParquetWriter(folder / "bare.parquet", batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def tuned(folder: Path, batches: Sequence[pa.RecordBatch]) -> None:
    """Write them with dictionaries where the task's writer has them: what is left is overhead."""
    chosen = dictionary_columns(pa.Table.from_batches(batches[:1]), GROUP_ROWS)
    schema = batches[0].schema
    with pq.ParquetWriter(folder / "tuned.parquet", schema, use_dictionary=chosen) as writer:
        for batch in batches:
            writer.write_batch(batch)


def staged(folder: Path, batches: Sequence[pa.RecordBatch]) -> None:
    """Write them as a task does."""
    _written(StagedWriter(_output(folder)), batches)


def stamped(folder: Path, batches: Sequence[pa.RecordBatch]) -> None:
    """Write them with two system columns."""
    writer = StagedWriter(_output(folder))
    texts = {RUN_ID: "20200101T000000Z-000000", SIGNATURE: "[watermark.system.1577836800000]"}
    _written(OutputWriter(writer, SystemColumns(tuple(texts), texts, 0), None), batches)


def apart(folder: Path, batches: Sequence[pa.RecordBatch]) -> None:
    """Write them into a folder for each shop."""
    _written(PartitionedWriter(_output(folder), RowPartitioning(("shop",))), batches)


def _output(folder: Path) -> OutputFolder:
    return OutputFolder(Folder(LocalFilesystem(), str(folder)), SPEC, writer_for(SPEC.format))


def _written(
    writer: StagedWriter | OutputWriter | PartitionedWriter, batches: Sequence[pa.RecordBatch]
) -> None:
    for batch in batches:
        writer.write(batch)
    writer.finish()


def cpu_s(write: Callable[[Path, Sequence[pa.RecordBatch]], None], batches: list) -> float:
    """Return the CPU seconds of all threads."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        write(Path(folder), batches)
        return time.process_time() - began


def main(rows: int, rounds: int) -> None:
    """Measure and print."""
    made = table(rows)
    shops = pc.cast(pc.multiply(pc.random(rows, initializer=4), SHOPS), pa.int32(), safe=False)
    with_shops = made.append_column("shop", shops)
    groups, pages = made.to_batches(GROUP_ROWS), made.to_batches(PAGE_ROWS)
    sides = {
        "bare ParquetWriter": (bare, groups),
        "bare ParquetWriter, the same dictionaries": (tuned, groups),
        "staged": (staged, groups),
        "staged, pages of 2,000 rows": (staged, pages),
        "staged, two system columns": (stamped, groups),
        f"staged, {SHOPS} folders by column": (apart, with_shops.to_batches(GROUP_ROWS)),
    }
    found = dict.fromkeys(sides, float("inf"))
    for _ in range(rounds):
        for name, (write, batches) in sides.items():
            found[name] = min(found[name], cpu_s(write, batches))
    least, alike = list(found.values())[:2]
    for name, seconds in found.items():
        print(
            f"{rows:,} rows, {name}: {seconds:.2f} CPU s, {seconds / least:.2f} of the bare one,"
            f" {seconds / alike:.2f} of the one with the same dictionaries"
        )


if __name__ == "__main__":
    main(*(int(text) for text in (sys.argv[1:] + ["3000000", "3"][len(sys.argv) - 1 :])))
