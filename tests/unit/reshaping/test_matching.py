"""What a merge reads and writes again: as little as the statistics of the files allow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from dil.errors import ConversionError, WriteError
from dil.model.destination import MergeSpec
from dil.model.job import OutputFormat
from dil.publishing.results import FinishedUnit
from tests.merging import FILES, Lake

pytestmark = pytest.mark.slow

T = pa.table


def rows(keys: range, **more: list[object]) -> pa.Table:
    return T({"id": list(keys), "at": [0] * len(keys), "v": [str(key) for key in keys], **more})


def spread(folder: Path, **how: object) -> Lake:
    """Return ten files of a hundred keys each, in row groups of ten."""
    there = Lake(folder, row_group_rows=10, **how)
    there.run(*(there.stage_unit(n, rows(range(n * 100, n * 100 + 100))) for n in range(10)))
    return there


def test_only_files_whose_rows_change_are_written_again(tmp_path: Path) -> None:
    there = spread(tmp_path)
    before = {file.uri for file in there.live}

    shaped = there.run(there.stage_unit(0, T({"id": [205, 207, 899, 5000], "at": [1] * 4})))

    assert [file.rows for file in shaped.replaced] == [100, 100]
    assert [file.rows for file in shaped.rewritten] == [98, 99]
    assert len(before & {file.uri for file in there.live}) == 8


def test_files_that_cannot_hold_a_changed_key_are_not_opened(tmp_path: Path) -> None:
    """All but their footers could be rubbish."""
    there = spread(tmp_path)
    for file in there.live:
        if not file.uri.endswith(there.live[2].uri[-24:]):
            path = Path(FILES.path_of(file.uri))
            data = bytearray(path.read_bytes())
            footer = int.from_bytes(data[-8:-4], "little") + 8
            data[4:-footer] = bytes(len(data) - footer - 4)
            path.write_bytes(data)

    shaped = there.reshaped(there.stage_unit(0, T({"id": [205], "at": [1]})))

    assert shaped.replaced == (there.live[2],)


def test_row_groups_that_cannot_hold_a_changed_key_are_not_read(tmp_path: Path) -> None:
    there = spread(tmp_path)
    changes = there.stage_unit(0, T({"id": [205], "at": [-1]}))
    path = Path(FILES.path_of(there.live[2].uri))
    data = bytearray(path.read_bytes())
    data[4:300] = bytes(296)  # in the first row group: keys 200 to 209
    path.write_bytes(data)

    with pytest.raises(WriteError) as caught:
        there.reshaped(changes)
    assert f"{path} cannot be read back" in caught.value.message
    other = there.stage_unit(1, T({"id": [295], "at": [-1]}))
    assert there.reshaped(other).replaced == ()


def test_a_staged_file_is_published_as_it_is_unless_a_row_of_it_loses(tmp_path: Path) -> None:
    there = spread(tmp_path)
    wins = there.stage_unit(0, T({"id": [1, 2000], "at": [1, 1]}))
    loses = there.stage_unit(1, T({"id": [2, 2001], "at": [-1, 1]}))

    there.run(wins, loses)

    sources = {move.source: move.target.rows for move in there.commit.moves}
    assert sources[wins.report.files[0].path] == 2
    assert loses.report.files[0].path not in sources
    assert sorted(sources.values()) == [1, 2, 99]


def test_a_run_whose_rows_all_lose_publishes_no_file(tmp_path: Path) -> None:
    there = spread(tmp_path)

    there.run(there.stage_unit(0, T({"id": [1, 2], "at": [-1, None]})))

    assert (there.commit.moves, there.commit.removes) == ((), ())


def test_a_file_stays_in_its_folder_and_keeps_its_timelabel(tmp_path: Path) -> None:
    there = Lake(tmp_path)
    unit = there.stage_unit(0, rows(range(3)))
    (file,) = unit.report.files
    labelled = replace(file, folder="y=2024/m=01", timelabel="20240101")
    there.run(replace(unit, report=replace(unit.report, files=(labelled,))))

    there.run(there.stage_unit(1, T({"id": [1], "at": [1]})))

    (kept,) = (file for file in there.live if file.rows == 2)
    assert "/y=2024/m=01/part-r1-merged-0.parquet" in FILES.path_of(kept.uri)
    assert kept.timelabel == "20240101"
    assert kept.signature == ""


def test_keys_of_other_widths_are_equal(tmp_path: Path) -> None:
    there = Lake(tmp_path)
    there.run(there.stage_unit(0, T({"id": pa.array([1, 2], pa.int32()), "at": [0, 0]})))

    there.run(there.stage_unit(1, T({"id": pa.array([2, 2**40], pa.int64()), "at": [1, 1]})))

    assert [(row["id"], row["at"]) for row in there.rows()] == [(1, 0), (2, 1), (2**40, 1)]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("bucket_rows", [1, 1_000_000])
def test_fractions_are_one_key_if_they_are_equal_or_not_a_number(
    tmp_path: Path, bucket_rows: int, kind: pa.DataType
) -> None:
    there = Lake(tmp_path, bucket_rows=bucket_rows)
    nan = float("nan")
    first, again = [0.0, nan, -0.0, -nan, 1.5], [-0.0, -nan, 2.5]
    there.run(there.stage_unit(0, T({"id": pa.array(first, kind), "at": [0, 0, 1, 1, 0]})))
    assert sorted(map(str, there.table()["id"].to_pylist())) == ["-0.0", "1.5", "nan"]

    there.run(there.stage_unit(1, T({"id": pa.array(again, kind), "at": [2, 2, 2]})))

    rows = sorted((str(row["id"]), row["at"]) for row in there.table().to_pylist())
    assert rows == [("-0.0", 2), ("1.5", 0), ("2.5", 2), ("nan", 2)]


def test_a_whole_number_equals_the_same_fraction(tmp_path: Path) -> None:
    """The bounds of the first file are whole numbers; its rows are written again as fractions."""
    there = Lake(tmp_path)
    there.run(there.stage_unit(0, T({"id": [0, 3], "at": [0, 0]})))

    there.run(there.stage_unit(1, T({"id": [-0.0, 0.5], "at": [1, 1]})))

    assert [(row["id"], row["at"]) for row in there.rows()] == [(0, 1), (0.5, 1), (3, 0)]


def in_folders(unit: FinishedUnit) -> FinishedUnit:
    """Return a work unit with a folder for each of its files."""
    files = (replace(file, folder=f"f={n}") for n, file in enumerate(unit.report.files))
    return replace(unit, report=replace(unit.report, files=tuple(files)))


@pytest.mark.parametrize("bucket_rows", [1, 1_000_000])
@pytest.mark.parametrize(
    ("one", "other", "is_known"),
    [
        (1, 1, False),
        (None, None, False),
        (float("nan"), None, False),
        (2, 1, True),
        (0, None, True),
    ],
)
def test_of_rows_in_several_folders_only_the_delta_tells_the_newest(
    tmp_path: Path, bucket_rows: int, one: float | None, other: float | None, *, is_known: bool
) -> None:
    there = Lake(tmp_path, bucket_rows=bucket_rows)
    kind = pa.float64()
    before = there.stage_unit(0, T({"id": [7], "at": pa.array([other], kind), "v": ["before"]}))
    unit = there.stage_unit(
        1,
        T({"id": [1, 7], "at": pa.array([0, one], kind), "v": ["x", "one"]}),
        T({"id": [7, 9], "at": pa.array([other, 0], kind), "v": ["other", "y"]}),
    )

    if is_known:
        there.run(before, in_folders(unit))
        assert {row["id"]: row["v"] for row in there.rows()} == {1: "x", 7: "one", 9: "y"}
    else:
        with pytest.raises(ConversionError, match=r"of 1 key there are rows"):
            there.run(before, in_folders(unit))
        there.run(before, unit)
        assert {row["id"]: row["v"] for row in there.rows()} == {1: "x", 7: "other", 9: "y"}


def test_a_key_with_a_dot_is_not_taken_for_a_member_of_a_record(tmp_path: Path) -> None:
    there = Lake(tmp_path, MergeSpec(("a.b",), ("at",)))
    there.run(there.stage_unit(0, T({"a.b": [1, 2], "at": [0, 0], "a": [{"b": 100}, {"b": 200}]})))

    there.run(there.stage_unit(1, T({"a.b": [2], "at": [1], "a": [{"b": 5}]})))

    assert [(row["a.b"], row["a"]) for row in there.rows()] == [(1, {"b": 100}), (2, {"b": 5})]


def test_rows_that_were_doubled_before_go_together(tmp_path: Path) -> None:
    there = Lake(tmp_path)
    doubled = T({"id": [1, 1, 2], "at": [0, 0, 0], "v": ["a", "b", "c"]})
    there.spec, spec = None, there.spec
    there.run(there.stage_unit(0, doubled))
    there.spec = spec
    there.__dict__.pop("job")

    there.run(there.stage_unit(1, T({"id": [1], "at": [1], "v": ["new"]})))

    assert [row["v"] for row in there.rows()] == ["new", "c"]


def test_a_live_file_with_a_column_that_nobody_recorded_does_not_lose_it(tmp_path: Path) -> None:
    there = Lake(tmp_path)
    there.run(there.stage_unit(0, rows(range(3), more=[1, 2, 3])))
    there.known = "id: int64\nat: int64\nv: string"

    with pytest.raises(ConversionError) as caught:
        there.run(there.stage_unit(1, T({"id": [1], "at": [1]})))

    assert 'column "more"' in caught.value.message


def test_without_a_recorded_schema_the_files_tell_theirs(tmp_path: Path) -> None:
    there = Lake(tmp_path)
    there.run(there.stage_unit(0, rows(range(3), more=[1, 2, 3])))
    there.known = ""

    there.run(there.stage_unit(1, T({"id": [1], "at": [1]})))

    assert [row["more"] for row in there.rows()] == [1, None, 3]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (MergeSpec(("id", "nr")), 'extract.primary.key.fields names "nr"'),
        (MergeSpec(("id",), ("changed",)), 'extract.delta.fields names "changed"'),
        (MergeSpec(("v",)), 'extract.primary.key.fields names "v", a column of struct<'),
    ],
)
def test_columns_that_cannot_be_merged_by_are_told(
    tmp_path: Path, spec: MergeSpec, told: str
) -> None:
    there = Lake(tmp_path, spec)

    with pytest.raises(ConversionError) as caught:
        there.run(there.stage_unit(0, T({"id": [1], "v": [{"a": 1}]})))

    assert told in caught.value.message


# Which row stays


def test_a_later_delta_field_decides_only_between_rows_that_are_equal_in_the_fields_before_it(
    tmp_path: Path,
) -> None:
    there = Lake(tmp_path, spec=MergeSpec(("id",), ("at", "step")))
    there.run(there.stage_unit(0, T({"id": [1, 2, 3], "at": [5, 5, 4], "step": [1, 1, 9]})))

    there.run(there.stage_unit(1, T({"id": [1, 2, 3], "at": [4, 5, 5], "step": [9, 9, 1]})))

    assert [(row["at"], row["step"]) for row in there.rows()] == [(5, 1), (5, 9), (5, 1)]


def test_a_row_that_says_that_its_key_was_deleted_is_not_published(tmp_path: Path) -> None:
    there = Lake(tmp_path, spec=MergeSpec(("id",), ("at",), "op", ("D",)))
    there.run(there.stage_unit(0, T({"id": [1, 2], "at": [0, 0], "op": ["I", "I"]})))

    there.run(there.stage_unit(1, T({"id": [1, 3], "at": [1, 1], "op": ["D", "D"]})))

    assert [row["id"] for row in there.rows()] == [2]


def test_files_without_bounds_are_searched_for_each_changed_key(tmp_path: Path) -> None:
    there = Lake(tmp_path, form=OutputFormat.AVRO)
    there.run(there.stage_unit(0, T({"id": [1, 2], "at": [0, 0]})))

    shaped = there.run(there.stage_unit(1, T({"id": [2, 3], "at": [1, 1]})))

    assert [file.rows for file in shaped.replaced] == [2]
    assert sum(file.rows for file in there.live) == 3
