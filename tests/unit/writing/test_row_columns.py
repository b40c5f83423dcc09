"""System columns and the labels of rows."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from dil.errors import ConversionError
from dil.model.timelabels import LabelUnit, TimelabelSpec
from dil.planning.timelabels import label_at
from dil.writing.system_columns import RowLabels, SystemColumns

ALL = ("_dil_run_id", "_dil_signature", "_dil_extracted_at", "_timelabel")
TEXTS = {"_dil_run_id": "r1", "_dil_signature": "s1", "_timelabel": "20200101000000"}
AT = dt.datetime(2020, 1, 2, 3, 4, 5, 678_000, tzinfo=dt.UTC)
DAYS = TimelabelSpec(unit=LabelUnit.DAY)


def columns(*names: str) -> SystemColumns:
    return SystemColumns(names, TEXTS, int(AT.timestamp() * 1000))


def test_chosen_columns_come_last_in_their_order() -> None:
    found = columns(*ALL).add(pa.record_batch({"a": [1, 2]}), None)
    assert found.to_pylist() == [
        {
            "a": a,
            "_dil_run_id": "r1",
            "_dil_signature": "s1",
            "_dil_extracted_at": AT,
            "_timelabel": "20200101000000",
        }
        for a in (1, 2)
    ]
    assert found.schema.field("_dil_extracted_at").type == pa.timestamp("us", tz="UTC")
    assert columns("_dil_signature").add(pa.record_batch({"a": [1]}), None).schema.names == [
        "a",
        "_dil_signature",
    ]


def test_rows_have_labels_of_their_own_where_they_are_labelled() -> None:
    labels = pa.array(["20200101000000", "20200102000000"])
    found = columns("_timelabel").add(pa.record_batch({"a": [1, 2]}), labels)
    assert found["_timelabel"].to_pylist() == labels.to_pylist()


@pytest.mark.parametrize("name", ["_dil_run_id", "_DIL_RUN_ID"])
def test_a_column_of_the_source_is_not_overwritten(name: str) -> None:
    with pytest.raises(ConversionError, match=name):
        columns("_dil_run_id").add(pa.record_batch({name: [None, "x"]}), None)


def test_a_column_that_a_contract_filled_with_null_is_replaced() -> None:
    batch = pa.record_batch({"_dil_run_id": pa.nulls(1, pa.string()), "a": [1]})
    assert columns("_dil_run_id").add(batch, None).to_pylist() == [{"a": 1, "_dil_run_id": "r1"}]


def labels(values: pa.Array, *, is_needed: bool = True, spec: TimelabelSpec = DAYS) -> Any:
    rows = RowLabels("at", "unit", label_at(spec), is_needed=is_needed)
    found = rows.of(pa.record_batch({"at": values}))
    return None if found is None else found.to_pylist()


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["2020-01-01T23:59:59.999999Z", "2020-01-02T00:00:00Z", None]).cast(
            pa.timestamp("us", "UTC")
        ),
        pa.array(["2020-01-01T23:59:59.999", "2020-01-02", None]).cast(pa.timestamp("ms")),
        pa.array(["2020-01-01", "2020-01-02", None]).cast(pa.date32()),
        pa.array([1577923199999, 1577923200000, None], pa.int64()),
    ],
    ids=["instants", "local", "dates", "epoch"],
)
def test_a_row_has_the_label_of_its_time_and_without_one_that_of_its_work_unit(
    values: pa.Array,
) -> None:
    assert labels(values) == ["20200101000000", "20200102000000", "unit"]


def test_times_before_the_epoch_belong_to_the_period_that_they_are_in() -> None:
    before = pa.array([-1], pa.int64()).cast(pa.timestamp("us", "UTC"))
    assert labels(before) == ["19691231000000"]


def test_rows_follow_the_zone_of_the_schedule() -> None:
    spec = TimelabelSpec(schedule="10 0 * * *", zone="America/New_York")
    at = pa.array(["2020-01-02T04:59:00Z", "2020-01-02T05:00:00Z"]).cast(pa.timestamp("us", "UTC"))
    assert labels(at, spec=spec) == ["20200101050000", "20200102050000"]


def test_a_column_that_was_named_must_hold_times() -> None:
    with pytest.raises(ConversionError, match="holds string and no times"):
        labels(pa.array(["2020-01-01"]))
    assert labels(pa.array(["2020-01-01"]), is_needed=False) is None


def test_a_column_that_was_named_must_be_there() -> None:
    batch = pa.record_batch({"a": [1]})
    needed = RowLabels("at", "unit", label_at(DAYS), is_needed=True)
    with pytest.raises(ConversionError, match="but the rows have no such column"):
        needed.of(batch)
    assert RowLabels("at", "unit", label_at(DAYS), is_needed=False).of(batch) is None


@pytest.mark.parametrize("spec", [DAYS, TimelabelSpec(every_ms=3_600_000)])
@pytest.mark.parametrize(
    ("far", "told"),
    [
        (2**62, " ms"),
        (-(2**62), " ms"),
        (253_402_300_800_000, "253402300800000 ms"),
        (-62_135_596_800_001, "-62135596860000 ms"),
    ],
)
def test_a_time_that_no_period_holds_is_told(spec: TimelabelSpec, far: int, told: str) -> None:
    with pytest.raises(ConversionError, match=f'column is "at".* known at .*{told}'):
        labels(pa.array([far], pa.int64()), spec=spec)


@pytest.mark.parametrize("text", ["0001-01-01T00:00", "9999-12-31T23:59"])
def test_the_time_that_is_told_is_that_of_the_row(text: str) -> None:
    with pytest.raises(ConversionError, match=f"known at {text.replace('T', ' ')}"):
        labels(pa.array([text]).cast(pa.timestamp("ms")))
