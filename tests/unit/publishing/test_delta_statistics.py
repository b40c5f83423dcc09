"""Statistics in a Delta log: whoever filters by them finds every row, and leaves files out."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import QueryBuilder

from tests.table_readers import delta_table
from tests.unit.publishing.tables import Shop, orders

pytestmark = pytest.mark.slow

UTC = pa.timestamp("us", "UTC")
LAST = "\U0010ffff"
NAN = float("nan")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path, "delta")


def statistics(shop: Shop) -> list[dict[str, object]]:
    """Return the statistics of the files that the log's commits added, oldest first."""
    logs = sorted((shop.dataset / "_delta_log").glob("*.json"))
    actions = (json.loads(line) for path in logs for line in path.read_text().splitlines())
    return [json.loads(action["add"]["stats"]) for action in actions if "add" in action]


def instant(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)


COLUMNS = {
    "boolean": (pa.bool_(), [False, True, None]),
    "int": (pa.int32(), [-(2**31), 0, 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), 2**53 + 1, 2**63 - 1]),
    "float": (pa.float32(), [-1.5, None, 16_777_216.0]),
    "double": (pa.float64(), [-1.7e308, 0.1, 5e-324]),
    "infinite": (pa.float64(), [float("-inf"), 1.0, float("inf")]),
    "not a number": (pa.float64(), [1.0, NAN, 2.0]),
    "decimal": (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("-0.50"), Decimal("0.00")]),
    "digits": (pa.decimal128(38, 10), [Decimal("1234567890123456789012345678.0123456789")]),
    "no digits": (pa.decimal128(38, 10), [Decimal("0E-10"), Decimal("1E-10")]),
    "text": (pa.string(), ["", 'a"b\\c\n\x01', "ü😀"]),
    "long text": (pa.string(), ["x" * 64 + LAST, "x" * 65, "x" * 300, "y" * 5000]),
    "last characters": (pa.string(), [LAST, LAST * 20, LAST * 64, LAST * 70]),
    "binary": (pa.binary(), [b"", b"\xff", None]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    "instant": (
        UTC,
        [instant(1, 1, 1), instant(1969, 12, 31, 23, 59, 59, 999_999), instant(2024, 2, 29)],
    ),
    "within a millisecond": (
        UTC,
        [instant(2024, 1, 1, 0, 0, 0, 1), instant(2024, 1, 1, 0, 0, 0, 2)],
    ),
    "end of time": (UTC, [instant(9999, 12, 31, 23, 59, 59, 999_999)]),
    "milliseconds": (pa.timestamp("ms", "UTC"), [instant(2024, 1, 1, 0, 0, 0, 1000)]),
    "nothing": (pa.int64(), [None, None]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_filter_finds_each_row_by_its_value(shop: Shop, name: str) -> None:
    kind, values = COLUMNS[name]
    rows = pa.table({"id": list(range(len(values))), "x": pa.array(values, kind)})
    shop.publish("r1", rows)
    table = delta_table(shop.folder)
    for number, value in enumerate(values):
        is_it = pl.col("x").is_null() if value is None else pl.col("x").eq(pl.lit(value))
        found = pl.scan_delta(str(shop.dataset)).filter(is_it).collect()
        assert number in found["id"].to_list()
        if isinstance(value, float) and math.isnan(value):
            continue
        by = ds.field("x").is_null() if value is None else ds.field("x") == pa.scalar(value, kind)
        assert number in table.to_pyarrow_dataset().to_table(filter=by)["id"].to_pylist()
        both = by & (ds.field("id") == number)
        assert table.to_pyarrow_dataset().to_table(filter=both).num_rows == 1


BEYOND = {
    "date": (pa.date32(), pa.array([3_000_000], pa.int32())),
    "early date": (pa.date32(), pa.array([-800_000], pa.int32())),
    "instant": (UTC, pa.array([300_000_000_000_000_000])),
}


@pytest.mark.parametrize("name", BEYOND)
def test_dates_that_python_does_not_know_are_published_without_bounds(
    shop: Shop, name: str
) -> None:
    kind, numbers = BEYOND[name]
    shop.publish("r1", pa.table({"id": [1], "x": numbers.cast(kind)}))
    found = delta_table(shop.folder).to_pyarrow_table()
    assert found["x"].cast(numbers.type).to_pylist() == numbers.to_pylist()
    assert statistics(shop) == [{"numRecords": 1}]


def test_rows_are_found_by_records_and_beside_them(shop: Shop) -> None:
    inner = pa.struct([("a", pa.float64()), ("b", pa.struct([("c", pa.string())]))])
    values = [None, {"a": 1.5, "b": {"c": "x"}}, {"a": None, "b": None}]
    many = pa.array([[("k", 1.5)], None, []], pa.map_(pa.string(), pa.float64()))
    for number, value in enumerate(values):
        rows = {"id": [number], "s": pa.array([value], inner), "m": many[number : number + 1]}
        shop.publish(f"r{number}", pa.table(rows))
    filters = [
        ds.field("s").is_null(),
        ds.field("s", "a") == 1.5,
        ds.field("s", "b", "c") == "x",
        ds.field("s").is_valid() & (ds.field("id") > 1),
        ds.field("m").is_null(),
    ]
    table = delta_table(shop.folder).to_pyarrow_dataset()
    found = [table.to_table(filter=each)["id"].to_pylist() for each in filters]
    assert found == [[0], [1], [1], [2], [1]]
    by_polars = pl.scan_delta(str(shop.dataset)).filter(pl.col("s").struct.field("a").eq(1.5))
    assert by_polars.collect()["id"].to_list() == [1]


def test_statistics_have_nulls_and_bounds_of_each_flat_column(shop: Shop) -> None:
    columns = {
        "id": pa.array([7, 5]),
        "none": pa.array([None, None], pa.string()),
        "price": pa.array([Decimal("-1.50"), None], pa.decimal128(10, 2)),
        "name": pa.array(["é" * 70, "z"]),
        "day": pa.array([dt.date(2024, 2, 29), dt.date(2020, 1, 1)]),
        "at": pa.array([instant(2024, 1, 1, 0, 0, 0, 1), instant(2023, 1, 1)], UTC),
        "raw": pa.array([b"x", b"y"]),
        "s": pa.array([{"a": 1}, {"a": 2}]),
    }
    shop.publish("r1", pa.table(columns))
    (found,) = statistics(shop)
    assert found == {
        "numRecords": 2,
        "nullCount": {"id": 0, "none": 2, "price": 1, "name": 0, "day": 0, "at": 0},
        "minValues": {
            "s": {},
            "id": 5,
            "price": -1.5,
            "name": "z",
            "day": "2020-01-01",
            "at": "2023-01-01T00:00:00.000Z",
        },
        "maxValues": {
            "s": {},
            "id": 7,
            "price": -1.5,
            "name": "é" * 64 + LAST,
            "day": "2024-02-29",
            "at": "2024-01-01T00:00:00.001Z",
        },
    }
    bounds = delta_table(shop.folder).get_add_actions(flatten=True)
    assert bounds.column("min.price").to_pylist() == [Decimal("-1.50")]


def test_one_column_without_bounds_leaves_a_file_with_its_row_count(shop: Shop) -> None:
    shop.publish("r1", pa.table({"id": [1, 2], "x": [1.0, NAN]}))
    assert statistics(shop) == [{"numRecords": 2}]
    assert delta_table(shop.folder).to_pyarrow_table(filters=[("id", "=", 2)]).num_rows == 1


def test_a_delete_by_another_program_finds_its_rows(shop: Shop) -> None:
    shop.publish("r1", pa.table({"id": [1, 2], "x": [1.5, 2.5]}))
    assert delta_table(shop.folder).delete("x = 2.5")["num_deleted_rows"] == 1
    assert shop.ids() == [1]


def test_a_file_without_rows_has_no_bounds(shop: Shop) -> None:
    shop.publish("r1", orders())
    assert statistics(shop)[0]["numRecords"] == 0
    shop.publish("r2", orders(1))
    query = QueryBuilder().register("orders", delta_table(shop.folder))
    rows = pa.table(query.execute("SELECT id FROM orders WHERE id = 1").read_all())
    assert rows["id"].to_pylist() == [1]
