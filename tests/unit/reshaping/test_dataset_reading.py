"""Rows of published files: some of a file, some columns, in the dataset's schema."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dil.errors import StateError
from dil.model.dataset import FileRows
from dil.model.job import OutputFormat, WritingSpec
from dil.model.task import StagedFile
from dil.reshaping.dataset_reading import DatasetReading, Statistics
from dil.reshaping.files import DatasetFiles

KNOWN = pa.schema([("id", pa.int64()), ("day", pa.string()), ("note", pa.string())])
ROWS = 10


def reading(folder: Path, form: OutputFormat = OutputFormat.PARQUET) -> DatasetReading:
    writing = WritingSpec(format=form, row_group_rows=4)
    return DatasetReading(DatasetFiles(str(folder), str(folder / "made"), writing), KNOWN, KNOWN)


def batch(rows: int = ROWS) -> pa.RecordBatch:
    columns = [
        pa.array(range(rows)),
        pa.array(["d"] * rows),
        pa.array([f"n{n}" for n in range(rows)]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=KNOWN)


def written(reader: DatasetReading) -> str:
    (file,) = reader.dataset_files.write("file", [batch()], StagedFile("", 0, 0, ""))
    return Path(file.path).as_uri()


def ids(reader: DatasetReading, wanted: FileRows) -> list[int]:
    return [value for rows in reader.rows(wanted) for value in rows.column("id").to_pylist()]


@pytest.mark.parametrize("form", list(OutputFormat))
def test_some_rows_of_a_file_are_read_in_their_order_in_each_format(
    form: OutputFormat, tmp_path: Path
) -> None:
    reader = reading(tmp_path, form)
    uri = written(reader)

    assert ids(reader, FileRows(uri, ROWS, 0, ROWS)) == list(range(ROWS))
    assert ids(reader, FileRows(uri, ROWS, 3, 4)) == [3, 4, 5, 6]
    assert ids(reader, FileRows(uri, ROWS, 9, 1)) == [9]


@pytest.mark.parametrize("form", list(OutputFormat))
@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array([7, None, 2**60]), ["7", None, str(2**60)]),
        (pa.array([True, None, False]), ["true", None, "false"]),
        (pa.array([1.5, None, 2.25]), ["1.5", None, "2.25"]),
        (
            pa.array([Decimal("12345678901234567890.12"), None, Decimal("1.50")]),
            ["12345678901234567890.12", None, "1.50"],
        ),
    ],
)
def test_a_column_that_became_text_is_read_as_text_from_files_of_before(
    form: OutputFormat, values: pa.Array, texts: list[str | None], tmp_path: Path
) -> None:
    reader = reading(tmp_path, form)
    rows = pa.RecordBatch.from_arrays(
        [pa.array([1, 2, 3]), pa.array(["d", None, "e"]), values], ["id", "day", "note"]
    )
    (file,) = reader.dataset_files.write("file", [rows], StagedFile("", 0, 0, ""))

    (found,) = reader.rows(FileRows(Path(file.path).as_uri(), 3, 0, 3))

    assert found.column("note").to_pylist() == texts
    assert found.column("day").to_pylist() == ["d", None, "e"]


@pytest.mark.parametrize("form", [each for each in OutputFormat if each is not OutputFormat.CSV])
def test_a_number_that_became_text_has_the_text_that_a_writer_gives_it(
    form: OutputFormat, tmp_path: Path
) -> None:
    """Else a row that comes again would have another key. The cells of CSV have no types."""
    reader = reading(tmp_path, form)
    rows = pa.RecordBatch.from_pydict({"note": [1.0, -0.0, 1e20, 1e-7]})
    (file,) = reader.dataset_files.write("file", [rows], StagedFile("", 0, 0, ""))

    (found,) = reader.rows(FileRows(Path(file.path).as_uri(), 4, 0, 4))

    assert found.column("note").to_pylist() == ["1", "0", "100000000000000000000", "1e-7"]


@pytest.mark.parametrize("form", list(OutputFormat))
def test_numbers_inside_records_and_lists_become_text_too(
    form: OutputFormat, tmp_path: Path
) -> None:
    """A member that was added later is null."""
    number, text = pa.field("x", pa.decimal128(4, 2)), pa.field("x", pa.string())
    known = pa.schema([("of", pa.list_(pa.struct([text, ("y", pa.int64())])))])
    files = reading(tmp_path, form).dataset_files
    values = pa.array([[{"x": Decimal("1.50")}, None], None, []], pa.list_(pa.struct([number])))
    rows = pa.RecordBatch.from_arrays([values], ["of"])
    (file,) = files.write("file", [rows], StagedFile("", 0, 0, ""))

    (found,) = DatasetReading(files, known, known).rows(FileRows(Path(file.path).as_uri(), 3, 0, 3))

    assert found.column("of").to_pylist() == [[{"x": "1.50", "y": None}, None], None, []]


def test_a_column_that_a_file_lacks_is_null_or_what_its_folder_says(tmp_path: Path) -> None:
    folder = tmp_path / "day=2024-01-01%20x"
    folder.mkdir()
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32())}), folder / "part.parquet")

    (rows,) = reading(tmp_path).rows(FileRows((folder / "part.parquet").as_uri(), 2, 0, 2))

    assert rows.schema == KNOWN
    assert rows.to_pylist() == [
        {"id": 1, "day": "2024-01-01 x", "note": None},
        {"id": 2, "day": "2024-01-01 x", "note": None},
    ]


def test_rows_of_columns_that_a_file_has_none_of_are_counted_all_the_same(tmp_path: Path) -> None:
    pq.write_table(pa.table({"other": [1, 2, 3]}), tmp_path / "part.parquet")

    found = list(reading(tmp_path).rows(FileRows((tmp_path / "part.parquet").as_uri(), 3, 1, 2)))

    assert sum(rows.num_rows for rows in found) == 2


def test_a_row_group_that_the_reader_does_not_want_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    pq.write_table(pa.Table.from_batches([batch()]), path, row_group_size=4)
    seen = []

    def above_five(statistics: Statistics) -> bool:
        least, most, nulls, rows = statistics("id")
        seen.append((least, most, nulls, rows))
        return most > 5

    reader = DatasetReading(reading(tmp_path).dataset_files, KNOWN, KNOWN, above_five)

    assert ids(reader, FileRows(path.as_uri(), ROWS, 0, ROWS)) == [4, 5, 6, 7, 8, 9]
    assert seen == [(0, 3, 0, 4), (4, 7, 0, 4), (8, 9, 0, 2)]


@pytest.mark.parametrize("form", [OutputFormat.PARQUET, OutputFormat.JSON])
def test_a_file_with_other_rows_than_were_published_is_refused(
    form: OutputFormat, tmp_path: Path
) -> None:
    reader = reading(tmp_path, form)
    uri = written(reader)

    with pytest.raises(StateError, match="10 rows"):
        ids(reader, FileRows(uri, ROWS + 1, 0, ROWS + 1))


def test_a_file_that_is_gone_is_told_from_one_that_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="is gone"):
        ids(reading(tmp_path), FileRows((tmp_path / "none.parquet").as_uri(), 1, 0, 1))
