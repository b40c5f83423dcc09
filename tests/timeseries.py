"""What the tables of timelabels hold, read from the view, the tables and the registry."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dil.model.dataset import Commit, Intent, Move, OperatorAct, PublishedFile
from dil.model.destination import Physical, TableKind, WarehouseSpec
from dil.model.job import PublishingSpec, PublishMode
from dil.model.secret import SecretUrl
from dil.model.timelabels import TimelabelSpec
from dil.publishing.timeseries import TimeseriesDestination
from dil.publishing.timeseries.changes import DROP
from dil.storage import LocalFilesystem
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS, START_MS
from tests.warehouses import ENGINES, Warehouse, new_warehouse

Label = str
DAYS = [f"202001{day:02}000000" for day in range(1, 20)]
FILES = LocalFilesystem()
# Of databases, and of ways to keep labels apart in them.
KINDS = (*ENGINES, "native")
# Label, unit, and what was read; None where there was nothing.
Part = tuple[str, str, pa.Table | None]


@dataclass(frozen=True)
class LabelWarehouse(Warehouse):
    """A database, and what ``ms.timeseries.physical`` is for labels in it."""

    physical: Physical = Physical.TABLES


@contextmanager
def label_warehouse(
    kind: str, folder: Path, request: pytest.FixtureRequest
) -> Iterator[LabelWarehouse]:
    """Yield an empty database of one of ``KINDS``; native is PostgreSQL with partitions."""
    is_native = kind == "native"
    physical = Physical.NATIVE if is_native else Physical.TABLES
    with new_warehouse("postgresql" if is_native else kind, folder, request) as made:
        yield LabelWarehouse(made.engine, made.url, made.schema, made.path, physical)


def is_native(warehouse: Warehouse) -> bool:
    """Tell whether labels are partitions."""
    return isinstance(warehouse, LabelWarehouse) and warehouse.physical is Physical.NATIVE


def partitions(warehouse: Warehouse) -> dict[str, frozenset[Label]]:
    """Return the labels that each partition of the table may hold, by its name."""
    found = warehouse.rows(
        "SELECT p.relname, pg_get_expr(p.relpartbound, p.oid) FROM pg_inherits JOIN pg_class p "
        f"ON p.oid = inhrelid WHERE inhparent = '{warehouse.prefix}orders'::regclass"
    )
    return {name: frozenset(re.findall(r"[0-9]{14}", bound)) for name, bound in found}


def label_of(day: int) -> Label:
    """Return the label of a day, counted from the first of the source."""
    return f"202001{day + 1:02}000000"


def rows_of(warehouse: Warehouse) -> Counter[tuple[Label, str, int]]:
    """Return the rows of the view by label."""
    statement = f"SELECT _timelabel, unit, id FROM {warehouse.prefix}orders_view"
    return Counter(tuple(row) for row in warehouse.rows(statement))


def rows_of_the_source(
    server: HttpServer, from_ms: int, until_ms: int
) -> Counter[tuple[Label, str, int]]:
    """Return what the view is to hold: each row of the source in the label of its day."""
    rows: Counter[tuple[Label, str, int]] = Counter()
    for start in range(from_ms, until_ms, DAY_MS):
        label = label_of((start - START_MS) // DAY_MS)
        found = server.dataset.ids(min(start + DAY_MS, until_ms), start)
        rows.update((label, unit, number) for unit, number in found.elements())
    return rows


def registry(warehouse: Warehouse) -> list[tuple[str, str, int, str]]:
    """Return label, state, rows and table of each entry."""
    rows, table = ("`rows`", "`object`") if warehouse.engine == "mysql" else ('"rows"', '"object"')
    return warehouse.rows(
        f"SELECT timelabel, state, {rows}, {table} FROM {warehouse.prefix}timelabel_registry "
        "ORDER BY timelabel"
    )


def labels_of(warehouse: Warehouse) -> dict[Label, tuple[str, int]]:
    """Return state and number of rows by label."""
    return {label: (state, rows) for label, state, rows, _ in registry(warehouse)}


def tables(warehouse: Warehouse) -> set[str]:
    """Return the names of all tables, without views."""
    if warehouse.engine == "sqlite":
        statement = "SELECT name FROM sqlite_master WHERE type = 'table'"
    else:
        schema = "DATABASE()" if warehouse.engine == "mysql" else f"'{warehouse.schema}'"
        statement = (
            "SELECT table_name FROM information_schema.tables "
            f"WHERE table_schema = {schema} AND table_type = 'BASE TABLE'"
        )
    return {str(row[0]) for row in warehouse.rows(statement)}


def require_whole(warehouse: Warehouse, *others: str) -> None:
    """Require that the registry tells what is there, and that nothing else is but ``others``."""
    entries = registry(warehouse)
    held = {table for _, _, _, table in entries if table}
    own = {"orders", "dil_commit", "dil_part", "timelabel_registry"}
    assert tables(warehouse) - {"dil_owner"} == held | own | set(others)
    if is_native(warehouse):
        bounds = partitions(warehouse)
        assert bounds.keys() == held
        assert all(label in bounds[table] for label, _, _, table in entries if table)
    else:
        assert warehouse.rows(f"SELECT COUNT(*) FROM {warehouse.prefix}orders") == [(0,)]
    counted = Counter(label for label, _, _ in rows_of(warehouse).elements())
    assert counted == Counter({label: rows for label, _, rows, _ in entries if rows})
    names = ", ".join(("dataset", "run_id"))
    runs = warehouse.rows(f"SELECT {names} FROM {warehouse.prefix}dil_commit")
    assert len(runs) == len(set(runs))


class Series:
    """A timeseries table, and commits to it that no job made."""

    def __init__(self, warehouse: Warehouse, folder: Path, **changes: object) -> None:
        self.warehouse = warehouse
        self.folder = folder
        self._runs = 0
        native = {"physical": Physical.NATIVE} if is_native(warehouse) else {}
        self.spec = PublishingSpec(
            str(folder),
            "orders",
            mode=PublishMode.WINDOW_REPLACE,
            warehouse=WarehouseSpec(
                SecretUrl(warehouse.url),
                warehouse.schema,
                "orders",
                kind=TableKind.TIMESERIES,
                labels=TimelabelSpec(schedule="10 0 * * *"),
                **{**native, **changes},
            ),
        )
        self.destination = TimeseriesDestination(self.spec, FILES)

    def publish(self, *parts: Part, now: int = START_MS) -> Intent:
        """Publish what a run read: label, unit and rows of each file."""
        intent = self.decide(*parts, now=now)
        self.destination.carry_out(intent)
        return intent

    def decide(self, *parts: Part, now: int = START_MS) -> Intent:
        """Return the intent of a run: its work units are read again as a whole."""
        self._runs += 1
        run_id = f"run-{self._runs}"
        moves = []
        for number, (label, unit, rows) in enumerate(parts):
            if rows is None:
                continue
            path = self.folder / f"{run_id}-{number}.parquet"
            pq.write_table(rows, path)
            uri = self.destination.uri(f"part-{run_id}-{number}.parquet")
            target = PublishedFile(uri, f"{label}/{unit}", rows.num_rows, 1, "", run_id, label)
            moves.append(Move(str(path), target))
        read = {f"{label}/{unit}" for label, unit, _ in parts}
        live = self.destination.live()
        removes = tuple(
            {file.uri: file for file in live if file.signature in read}
            | {file.uri: file for file in self.destination.expired(now)}
        )
        known = {file.uri: file for file in live}
        commit = Commit(
            run_id, "digest", "dil/orders", tuple(moves), tuple(known[uri] for uri in removes),
            "", now, now,
        )  # fmt: skip
        self.destination.require_fit(commit)
        return Intent(commit, 1, str(self.folder), self.destination.next_sequence())

    def drop(self, *labels: str) -> None:
        """Drop labels as an operator does."""
        self._runs += 1
        removes = tuple(file for file in self.destination.live() if file.timelabel in labels)
        commit = Commit(
            f"run-{self._runs}", "digest", "dil/orders", (), removes, "", START_MS, START_MS,
            act=OperatorAct(DROP, "too many"),
        )  # fmt: skip
        self.destination.require_fit(commit)
        intent = Intent(commit, 1, str(self.folder), self.destination.next_sequence())
        self.destination.carry_out(intent)

    def rows(self, columns: str = "_timelabel, id", order: str = "_timelabel, id") -> list[tuple]:
        """Return what the view shows."""
        view = f"{self.warehouse.prefix}orders_view"
        return self.warehouse.rows(f"SELECT {columns} FROM {view} ORDER BY {order}")


def table(*ids: int, **columns: object) -> pa.Table:
    return pa.table({"unit": ["u"] * len(ids), "id": pa.array(ids, pa.int32()), **columns})
