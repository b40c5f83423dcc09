"""What a merge records of the rows that it changes.

tests/property/test_merge_laws.py has the law: it adds up to the dataset.
"""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
import pytest

from dil.errors import ConversionError
from dil.model.destination import MergeSpec
from dil.model.job import PublishMode
from tests.merging import Lake

FIRST = [{"id": 1, "at": 1, "name": "a"}, {"id": 2, "at": 1, "name": "b"}]


def run(lake, *rows):
    lake.run(lake.stage_unit(lake.runs, pa.Table.from_pylist(list(rows))))


def changes(lake):
    """Return what the last run recorded, as op, id and name, those of a change together."""
    return [(row["op"], row["id"], row["name"]) for row in lake.changes[-1]]


def test_new_and_changed_rows_are_recorded_and_equal_ones_are_not(tmp_path):
    lake = Lake(tmp_path, changelog=True)
    run(lake, *FIRST)
    assert changes(lake) == [(0, 1, "a"), (0, 2, "b")]

    run(lake, {"id": 2, "at": 2, "name": "B"}, {"id": 1, "at": 1, "name": "a"},
        {"id": 3, "at": 1, "name": "c"})  # fmt: skip
    assert changes(lake) == [(2, 2, "b"), (3, 2, "B"), (0, 3, "c")]

    run(lake, {"id": 2, "at": 0, "name": "older"})
    assert len(lake.changes) == 2, "a run that changed nothing has no changelog"


def test_a_changelog_that_begins_later_begins_with_all_rows_of_before(tmp_path):
    lake = Lake(tmp_path)
    run(lake, *FIRST)
    lake.changelog = True
    del lake.job
    run(lake, {"id": 2, "at": 2, "name": "B"})

    assert changes(lake) == [(0, 1, "a"), (0, 2, "b"), (2, 2, "b"), (3, 2, "B")]
    assert lake.commit.begins_changelog
    assert lake.commit.changelog_dir.endswith("_changelog")
    assert [row["name"] for row in lake.rows()] == ["a", "B"]


def test_rows_that_another_mode_doubled_go_and_the_last_one_of_them_is_corrected(tmp_path):
    lake = Lake(tmp_path, None, mode=PublishMode.APPEND)
    run(lake, *FIRST, *FIRST)
    run(lake, *FIRST)
    lake.changelog, lake.mode, lake.changes = True, PublishMode.MERGE, [[]]
    lake.spec = MergeSpec(("id",))
    del lake.job
    run(lake, {"id": 1, "at": 1, "name": "a"})

    assert changes(lake) == [(1, 1, "a"), (1, 1, "a"), (2, 1, "a"), (3, 1, "a")]
    assert [row["id"] for row in lake.rows()] == [1, 2, 2, 2]


def test_the_steps_can_be_tasks_elsewhere(tmp_path):
    def pickled(function, items, size):
        del size
        return [pickle.loads(pickle.dumps(function))(pickle.loads(pickle.dumps(each)))
                for each in items]  # fmt: skip

    lake = Lake(tmp_path, changelog=True, stage=pickled)
    run(lake, *FIRST)
    run(lake, {"id": 2, "at": 2, "name": "B"}, {"id": 3, "at": 1, "name": "c"})

    assert changes(lake) == [(2, 2, "b"), (3, 2, "B"), (0, 3, "c")]


def test_columns_of_all_types_are_compared(tmp_path):
    lake = Lake(tmp_path, MergeSpec(("id",)), changelog=True)
    nan = float("nan")
    row = {"id": 1, "x": nan, "list": [1, None], "record": {"a": "b", "x": [nan]}, "none": None}
    run(lake, row)
    run(lake, row)
    assert lake.changes[-1] == []
    run(lake, {**row, "list": [1, 2]})
    assert [each["list"] for each in lake.changes[-1]] == [[1, None], [1, 2]]


def test_columns_that_only_folders_name_are_in_the_changelog(tmp_path):
    lake = Lake(tmp_path, MergeSpec(("id",)), changelog=True)

    def placed(day, *ids):
        unit = lake.stage_unit(lake.runs, pa.table({"id": list(ids)}))
        files = tuple(replace(file, folder=f"day={day}") for file in unit.report.files)
        schema = "id: int64\nday: date32[day]"
        return replace(unit, report=replace(unit.report, files=files, schema=schema))

    lake.run(placed("2024-01-01", 1, 2))
    lake.run(placed("2024-01-02", 2))

    found = [(row["op"], row["id"], str(row["day"])) for row in lake.changes[-1]]
    assert found == [(2, 2, "2024-01-01"), (3, 2, "2024-01-02")]


def test_a_column_of_that_name_is_refused(tmp_path):
    lake = Lake(tmp_path, MergeSpec(("id",)), changelog=True)
    with pytest.raises(ConversionError, match='the rows have a column "op"') as error:
        run(lake, {"id": 1, "op": "i"})
    assert "ms.publish.changelog=false" in error.value.fix
