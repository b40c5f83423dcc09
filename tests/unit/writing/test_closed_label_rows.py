"""Rows of closed timelabels go beside the dataset: each to one place, and all of them counted."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dil.writing.late_rows import ClosedLabelRows
from dil.writing.system_columns import RowLabels

DAY = 86_400_000


class Beside:
    """The ids and labels of the rows that went beside the dataset."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, str]] = []

    def write_labelled(
        self, batch: pa.RecordBatch, labels: pa.StringArray, watermark: int | None
    ) -> None:
        assert watermark == 7
        ids = batch.column("id").to_pylist()
        self.rows += zip(ids, labels.to_pylist(), strict=True)


def batch_of(*days: int) -> pa.RecordBatch:
    at = pa.array([day * DAY for day in days], pa.timestamp("ms"))
    return pa.record_batch({"id": pa.array(range(len(days))), "at": at})


@pytest.fixture
def beside() -> Beside:
    return Beside()


def closed(beside: Beside, *, by_column: bool, unit_label: str) -> ClosedLabelRows:
    """Return the rows of closed labels; day 1 is closed."""
    labels = RowLabels("at", unit_label, lambda ms: f"day {ms // DAY}", is_needed=True)
    return ClosedLabelRows(
        beside,  # type: ignore[arg-type]
        labels if by_column else None,
        unit_label,
        lambda label: label == "day 1",
        7,
    )


def test_each_row_of_a_column_is_in_the_dataset_or_beside_it(beside: Beside) -> None:
    rows = closed(beside, by_column=True, unit_label="day 0")
    left = [rows.left(batch_of(0, 1, 2, 1)), rows.left(batch_of(1)), rows.left(batch_of(2))]
    assert [each.column("id").to_pylist() for each in left] == [[0, 2], [], [0]]
    assert beside.rows == [(1, "day 1"), (3, "day 1"), (0, "day 1")]
    assert rows.counted("plan").rows == (("day 1", 3),)


@pytest.mark.parametrize(("label", "stay"), [("day 1", 0), ("day 2", 3)])
def test_all_rows_of_a_work_unit_are_in_the_dataset_or_beside_it(
    beside: Beside, label: str, stay: int
) -> None:
    rows = closed(beside, by_column=False, unit_label=label)
    left = sum(rows.left(batch).num_rows for batch in (batch_of(0, 1), batch_of(2)))
    assert (left, len(beside.rows)) == (stay, 3 - stay)
    assert rows.counted("plan").rows == (() if stay else ((label, 3),))
