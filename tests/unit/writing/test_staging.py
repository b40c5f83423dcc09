from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dil.errors import ConversionError, WriteError
from dil.model.job import OutputFormat, WritingSpec
from dil.model.task import StagedFile
from dil.spi.writer import FileWriter
from dil.storage import Folder, LocalFilesystem
from dil.writing.formats import reader_for, writer_for
from dil.writing.rolling import OutputFolder
from dil.writing.staging import StagedWriter


def staged(
    folder: Path, output_format: OutputFormat = OutputFormat.PARQUET, **spec: Any
) -> StagedWriter:
    local = Folder(LocalFilesystem(), str(folder))
    writing = WritingSpec(format=output_format, **spec)
    return StagedWriter(OutputFolder(local, writing, writer_for(output_format)))


def batch(rows: list[dict[str, Any]], *fields: tuple[str, pa.DataType]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(list(fields)))


def rows_in(
    files: tuple[StagedFile, ...], writer: StagedWriter, output_format: OutputFormat
) -> list[dict[str, Any]]:
    read = reader_for(writer_for(output_format))
    assert read is not None
    rows = []
    for file in files:
        with Path(file.path).open("rb") as stream:
            for part in read(stream, writer.schema, WritingSpec(format=output_format)):
                rows.extend(part.to_pylist(maps_as_pydicts="strict"))
    return rows


def test_rows_end_in_one_file_with_its_size_and_hash(tmp_path: Path) -> None:
    writer = staged(tmp_path / "attempt")
    for _ in range(3):
        writer.write(batch([{"a": 1}, {"a": 2}], ("a", pa.int64())))
    (file,) = writer.finish()
    data = Path(file.path).read_bytes()
    assert file == StagedFile(
        str(tmp_path / "attempt" / "part-0.parquet"), 6, len(data), hashlib.sha256(data).hexdigest()
    )
    assert pq.read_table(file.path).num_rows == 6


def test_no_row_makes_no_file_and_no_folder(tmp_path: Path) -> None:
    writer = staged(tmp_path / "attempt")
    writer.write(batch([], ("a", pa.int64())))
    assert writer.finish() == ()
    assert not (tmp_path / "attempt").exists()


@pytest.mark.parametrize(
    ("output_format", "rows"),
    [
        (OutputFormat.JSON, [750, 750]),
        (OutputFormat.AVRO, [750, 750]),
    ],
)
def test_a_file_ends_when_it_is_large_enough(
    tmp_path: Path, output_format: OutputFormat, rows: list[int]
) -> None:
    writer = staged(tmp_path, output_format, target_bytes=600_000, codec="NOCOMPRESSION")
    part = batch([{"a": "x" * 1000}] * 250, ("a", pa.string()))
    for _ in range(6):
        writer.write(part)
    files = writer.finish()
    assert [file.rows for file in files] == rows
    assert [Path(file.path).name for file in files] == [
        f"part-{n}.{output_format.value}" for n in range(2)
    ]


@pytest.mark.parametrize("output_format", list(OutputFormat))
def test_all_files_have_the_schema_of_the_last_one(
    tmp_path: Path, output_format: OutputFormat
) -> None:
    writer = staged(tmp_path, output_format)
    writer.write(batch([{"a": 1, "b": None}], ("a", pa.int32()), ("b", pa.string())))
    writer.write(batch([{"b": 7, "a": 2**40}], ("b", pa.int32()), ("a", pa.int64())))
    writer.write(batch([{"a": None, "c": ["x"]}], ("a", pa.int64()), ("c", pa.list_(pa.string()))))
    writer.write(batch([{"a": 0.5}], ("a", pa.float64())))
    files = writer.finish()
    assert writer.schema is not None
    assert dict(zip(writer.schema.names, writer.schema.types, strict=True)) == {
        "a": pa.float64(),
        "b": pa.int32(),
        "c": pa.list_(pa.string()),
    }
    assert rows_in(files, writer, output_format) == [
        {"a": 1.0, "b": None, "c": None},
        {"a": float(2**40), "b": 7, "c": None},
        {"a": None, "b": None, "c": ["x"]},
        {"a": 0.5, "b": None, "c": None},
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        Path(file.path).name for file in files
    )
    for file in files:
        data = Path(file.path).read_bytes()
        assert (file.bytes, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert sum(file.rows for file in files) == 4


def test_earlier_files_of_an_older_schema_are_put_together(tmp_path: Path) -> None:
    writer = staged(tmp_path)
    writer.write(batch([{"a": 1}], ("a", pa.int32())))
    writer.write(batch([{"a": 2, "b": 1}], ("a", pa.int32()), ("b", pa.int32())))
    writer.write(batch([{"a": 3, "c": 1}], ("a", pa.int32()), ("c", pa.int32())))
    files = writer.finish()
    assert [file.rows for file in files] == [2, 1]


def test_a_narrower_batch_stays_in_the_file(tmp_path: Path) -> None:
    writer = staged(tmp_path)
    optional = pa.field("b", pa.int64())
    writer.write(batch([{"a": 1.5, "b": 1}], ("a", pa.float64()), optional))  # type: ignore[arg-type]
    writer.write(batch([{"b": 2, "a": 1}], ("b", pa.int32()), ("a", pa.int32())))
    writer.write(batch([{"a": None}], ("a", pa.string())))
    (file,) = writer.finish()
    assert pq.read_table(file.path).to_pylist() == [
        {"a": 1.5, "b": 1},
        {"a": 1.0, "b": 2},
        {"a": None, "b": None},
    ]


def test_nested_records_are_widened_member_by_member(tmp_path: Path) -> None:
    writer = staged(tmp_path)
    first = pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())]))
    second = pa.list_(pa.struct([("z", pa.bool_()), ("x", pa.int64()), ("y", pa.int32())]))
    writer.write(batch([{"l": [{"x": 1, "y": None}]}, {"l": None}], ("l", first)))
    writer.write(batch([{"l": [{"x": 2**40, "z": True, "y": 5}]}], ("l", second)))
    files = writer.finish()
    rows = [row for file in files for row in pq.read_table(file.path).to_pylist()]
    assert rows == [
        {"l": [{"x": 1, "y": None, "z": None}]},
        {"l": None},
        {"l": [{"x": 2**40, "y": 5, "z": True}]},
    ]


def test_empty_objects_taken_for_maps_become_records_later(tmp_path: Path) -> None:
    writer = staged(tmp_path)
    writer.write(batch([{"o": []}, {"o": None}], ("o", pa.map_(pa.string(), pa.string()))))
    writer.write(batch([{"o": {"k": 1}}], ("o", pa.struct([("k", pa.int32())]))))
    files = writer.finish()
    rows = [row for file in files for row in pq.read_table(file.path).to_pylist()]
    assert rows == [{"o": {"k": None}}, {"o": None}, {"o": {"k": 1}}]


@pytest.mark.parametrize(
    ("before", "after", "expected", "values"),
    [
        (pa.int32(), pa.int64(), pa.int64(), [1, 2]),
        (pa.int64(), pa.float64(), pa.float64(), [1.0, 2.0]),
        (pa.float64(), pa.int32(), pa.float64(), [1.0, 2.0]),
        (pa.int64(), pa.decimal128(38, 0), pa.decimal128(38, 0), [Decimal(1), Decimal(2)]),
        (pa.float64(), pa.decimal128(20, 5), pa.decimal128(20, 5), [Decimal(1), Decimal(2)]),
        (pa.decimal128(5, 2), pa.decimal128(7, 0), pa.decimal128(9, 2), [Decimal(1), Decimal(2)]),
        (pa.int64(), pa.decimal128(38, 38), pa.string(), None),
        (pa.int64(), pa.string(), pa.string(), ["1", "2"]),
        (pa.bool_(), pa.string(), pa.string(), ["true", "2"]),
    ],
)
def test_types_widen_without_loss(
    tmp_path: Path, before: pa.DataType, after: pa.DataType, expected: pa.DataType, values: Any
) -> None:
    writer = staged(tmp_path)
    second = pa.array(["0" if pa.types.is_decimal(after) and values is None else "2"]).cast(after)
    writer.write(pa.record_batch({"a": pa.array(["1"]).cast(before)}))
    writer.write(pa.record_batch({"a": second}))
    files = writer.finish()
    assert writer.schema == pa.schema([("a", expected)])
    found = [row["a"] for file in files for row in pq.read_table(file.path).to_pylist()]
    if values is not None:
        assert found == values


def test_a_long_that_no_double_can_hold_is_an_error_not_a_rounding(tmp_path: Path) -> None:
    writer = staged(tmp_path)
    writer.write(pa.record_batch({"a": [2**53 + 1]}))
    writer.write(pa.record_batch({"a": [0.5]}))
    with pytest.raises(ConversionError) as caught:
        writer.finish()
    assert '"a"' in caught.value.message
    assert "9007199254740993" not in caught.value.message
    writer.abort()
    assert list(tmp_path.iterdir()) == []


def test_a_column_of_records_and_plain_values_is_an_error_with_its_path(tmp_path: Path) -> None:
    writer = staged(tmp_path)
    writer.write(batch([{"r": {"a": [1]}}], ("r", pa.struct([("a", pa.list_(pa.int32()))]))))
    records = pa.struct([("a", pa.list_(pa.struct([("b", pa.int32())])))])
    with pytest.raises(ConversionError, match=r'"r\.a\[\]"'):
        writer.write(batch([{"r": {"a": [{"b": 1}]}}], ("r", records)))
    writer.abort()


def test_a_column_that_may_be_null_in_a_later_batch_is_optional_in_all_files(
    tmp_path: Path,
) -> None:
    writer = staged(tmp_path)
    must = pa.schema([pa.field("a", pa.int32(), nullable=False)])
    writer.write(pa.RecordBatch.from_pylist([{"a": 1}], schema=must))
    writer.write(batch([{"a": None}], ("a", pa.int32())))
    files = writer.finish()
    assert [pq.read_schema(file.path).field("a").nullable for file in files] == [True, True]


@pytest.mark.parametrize("output_format", list(OutputFormat))
def test_abort_leaves_nothing_and_may_come_at_any_time(
    tmp_path: Path, output_format: OutputFormat
) -> None:
    writer = staged(tmp_path, output_format)
    writer.abort()
    for value in range(3):
        writer.write(batch([{f"a{value}": value}], (f"a{value}", pa.int64())))
    assert len(list(tmp_path.iterdir())) == 3
    writer.abort()
    writer.abort()
    assert list(tmp_path.iterdir()) == []


class FullDisk(LocalFilesystem):
    """A file system whose files are /dev/full: every write fails with ENOSPC."""

    def open_output(self, path: str) -> BinaryIO:
        Path(path).touch()
        return Path("/dev/full").open("wb", buffering=0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
@pytest.mark.parametrize("output_format", list(OutputFormat))
def test_a_full_disk_is_a_write_error_with_path_and_reason(
    tmp_path: Path, output_format: OutputFormat
) -> None:
    spec = WritingSpec(format=output_format)
    output = OutputFolder(Folder(FullDisk(), str(tmp_path)), spec, writer_for(output_format))
    writer = StagedWriter(output)
    with pytest.raises(WriteError) as caught:  # noqa: PT012 - the first or the last byte may fail
        writer.write(batch([{"a": 1}], ("a", pa.int64())))
        writer.finish()
    assert str(tmp_path / "part-0") in caught.value.message
    assert "No space left" in caught.value.message
    writer.abort()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_a_write_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    writer = staged(tmp_path / "file" / "attempt")
    with pytest.raises(WriteError):
        writer.write(batch([{"a": 1}], ("a", pa.int64())))
    writer.abort()


def test_a_value_outside_the_format_is_no_write_error(tmp_path: Path) -> None:
    far = pa.array([2**62], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    writer = staged(tmp_path, OutputFormat.JSON)
    with pytest.raises(ConversionError):
        writer.write(pa.record_batch({"t": far}))
    writer.abort()


class Lines(FileWriter):
    """A format of a plug-in, which nothing can read back."""

    extension = "lines"

    def write(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            self.sink.write(json.dumps(row).encode() + b"\n")

    def close(self) -> None: ...


def test_a_writer_of_a_plug_in_works_until_the_schema_changes(tmp_path: Path) -> None:
    writer = StagedWriter(
        OutputFolder(Folder(LocalFilesystem(), str(tmp_path)), WritingSpec(), Lines)
    )
    writer.write(batch([{"a": 1}], ("a", pa.int64())))
    writer.write(batch([{"b": 1}], ("b", pa.int64())))
    with pytest.raises(ConversionError, match="Lines"):
        writer.finish()
