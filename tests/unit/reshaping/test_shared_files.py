"""Which rows of a shared file are whose, and which rows of its pieces it has."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.errors import ConversionError
from dil.model.dataset import PublishedFile, UnitRows
from dil.model.job import OutputFormat, WritingSpec
from dil.reshaping.files import DatasetFiles
from dil.reshaping.shared_files import SharedFilePiece, SharedFilePlan, SharedFileWriter, rest_of

SCHEMA = pa.schema([("unit", pa.string()), ("number", pa.int64())])
NAMES = "abcde"


@st.composite
def pieces(draw: st.DrawFn) -> list[SharedFilePiece]:
    """Return files with the rows of some work units, of which not all need be taken."""
    found = []
    for number in range(draw(st.integers(1, 5))):
        counts = draw(st.lists(st.integers(1, 7), min_size=1, max_size=6))
        names = [draw(st.sampled_from(NAMES)) for _ in counts]
        starts = [sum(counts[:place]) for place in range(len(counts))]
        units = list(map(UnitRows, names, starts, counts))
        taken = [each for each in units if draw(st.booleans())] or units
        found.append(SharedFilePiece(f"/lake/{number}.parquet", sum(counts), tuple(taken)))
    return found


@given(pieces())
def test_the_rows_of_a_shared_file_are_told_apart_without_gaps(
    found: list[SharedFilePiece],
) -> None:
    units = SharedFilePlan("j", tuple(found), "/lake").units

    ends = [each.start + each.rows for each in units]
    assert [each.start for each in units] == [0, *ends[:-1]]
    taken = [name for piece in found for each in piece.units for name in each.signature * each.rows]
    assert [name for each in units for name in each.signature * each.rows] == taken


@given(pieces())
def test_ranges_hold_just_the_rows_that_are_taken(found: list[SharedFilePiece]) -> None:
    for piece in found:
        rows = [row for low, high in piece.ranges for row in range(low, high)]
        wanted = [row for each in piece.units for row in range(each.start, each.start + each.rows)]
        assert rows == wanted


def test_of_one_unknown_piece_all_is_unknown() -> None:
    known = SharedFilePiece("/a", 2, (UnitRows("a", 0, 2),))
    assert SharedFilePlan("j", (known, SharedFilePiece("/b", 3)), "/lake").units == ()
    assert SharedFilePiece("/b", 3).ranges == ((0, 3),)


@given(st.data(), pieces())
def test_a_shared_file_has_the_rows_that_were_taken_in_their_order(
    data: st.DataObject, found: list[SharedFilePiece]
) -> None:
    with TemporaryDirectory() as folder:
        placed, expected = [], []
        for number, piece in enumerate(found):
            rows = [{"unit": str(number), "number": row} for row in range(piece.rows)]
            path = f"{folder}/{number}.parquet"
            group = data.draw(st.integers(1, 9))
            pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path, row_group_size=group)
            placed.append(SharedFilePiece(path, piece.rows, piece.units))
            expected += [row for low, high in piece.ranges for row in rows[low:high]]
        spec = WritingSpec(format=OutputFormat.PARQUET, target_bytes=1)
        dataset_files = DatasetFiles(folder, f"{folder}/staged", spec)

        plan = SharedFilePlan("j", tuple(placed), "/lake/x", "label")
        made = SharedFileWriter(dataset_files, SCHEMA)(plan)

        assert pq.read_table(made.file.path).to_pylist() == expected
        assert (made.file.rows, made.folder) == (len(expected), "/lake/x")
        assert made.file.timelabel == "label"
        assert sum(each.rows for each in made.units) == len(expected)


def test_a_file_with_other_rows_than_it_should_have_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"unit": ["a"], "number": [1]}, schema=SCHEMA), path)
    dataset_files = DatasetFiles(
        str(tmp_path), str(tmp_path / "staged"), WritingSpec(OutputFormat.PARQUET)
    )
    for rows in (2, 3):
        piece = SharedFilePiece(str(path), rows, (UnitRows("a", 0, 1),))
        with pytest.raises(ConversionError, match="has 1 row, and"):
            SharedFileWriter(dataset_files, SCHEMA)(SharedFilePlan("j", (piece,), str(tmp_path)))
    assert not list((tmp_path / "staged").rglob("*.parquet"))


def test_what_stays_of_a_file_is_what_is_not_of_the_work_units_that_leave() -> None:
    units = (UnitRows("a", 0, 2), UnitRows("b", 2, 1), UnitRows("a", 3, 4))
    file = PublishedFile("file:///lake/x/f.parquet", "", 7, 70, "", "r", "label", units=units)

    rest = rest_of(file, "/lake/x/f.parquet", frozenset("a"), "rest")

    assert rest is not None
    assert rest.pieces == (SharedFilePiece("/lake/x/f.parquet", 7, (units[1],)),)
    assert (rest.folder, rest.timelabel) == ("/lake/x", "label")
    assert rest_of(file, "/lake/x/f.parquet", frozenset("ab"), "rest") is None
    alone = PublishedFile("file:///lake/x/f.parquet", "a", 7, 70, "", "r")
    assert rest_of(alone, "/lake/x/f.parquet", frozenset("a"), "rest") is None
