"""Merges compare keys by the collation that decides whether the table takes a row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from dil.errors import WriteError
from dil.model.destination import MergeSpec
from dil.model.job import PublishMode
from tests.warehouses import Loads, Warehouse, made, new_warehouse


def loose_collation(warehouse: Warehouse) -> str:
    """Return the name of a collation that takes upper and lower case for the same."""
    if warehouse.engine == "sqlite":
        return "NOCASE"
    warehouse.execute(
        "CREATE SCHEMA shop",
        "CREATE COLLATION shop.loose"
        " (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    )
    return "shop.loose"


def test_keys_that_a_collation_takes_for_one_are_one_row(tmp_path: Path, request) -> None:
    with new_warehouse("sqlite", tmp_path, request) as warehouse:
        made(warehouse, "id TEXT COLLATE NOCASE PRIMARY KEY, v INTEGER, op TEXT")
        merge = MergeSpec(("id",), ("v",), "op", ("d",), deletes_missing=True)
        loads = Loads(warehouse, tmp_path, PublishMode.MERGE, merge)
        loads.load("run-1", pa.table({"id": ["a", "B"], "v": [0, 0], "op": ["i", "i"]}))
        changes = pa.table({"id": ["A", "a", "b", "B"], "v": [2, 1, 1, 2], "op": list("udud")})
        loads.load("run-2", changes)
        assert loads.rows("id, v") == [("a", 2)]


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_a_row_is_not_missing_whose_key_the_run_read_in_another_form(
    tmp_path: Path, request, engine: str
) -> None:
    with new_warehouse(engine, tmp_path, request) as warehouse:
        loose = loose_collation(warehouse)
        made(warehouse, f"id TEXT COLLATE {loose} PRIMARY KEY, v BIGINT")
        merge = MergeSpec(("id",), ("v",), deletes_missing=True, max_deleted_percent=50)
        loads = Loads(warehouse, tmp_path, PublishMode.MERGE, merge)
        loads.load("run-1", pa.table({"id": ["a", "b", "c"], "v": [1, 1, 1]}))
        loads.load("run-2", pa.table({"id": ["A", "B", "b"], "v": [2, 0, 0]}))
        assert sorted(loads.rows("id, v")) == [("a", 2), ("b", 1)]


def test_the_collation_of_another_index_makes_no_keys_equal(tmp_path: Path, request) -> None:
    with new_warehouse("sqlite", tmp_path, request) as warehouse:
        made(
            warehouse,
            "id TEXT PRIMARY KEY, region TEXT, v INTEGER",
            "CREATE UNIQUE INDEX other ON orders (region, id COLLATE NOCASE)",
        )
        loads = Loads(warehouse, tmp_path, PublishMode.MERGE, MergeSpec(("id",)))
        loads.load("run-1", pa.table({"id": ["a", "A"], "region": ["eu", "us"], "v": [1, 2]}))
        assert loads.rows("id, v") == [("A", 2), ("a", 1)]


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
@pytest.mark.parametrize(
    ("of_column", "of_index", "rows"),
    [
        ("exact", "loose", [("a", 1)]),
        ("loose", "exact", [("A", 0), ("a", 1), ("b", 0)]),
    ],
)
def test_keys_compare_as_in_the_unique_index_and_not_as_in_the_column(
    tmp_path: Path, request, engine: str, of_column: str, of_index: str, rows: list[tuple[str, int]]
) -> None:
    exact = '"C"' if engine == "postgresql" else "BINARY"
    with new_warehouse(engine, tmp_path, request) as warehouse:
        names = {"exact": exact, "loose": loose_collation(warehouse)}
        made(
            warehouse,
            f"id TEXT COLLATE {names[of_column]}, region TEXT, v BIGINT, op TEXT",
            f"CREATE UNIQUE INDEX one ON {warehouse.prefix}orders"
            f" (region, id COLLATE {names[of_index]})",
        )
        merge = MergeSpec(("id", "region"), ("v",), "op", ("d",))
        loads = Loads(warehouse, tmp_path, PublishMode.MERGE, merge)
        first = {"id": ["a", "b"], "region": ["eu"] * 2, "v": [1, 0], "op": ["i"] * 2}
        loads.load("run-1", pa.table(first))
        second = {"id": ["A", "B"], "region": ["eu"] * 2, "v": [0, 2], "op": ["u", "d"]}
        loads.load("run-2", pa.table(second))
        assert sorted(loads.rows("id, v")) == rows


def test_unique_indexes_of_one_key_that_compare_differently_are_refused(
    tmp_path: Path, request
) -> None:
    with new_warehouse("sqlite", tmp_path, request) as warehouse:
        made(
            warehouse,
            "id TEXT PRIMARY KEY, v INTEGER",
            "CREATE UNIQUE INDEX other ON orders (id COLLATE NOCASE)",
        )
        loads = Loads(warehouse, tmp_path, PublishMode.MERGE, MergeSpec(("id",)))
        with pytest.raises(WriteError) as caught:
            loads.load("run-1", pa.table({"id": ["a", "A"], "v": [1, 2]}))
        assert "(BINARY and NOCASE)" in caught.value.message
        assert loads.rows() == []
