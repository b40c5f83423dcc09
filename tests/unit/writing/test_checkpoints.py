"""What a writer keeps for a later attempt: checkpoints, truncated to and resumed from."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.errors import ConversionError
from dil.model.job import OutputFormat, WritingSpec
from dil.model.task import StagedFile
from dil.storage import Folder, LocalFilesystem
from dil.types.schema_text import decoded_schema, decoded_type, encoded_schema, encoded_type
from dil.writing.formats import reader_for, writer_for
from dil.writing.rolling import OutputFolder, WrittenFile
from dil.writing.staging import StagedWriter
from tests.unit.writing.test_staging import Lines


def staged(
    folder: Path, kind: OutputFormat = OutputFormat.PARQUET, target_bytes: int = 1 << 20
) -> StagedWriter:
    spec = WritingSpec(format=kind, target_bytes=target_bytes, row_group_rows=8)
    local = Folder(LocalFilesystem(), str(folder))
    return StagedWriter(OutputFolder(local, spec, writer_for(kind)))


def of_a_plug_in(folder: Path) -> StagedWriter:
    return StagedWriter(OutputFolder(Folder(LocalFilesystem(), str(folder)), WritingSpec(), Lines))


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"a": pa.array(numbers, pa.int64())})


def numbers_in(
    writer: StagedWriter, files: tuple[StagedFile, ...], kind: OutputFormat
) -> list[int]:
    read = reader_for(writer_for(kind))
    assert read is not None
    found: list[int] = []
    for file in files:
        with Path(file.path).open("rb") as stream:
            for part in read(stream, writer.schema, WritingSpec(format=kind)):
                found += part["a"].to_pylist()
    return found


@pytest.mark.parametrize("kind", list(OutputFormat))
def test_checkpointed_files_stay_until_the_files_that_replace_them_are_taken(
    tmp_path: Path, kind: OutputFormat
) -> None:
    writer = staged(tmp_path, kind)
    writer.write(batch(1, 2))
    (first,) = writer.checkpoint()
    writer.write(batch(3))
    (file,) = writer.finish()

    assert Path(first.file.path).exists()
    assert numbers_in(writer, (file,), kind) == [1, 2, 3]
    writer.drop_replaced()
    assert [path.name for path in tmp_path.iterdir()] == [Path(file.path).name]


def test_a_file_that_is_large_enough_is_not_written_again(tmp_path: Path) -> None:
    writer = staged(tmp_path, OutputFormat.JSON, target_bytes=40)
    writer.write(batch(*range(5)))
    writer.checkpoint()
    writer.write(batch(*range(5, 10)))
    writer.checkpoint()

    files = writer.finish()

    assert [Path(file.path).name for file in files] == ["part-0.json", "part-1.json"]


def test_truncating_removes_only_later_rows(tmp_path: Path) -> None:
    writer = staged(tmp_path)
    writer.write(batch(1))
    (kept,) = writer.checkpoint()
    writer.write(batch(2, 3))
    mark = writer.mark()
    writer.write(batch(4, 5))
    writer.write(pa.record_batch({"b": ["widened"]}))

    writer.truncate_to(mark)

    assert [entry.file.rows for entry in writer.checkpoint()] == [1, 2]
    assert writer.checkpoint()[0] == kept
    writer.write(batch(6))
    assert numbers_in(writer, writer.finish(), OutputFormat.PARQUET) == [1, 2, 3, 6]
    assert writer.schema == pa.schema([("a", pa.int64())])


def test_truncating_cuts_a_file_that_is_read_back_in_several_parts(tmp_path: Path) -> None:
    writer = StagedWriter(
        OutputFolder(
            Folder(LocalFilesystem(), str(tmp_path)),
            WritingSpec(target_bytes=1 << 30),
            writer_for(OutputFormat.PARQUET),
        )
    )
    writer.write(batch(*range(100_000)))
    mark = writer.mark()
    writer.write(batch(*range(100_000, 250_000)))

    writer.truncate_to(mark)

    found = numbers_in(writer, writer.finish(), OutputFormat.PARQUET)
    assert found == list(range(100_000))


def test_truncating_to_the_last_row_changes_no_file(tmp_path: Path) -> None:
    writer = staged(tmp_path)
    writer.write(batch(1))
    mark = writer.mark()

    writer.truncate_to(mark)

    assert [Path(entry.file.path).name for entry in writer.checkpoint()] == ["part-0.parquet"]


def test_files_that_cannot_be_read_back_cannot_be_truncated(tmp_path: Path) -> None:
    writer = of_a_plug_in(tmp_path)
    writer.write(batch(1))
    mark = writer.mark()
    writer.write(batch(2))
    with pytest.raises(ConversionError):
        writer.truncate_to(mark)


def test_checkpointed_files_of_a_plug_ins_format_stay_as_they_are(tmp_path: Path) -> None:
    writer = of_a_plug_in(tmp_path)
    writer.write(batch(1))
    writer.checkpoint()
    writer.write(batch(2))
    assert [file.rows for file in writer.finish()] == [1, 1]


STEPS = st.lists(
    st.sampled_from(["write", "write", "checkpoint", "truncate", "widen", "resume"]),
    min_size=1,
    max_size=25,
)


@settings(max_examples=80, deadline=None)
@given(STEPS, st.sampled_from([OutputFormat.PARQUET, OutputFormat.JSON, OutputFormat.AVRO]))
def test_checkpoints_truncations_and_resumes_keep_exactly_the_rows_that_were_kept(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], kind: OutputFormat
) -> None:
    folder = tmp_path_factory.mktemp("writer")
    writer, numbers = staged(folder, kind, 200), iter(range(10_000))
    expected: list[int] = []
    marked, mark = 0, writer.mark()
    for step in steps:
        if step in {"write", "widen"}:
            some = [next(numbers) for _ in range(3)]
            columns = {"a": pa.array(some, pa.int32() if step == "write" else pa.int64())}
            writer.write(pa.record_batch(columns))
            expected += some
        elif step == "truncate":
            writer.truncate_to(mark)
            del expected[marked:]
        else:
            files = writer.checkpoint()
            if step == "resume":
                at = writer.mark()
                writer = staged(folder, kind, 200)
                schema = None if at.schema is None else decoded_schema(encoded_schema(at.schema))
                writer.resume(_renamed(writer, files), schema, decoded_type(encoded_type(at.seen)))
        if step not in {"write", "widen"}:
            marked, mark = len(expected), writer.mark()
    assert numbers_in(writer, writer.finish(), kind) == expected
    writer.drop_replaced()


def _renamed(writer: StagedWriter, files: tuple[WrittenFile, ...]) -> list[WrittenFile]:
    """Move files to the names that a new attempt would copy them to."""
    moved = []
    for number, entry in enumerate(files):
        path = Path(writer.path(number))
        Path(entry.file.path).rename(path)
        file = StagedFile(str(path), entry.file.rows, entry.file.bytes, entry.file.sha256)
        moved.append(WrittenFile(file, entry.schema, entry.is_part))
    return moved


@pytest.mark.parametrize("text", ["", "!", "AAAA"])
def test_a_schema_that_is_damaged_is_none(text: str) -> None:
    assert decoded_schema(text) is None
    assert decoded_type(text) is None
