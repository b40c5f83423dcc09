"""One schema over the work units of a run, and over the runs of a dataset."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from dil.errors import ConversionError
from dil.model.job import OutputFormat, PublishMode
from dil.publishing.staged import RESULT_NAME
from tests.merging import FILES, Lake

pytestmark = pytest.mark.slow

T = pa.table
LONG, INT, DOUBLE, TEXT = pa.int64(), pa.int32(), pa.float64(), pa.string()


def lake(folder: Path, **how: object) -> Lake:
    return Lake(folder, None, **{"mode": PublishMode.APPEND, **how})


def types(of: Lake) -> list[dict[str, str]]:
    """Return the columns of each file with their types."""
    return [{f.name: str(f.type) for f in of._table(FILES.path_of(x.uri)).schema} for x in of.live]


def values(of: Lake, name: str) -> list[object]:
    tables = (of._table(FILES.path_of(file.uri)) for file in of.live)
    return [value for table in tables for value in table[name].to_pylist()]


@pytest.mark.parametrize(
    ("one", "other", "kind", "expected"),
    [
        (pa.array([1], INT), pa.array([2**40], LONG), "int64", [1, 2**40]),
        (pa.array([1], INT), pa.array([1.5], DOUBLE), "double", [1.0, 1.5]),
        (pa.array([7], LONG), pa.array(["x"], TEXT), "string", ["7", "x"]),
        (
            pa.array([3], LONG), pa.array([Decimal("1.25")], pa.decimal128(5, 2)),
            "decimal128(21, 2)", [Decimal("3.00"), Decimal("1.25")],
        ),
        (pa.array([dt.date(2024, 1, 2)]), pa.array(["?"]), "string", ["2024-01-02", "?"]),
        ([{"a": 1}], [{"b": "x"}], "struct<a: int64, b: string>",
         [{"a": 1, "b": None}, {"a": None, "b": "x"}]),
    ],
)  # fmt: skip
def test_files_of_unlike_types_are_published_in_the_type_that_holds_both(
    tmp_path: Path, one: object, other: object, kind: str, expected: list[object]
) -> None:
    there = lake(tmp_path)

    there.run(there.stage_unit(0, T({"v": one})), there.stage_unit(1, T({"v": other})))

    assert types(there) == [{"v": kind}] * 2
    assert values(there, "v") == expected
    assert there.known == f"v: {kind}"


def test_a_file_that_has_the_types_already_is_not_written_again(tmp_path: Path) -> None:
    there = lake(tmp_path)
    double = there.stage_unit(0, T({"v": [1.5]}))
    staged = double.report.files[0]

    there.run(double, there.stage_unit(1, T({"v": [1]})))

    assert there.commit.moves[0].source == staged.path
    assert "_reshaped" in there.commit.moves[1].source


@pytest.mark.parametrize("form", [OutputFormat.PARQUET, OutputFormat.JSON, OutputFormat.ORC])
def test_a_column_that_is_not_there_needs_no_rewriting(tmp_path: Path, form: OutputFormat) -> None:
    there = lake(tmp_path, form=form)

    there.run(there.stage_unit(0, T({"a": [1]})), there.stage_unit(1, T({"b": ["x"]})))

    assert not any("_reshaped" in move.source for move in there.commit.moves)
    assert there.known == "a: int64\nb: string"


def test_csv_files_have_the_same_columns_in_the_same_order(tmp_path: Path) -> None:
    there = lake(tmp_path, form=OutputFormat.CSV)
    there.run(there.stage_unit(0, T({"a": [1], "b": ["x"]})))

    there.run(there.stage_unit(1, T({"b": ["y"], "a": [2]})), there.stage_unit(2, T({"b": ["z"]})))

    texts = [Path(FILES.path_of(file.uri)).read_text() for file in there.live]
    assert texts == ['"a","b"\n1,"x"\n', '"a","b"\n2,"y"\n', '"a","b"\n,"z"\n']


def test_a_narrower_column_is_written_in_the_type_that_the_dataset_has(tmp_path: Path) -> None:
    there = lake(tmp_path)
    there.run(there.stage_unit(0, T({"v": [1.5]})))

    there.run(there.stage_unit(1, T({"v": pa.array([2], INT)})))

    assert types(there) == [{"v": "double"}] * 2
    assert there.known == "v: double"


def test_the_type_of_a_column_without_values_is_a_guess_and_counts_nothing(tmp_path: Path) -> None:
    there = lake(tmp_path)
    empty = pa.array([None, None], TEXT)

    there.run(
        there.stage_unit(0, T({"v": empty, "w": empty})),
        there.stage_unit(1, T({"v": [1.5], "w": [{"a": 1}]})),
    )

    assert types(there) == [{"v": "double", "w": "struct<a: int64>"}] * 2
    assert values(there, "v") == [None, None, 1.5]


def test_replaced_rows_say_nothing_about_types(tmp_path: Path) -> None:
    there = lake(tmp_path, mode=PublishMode.REPLACE)
    there.run(there.stage_unit(0, T({"v": ["x"]})))

    there.run(there.stage_unit(0, T({"v": [1]})))

    assert types(there) == [{"v": "int64"}]
    assert there.known == "v: int64"


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ([{"a": 1}], ["x"], 'column "v" is string here, and struct<a: int64> in the'),
        ([[1]], [1], 'column "v" is int64 here, and list<'),
        ([2**53 + 1], [0.5], 'column "v": a value of type int64 does not fit double exactly'),
    ],
)
def test_what_no_type_holds_is_an_error_and_read_anew(
    tmp_path: Path, one: object, other: object, told: str
) -> None:
    there = lake(tmp_path)
    units = [there.stage_unit(0, T({"v": one})), there.stage_unit(1, T({"v": other}))]
    results = [Path(each.report.files[0].path).with_name(RESULT_NAME) for each in units]
    for each in results:
        each.write_text("{}")

    with pytest.raises(ConversionError) as caught:
        there.run(*units)

    assert told in caught.value.message
    assert "ms.output.schema" in caught.value.fix
    # The attempt of the work unit that is named is not complete any more.
    named = [unit.work_unit.signature in caught.value.message for unit in units]
    assert [not each.exists() for each in results] == named
    assert sum(named) == 1


def test_a_rewritten_file_goes_where_the_staged_one_was_to_go(tmp_path: Path) -> None:
    """A column that stands in the folder's name is not put into the file."""
    there = lake(tmp_path)
    unit = there.stage_unit(0, T({"v": [1]}))
    (file,) = unit.report.files
    apart = replace(file, folder="region=north", timelabel="20240101")
    schema = "v: int64\nregion: string"
    report = replace(unit.report, files=(apart,), schema=schema)

    there.run(replace(unit, report=report), there.stage_unit(1, T({"v": [1.5]})))

    assert "/region=north/part-" in FILES.path_of(there.live[0].uri)
    assert there.live[0].timelabel == "20240101"
    assert types(there)[0] == {"v": "double"}
    assert there.known == "v: double\nregion: string"
