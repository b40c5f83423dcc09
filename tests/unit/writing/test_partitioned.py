"""Rows that are kept apart: by columns, by timelabel, by both."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.errors import ConversionError, WriteError
from dil.model.job import OutputFormat, WritingSpec
from dil.model.task import StagedFile
from dil.storage import Folder, LocalFilesystem
from dil.text.file_names import HIVE_NULL
from dil.writing import partitioned
from dil.writing.formats import reader_for, writer_for
from dil.writing.ownership import give
from dil.writing.partitioned import PartitionedWriter, RowPartitioning
from dil.writing.rolling import OutputFolder

SPEC = WritingSpec(format=OutputFormat.PARQUET)


def apart(
    staging: Path, *fields: str, kind: OutputFormat = OutputFormat.PARQUET, **by: Any
) -> PartitionedWriter:
    spec = WritingSpec(format=kind, row_group_rows=8)
    output = OutputFolder(Folder(LocalFilesystem(), str(staging)), spec, writer_for(kind))
    return PartitionedWriter(output, RowPartitioning(fields, **by))


def rows(**columns: list[Any]) -> pa.RecordBatch:
    return pa.record_batch(columns)


def in_folders(files: tuple[StagedFile, ...], column: str = "a") -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for file in files:
        found.setdefault(file.folder, []).extend(pq.read_table(file.path)[column].to_pylist())
    return {folder: sorted(values) for folder, values in found.items()}


def test_rows_of_one_value_are_in_one_file_without_the_column(tmp_path: Path) -> None:
    writer = apart(tmp_path, "shop")
    writer.write(rows(shop=["x", "y", "x"], a=[1, 2, 3]))
    writer.write(rows(shop=["y", None], a=[4, 5]))
    files = writer.finish()

    assert in_folders(files) == {"shop=x": [1, 3], "shop=y": [2, 4], f"shop={HIVE_NULL}": [5]}
    assert {tuple(pq.read_schema(file.path).names) for file in files} == {("a",)}
    assert writer.schema is not None
    assert writer.schema.names == ["shop", "a"]
    assert len({file.path for file in files}) == len(files) == 3
    assert sum(file.rows for file in files) == 5


def test_a_table_format_may_want_the_column_in_the_files(tmp_path: Path) -> None:
    writer = apart(tmp_path, "shop", keeps_columns=True)
    writer.write(rows(shop=["x", "", None], a=[1, 2, 3]))
    files = writer.finish()
    # An empty text and null have one folder, and a file each: Iceberg tells them apart.
    found = [(file.folder, pq.read_table(file.path).to_pylist()) for file in files]
    assert found == [
        ("shop=x", [{"shop": "x", "a": 1}]),
        (f"shop={HIVE_NULL}", [{"shop": "", "a": 2}]),
        (f"shop={HIVE_NULL}", [{"shop": None, "a": 3}]),
    ]


@pytest.mark.parametrize("kind", list(OutputFormat))
def test_files_of_every_format_have_one_schema_though_types_widen(
    tmp_path: Path, kind: OutputFormat
) -> None:
    writer = apart(tmp_path, "p", kind=kind)
    writer.write(rows(p=[1, 2], a=pa.array([1, 2], pa.int32())))
    writer.write(rows(p=[2, 3], a=[2**40, 4]))
    writer.write(rows(p=["x", "1"], a=[5, 6]))
    files = writer.finish()

    read = reader_for(writer_for(kind))
    assert read is not None
    found: dict[str, list[int]] = {}
    for file in files:
        with Path(file.path).open("rb") as stream:
            for batch in read(stream, pa.schema([("a", pa.int64())]), WritingSpec(format=kind)):
                found.setdefault(file.folder, []).extend(batch["a"].to_pylist())
    assert found == {"p=1": [1, 6], "p=2": [2, 2**40], "p=3": [4], "p=x": [5]}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        Path(file.path).name for file in files
    )


def test_several_columns_make_folders_in_their_order(tmp_path: Path) -> None:
    writer = apart(tmp_path, "day", "paid")
    days = pa.array(["2020-01-01", "2020-01-02"]).cast(pa.date32())
    writer.write(rows(paid=[True, False], day=days, a=[1, 2]))
    assert in_folders(writer.finish()) == {
        "day=2020-01-01/paid=true": [1],
        "day=2020-01-02/paid=false": [2],
    }


def test_numbers_have_one_form_whatever_the_scale_of_their_type(tmp_path: Path) -> None:
    writer = apart(tmp_path, "p")
    writer.write(rows(p=[10], a=[1]))
    writer.write(rows(p=pa.array([Decimal("10.00"), Decimal("1.50")]), a=[2, 3]))
    assert in_folders(writer.finish()) == {"p=10": [1, 2], "p=1.5": [3]}


def test_what_no_folder_can_be_named_is_quoted_and_read_back_by_arrow(tmp_path: Path) -> None:
    values = ["a/b", "50%", "x=y", "..", "ümlaut", "a b", 'q"', "12:30", "tab\t", "_x", "[1]"]
    writer = apart(tmp_path / "staged", "p")
    writer.write(rows(p=values, a=list(range(len(values)))))
    for file in writer.finish():
        target = tmp_path / "lake" / file.folder / Path(file.path).name
        target.parent.mkdir(parents=True)
        assert len(target.relative_to(tmp_path / "lake").parts) == 2
        Path(file.path).rename(target)
    typed = ds.partitioning(pa.schema([("p", pa.string())]), flavor="hive")
    found = ds.dataset(tmp_path / "lake", partitioning=typed).to_table().to_pylist()
    assert {row["p"]: row["a"] for row in found} == {v: n for n, v in enumerate(values)}


@pytest.mark.parametrize(
    "values",
    [[0.5], [b"x"], [["x"]], pa.array([0], pa.timestamp("us", tz="UTC"))],
    ids=["double", "bytes", "list", "timestamp"],
)
def test_a_column_whose_values_are_no_names_is_an_error(tmp_path: Path, values: Any) -> None:
    writer = apart(tmp_path, "p")
    writer.write(rows(p=values, a=[1]))
    with pytest.raises(ConversionError, match='names "p", which holds'):
        writer.finish()


@pytest.mark.parametrize("value", [HIVE_NULL, "x" * 260])
def test_a_value_that_would_be_lost_is_an_error(tmp_path: Path, value: str) -> None:
    writer = apart(tmp_path, "p")
    writer.write(rows(p=[value], a=[1]))
    with pytest.raises(ConversionError):
        writer.finish()
    writer.abort()
    assert list(tmp_path.iterdir()) == []


def test_a_column_that_no_row_has_is_an_error_at_the_end(tmp_path: Path) -> None:
    writer = apart(tmp_path, "p")
    writer.write(rows(a=[1]))
    with pytest.raises(ConversionError, match=r'names "p", but the rows have no such column'):
        writer.finish()


def test_a_column_that_comes_later_is_null_before(tmp_path: Path) -> None:
    writer = apart(tmp_path, "p")
    writer.write(rows(a=[1]))
    writer.write(rows(a=[2], p=["x"]))
    assert in_folders(writer.finish()) == {f"p={HIVE_NULL}": [1], "p=x": [2]}


def test_rows_need_a_column_besides(tmp_path: Path) -> None:
    writer = apart(tmp_path, "p")
    writer.write(rows(p=["x"]))
    with pytest.raises(ConversionError, match="every column"):
        writer.finish()


class CountingDisk(LocalFilesystem):
    """Counts the files that are open at once."""

    def __init__(self) -> None:
        self.open = self.most = 0

    def open_output(self, path: str) -> Any:
        stream = super().open_output(path)
        self.open += 1
        self.most = max(self.most, self.open)
        close = stream.close

        def closing() -> None:
            self.open -= not stream.closed
            close()

        stream.close = closing  # type: ignore[method-assign]
        return stream


def test_no_more_files_are_open_than_allowed_and_pieces_are_put_together(tmp_path: Path) -> None:
    disk = CountingDisk()
    output = OutputFolder(Folder(disk, str(tmp_path)), SPEC, writer_for(SPEC.format))
    writer = PartitionedWriter(output, RowPartitioning(("p",), most_open=3))
    for turn in range(4):
        writer.write(rows(p=list(range(10)), a=[10 * turn + n for n in range(10)]))
    files = writer.finish()
    assert disk.most == 3
    assert [file.rows for file in files] == [4] * 10
    assert in_folders(files)["p=7"] == [7, 17, 27, 37]
    assert len(list(tmp_path.iterdir())) == 10


def test_rows_wait_for_their_turn_only_as_long_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioned, "HELD_BYTES", 20_000)
    monkeypatch.setattr(partitioned, "_SPLIT_ROWS", 1)
    disk = CountingDisk()
    output = OutputFolder(Folder(disk, str(tmp_path)), SPEC, writer_for(SPEC.format))
    writer = PartitionedWriter(output, RowPartitioning(("p",), most_open=2))
    for turn in range(10):
        writer.write(rows(p=list(range(8)), a=[8 * turn + n for n in range(8)]))
        assert sum(each.bytes for each in writer._waiting.values()) <= 20_000
    assert len(list(tmp_path.iterdir())) > 2
    files = writer.finish()
    assert disk.most == 2
    assert in_folders(files) == {f"p={n}": list(range(n, 80, 8)) for n in range(8)}
    assert len(list(tmp_path.iterdir())) == len(files) == 8


def test_what_all_open_files_hold_in_memory_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioned, "HELD_BYTES", 10_000)
    monkeypatch.setattr(partitioned, "_SPLIT_ROWS", 1)
    output = OutputFolder(Folder(LocalFilesystem(), str(tmp_path)), SPEC, writer_for(SPEC.format))
    writer = PartitionedWriter(output, RowPartitioning(("p",)))
    for _ in range(20):
        writer.write(rows(p=[1, 2] * 100, a=list(range(200))))
        assert sum(lane.held_bytes for lane in writer._lanes.values()) <= 10_000
    assert [file.rows for file in writer.finish()] == [2000, 2000]


def test_rows_of_a_label_are_in_its_lake_folder(tmp_path: Path) -> None:
    writer = apart(tmp_path, "shop", labels_name_folders=True)
    labels = pa.array(["20200101000000", "20200102000000", "20200101000000"])
    writer.write(rows(shop=["x", "x", "y"], a=[1, 2, 3]), labels)
    files = writer.finish()
    assert in_folders(files) == {
        "y=2020/m=01/d=01/h=00/n=00/shop=x": [1],
        "y=2020/m=01/d=02/h=00/n=00/shop=x": [2],
        "y=2020/m=01/d=01/h=00/n=00/shop=y": [3],
    }
    assert {file.timelabel for file in files} == {"20200101000000", "20200102000000"}


def test_rows_without_a_label_of_their_own_are_in_the_folder_of_their_work_unit(
    tmp_path: Path,
) -> None:
    writer = apart(tmp_path, folder="unit", labels_name_folders=True)
    writer.write(rows(a=[1]), pa.array(["20200101000000"]))
    writer.write(rows(a=[2]))
    files = writer.finish()
    assert in_folders(files) == {"y=2020/m=01/d=01/h=00/n=00": [1], "unit": [2]}
    assert [file.timelabel for file in files] == ["20200101000000", ""]


def test_files_are_not_given_to_somebody_who_is_not_there(tmp_path: Path) -> None:
    file = StagedFile(str(tmp_path / "file"), 1, 1, "")
    with pytest.raises(WriteError, match="owner=no-such-user"):
        give([file], "no-such-user", "")
    with pytest.raises(WriteError, match="No such file"):
        give([file], "root", "")
    give([file], "", "")


def test_abort_leaves_nothing(tmp_path: Path) -> None:
    writer = apart(tmp_path, "p", most_open=1)
    writer.abort()
    writer.write(rows(p=["x", "y"], a=[1, 2]))
    writer.abort()
    writer.abort()
    assert list(tmp_path.iterdir()) == []


BATCHES = st.lists(
    st.lists(st.tuples(st.sampled_from(["x", "y", "", None]), st.integers(0, 3)), max_size=30),
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(BATCHES, st.integers(1, 4))
def test_every_row_is_once_in_the_folder_of_its_values(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[tuple[str | None, int]]],
    most: int,
) -> None:
    writer = apart(tmp_path_factory.mktemp("apart"), "p", "q", most_open=most)
    expected: Counter[tuple[str, int]] = Counter()
    number = 0
    for batch in batches:
        p = pa.array([each[0] for each in batch], pa.string())
        q = pa.array([each[1] for each in batch], pa.int64())
        a = list(range(number, number + len(batch)))
        number += len(batch)
        writer.write(rows(p=p, q=q, a=pa.array(a, pa.int64())))
        for (text, other), value in zip(batch, a, strict=True):
            expected[f"p={text or HIVE_NULL}/q={other}", value] += 1
    found = Counter(
        (folder, value)
        for folder, values in in_folders(writer.finish()).items()
        for value in values
    )
    assert found == expected
