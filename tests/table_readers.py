"""What tables hold, read by their own libraries and by others."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from unittest.mock import patch
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from tests.jobs import manifest_files

FORMATS = ("delta", "iceberg")


def catalog(folder: Path) -> Catalog:
    """Return the catalog of a job whose state is in ``folder/state``."""
    return load_catalog("default", type="sql", uri=f"sqlite:///{folder}/state/iceberg-catalog.db")


def iceberg_table(folder: Path, name: str = "shop.orders") -> Table:
    found = catalog(folder)
    try:
        return found.load_table(name)
    finally:
        found.close()


def delta_table(folder: Path, name: str = "shop.orders") -> DeltaTable:
    return DeltaTable(folder / "lake" / name.replace(".", "/"))


def rows_of(kind: str, folder: Path, name: str = "shop.orders") -> pa.Table:
    """Return all rows, read by the format's own library."""
    if kind == "delta":
        return delta_table(folder, name).to_pyarrow_table()
    return iceberg_table(folder, name).scan().to_arrow()


def rows_by_polars(kind: str, folder: Path, name: str = "shop.orders") -> pl.DataFrame:
    """Return all rows, read by another engine."""
    if kind == "delta":
        return pl.scan_delta(str(folder / "lake" / name.replace(".", "/"))).collect()
    with patch.dict(os.environ, {"POLARS_ICEBERG_PLANNER": "pyiceberg"}):
        return pl.scan_iceberg(iceberg_table(folder, name), reader_override="native").collect()


def files_of(kind: str, folder: Path, name: str = "shop.orders") -> list[Path]:
    """Return the table's files."""
    if kind == "delta":
        root = folder / "lake" / name.replace(".", "/")
        paths = delta_table(folder, name).get_add_actions().column("path").to_pylist()
        return sorted(root / unquote(path) for path in paths)
    tasks = iceberg_table(folder, name).scan().plan_files()
    return sorted(Path(task.file.file_path.removeprefix("file://")) for task in tasks)


def listed_files(folder: Path) -> list[Path]:
    """Return the files that the dataset's newest manifest lists."""
    return sorted(Path(unquote(str(path))) for path in manifest_files(folder))


def ids(table: pa.Table) -> Counter[tuple[str, int]]:
    """Count rows by (unit, id)."""
    return Counter(zip(table["unit"].to_pylist(), table["id"].to_pylist(), strict=True))
