"""Work units share files, and leave them: which rows are where is known after each step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.model.job import OutputFormat, PublishMode
from dil.publishing.moves import shared_moves
from dil.reshaping.files import DatasetFiles
from dil.reshaping.shared_files import SharedFileWriter, shared_file_of
from tests.merging import FILES, Lake
from tests.unit.publishing.published import unit

UNITS = 5
SCHEMA = pa.schema([("unit", pa.int64()), ("row", pa.int64())])
readings = st.dictionaries(st.integers(0, UNITS - 1), st.integers(0, 4), min_size=1)


def lake(folder: Path, **how: object) -> Lake:
    return Lake(folder, None, **{"mode": PublishMode.APPEND, "shares": True, **how})


def run(there: Lake, counts: Mapping[int, int]) -> None:
    """Publish a run in which each work unit has so many rows."""
    there.run(
        *(
            there.stage_unit(
                number,
                pa.Table.from_pylist(
                    [{"unit": number, "row": there.runs * 100 + row} for row in range(rows)], SCHEMA
                ),
            )
            for number, rows in sorted(counts.items())
        )
    )


def rows_by_unit(there: Lake) -> dict[int, list[int]]:
    """Return the rows of each work unit, looked up where the manifest says that they are."""
    names = {unit(number).signature: number for number in range(2_000)}
    found: dict[int, list[int]] = {}
    for file in there.live:
        rows = there.rows_of(file)
        assert len(rows) == file.rows == sum(each.rows for each in file.unit_rows)
        for each in file.unit_rows:
            own = rows[each.start : each.start + each.rows]
            assert {row["unit"] for row in own} == {names[each.signature]}
            found.setdefault(names[each.signature], []).extend(row["row"] for row in own)
    return found


def compact(there: Lake) -> None:
    """Put all files together, as an act does."""
    if len(there.live) < 2:
        return
    dataset_files = DatasetFiles(
        there.job.publishing.final_dir, str(there.folder / "new"), there.job.writing
    )
    plan = shared_file_of(there.live, "all", FILES.path_of)
    made = SharedFileWriter(dataset_files, SCHEMA)(plan)
    (move,) = shared_moves(there.job, f"compact-{there.runs}", [made], FILES.uri)
    FILES.move(move.source, FILES.path_of(move.target.uri))
    for file in there.live:
        FILES.delete_file(FILES.path_of(file.uri))
    there.live = (move.target,)
    there.runs += 1


@settings(max_examples=40, deadline=None)
@given(st.lists(readings, min_size=1, max_size=5))
def test_runs_that_append_make_a_file_each_and_keep_whose_rows_are_where(
    runs: list[dict[int, int]],
) -> None:
    with TemporaryDirectory() as folder:
        there = lake(Path(folder))
        expected: dict[int, list[int]] = {}
        for counts in runs:
            for number, rows in counts.items():
                if rows:
                    first = there.runs * 100
                    expected.setdefault(number, []).extend(range(first, first + rows))
            run(there, counts)
        assert rows_by_unit(there) == expected
        assert len(there.live) == sum(any(counts.values()) for counts in runs)


@settings(max_examples=60, deadline=None)
@given(st.lists(readings | st.just({}), min_size=1, max_size=7))
def test_a_window_that_is_read_again_has_its_newest_rows_alone_whatever_was_put_together(
    steps: list[dict[int, int]],
) -> None:
    with TemporaryDirectory() as folder:
        there = lake(Path(folder), mode=PublishMode.WINDOW_REPLACE, shares=False)
        expected: dict[int, list[int]] = {}
        for counts in steps:
            if not counts:  # no reading: a compaction
                compact(there)
                assert len(there.live) <= 1
                continue
            for number, rows in counts.items():
                first = there.runs * 100
                expected[number] = list(range(first, first + rows))
            run(there, counts)
            assert rows_by_unit(there) == {name: rows for name, rows in expected.items() if rows}


@pytest.mark.slow
def test_2000_work_units_make_one_file(tmp_path: Path) -> None:
    there = lake(tmp_path)
    run(there, dict.fromkeys(range(2_000), 1))

    (file,) = there.live
    assert (file.rows, len(file.units)) == (2_000, 2_000)
    assert len(rows_by_unit(there)) == 2_000
    assert pq.ParquetFile(FILES.path_of(file.uri)).num_row_groups == 1


def test_done_again_from_scratch_it_gives_the_same_names_and_rows(tmp_path: Path) -> None:
    there = lake(tmp_path)
    staged = [
        there.stage_unit(number, pa.table({"unit": [number], "row": [7]}, SCHEMA))
        for number in range(4)
    ]
    there.reshaped(*staged)
    first = there.commit
    there.reshaped(*staged)

    assert [move.target for move in there.commit.moves] == [move.target for move in first.moves]
    assert all(Path(file.path).exists() for each in staged for file in each.report.files)


@pytest.mark.parametrize("form", OutputFormat)
def test_rows_leave_a_shared_file_of_every_format(form: OutputFormat, tmp_path: Path) -> None:
    there = lake(tmp_path, form=form, mode=PublishMode.WINDOW_REPLACE, shares=False)
    run(there, {0: 2, 1: 3, 2: 1})
    compact(there)
    run(there, {1: 2})
    assert rows_by_unit(there) == {0: [0, 1], 1: [200, 201], 2: [0]}
