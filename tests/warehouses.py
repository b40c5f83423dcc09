"""Databases of each kind that rows are loaded into, and readers of their own for each."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pymysql
import pytest

from dil.model.dataset import Commit, Intent, Move, PublishedFile, RunWork, WorkUnitOutcome
from dil.model.destination import MergeSpec, WarehouseSpec
from dil.model.job import PublishingSpec, PublishMode
from dil.model.secret import SecretUrl
from dil.publishing.warehouse import WarehouseDestination
from dil.storage import LocalFilesystem
from tests.servers import mariadb, postgresql
from tests.servers.databases import new_database

ENGINES = ("postgresql", "mysql", "duckdb", "sqlite")


@dataclass(frozen=True)
class Warehouse:
    """An empty database; ``url`` has user and password, ``schema`` is "" where there are none."""

    engine: str
    url: str
    schema: str = ""
    path: Path = field(default_factory=Path)

    @property
    def prefix(self) -> str:
        """Return what stands before a table's name in a statement."""
        return f"{self.schema}." if self.schema else ""

    @contextmanager
    def reader(self) -> Iterator[Any]:
        """Yield a connection of another library than the one that loads, where there is one."""
        place = urlsplit(self.url)
        if self.engine == "postgresql":
            connection = psycopg.connect(
                host="127.0.0.1", port=place.port, dbname=place.path[1:], user="admin",
                password=postgresql.PASSWORD, autocommit=True, options="-c timezone=UTC",
            )  # fmt: skip
        elif self.engine == "mysql":
            connection = pymysql.connect(
                host="127.0.0.1", port=place.port, database=place.path[1:], user="admin",
                password=mariadb.PASSWORD.encode(), charset="utf8mb4", autocommit=True,
                ssl_disabled=True,  # else each connection reads all certificate authorities
            )  # fmt: skip
        elif self.engine == "sqlite":
            connection = sqlite3.connect(self.path, isolation_level=None, timeout=30)
        else:
            import duckdb

            connection = duckdb.connect(str(self.path))
        try:
            yield connection
        finally:
            connection.close()

    def rows(self, statement: str) -> list[tuple]:
        """Return what a statement gives, of a connection of its own."""
        with self.reader() as connection:
            if self.engine == "duckdb":
                found = connection.sql(statement).to_arrow_table()
                return [tuple(row.values()) for row in found.to_pylist()]
            cursor = connection.cursor()
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def execute(self, *statements: str) -> None:
        """Run statements, each of which is committed."""
        with self.reader() as connection:
            for statement in statements:
                connection.cursor().execute(statement)

    def columns(self, table: str) -> dict[str, str]:
        """Return the types of a table's columns, as the database names them."""
        if self.engine == "sqlite":
            return {row[1]: row[2] for row in self.rows(f'PRAGMA table_info("{table}")')}
        word = "column_type" if self.engine == "mysql" else "data_type"
        schema = "DATABASE()" if self.engine == "mysql" else f"'{self.schema}'"
        return dict(
            self.rows(
                f"SELECT column_name, {word} FROM information_schema.columns "
                f"WHERE table_schema = {schema} AND table_name = '{table}' "
                "ORDER BY ordinal_position"
            )
        )


@contextmanager
def new_warehouse(engine: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[Warehouse]:
    """Yield an empty database of a kind."""
    if engine in {"duckdb", "sqlite"}:
        path = folder / f"warehouse.{engine}"
        schema = "shop" if engine == "duckdb" else ""
        yield Warehouse(engine, f"{engine}:///{path}", schema, path)
        return
    password = postgresql.PASSWORD if engine == "postgresql" else mariadb.PASSWORD
    with new_database(request.getfixturevalue(f"{engine}_server")) as url:
        scheme, _, rest = url.partition("://")
        login = f"admin:{quote(password, safe='')}"
        yield Warehouse(engine, f"{scheme}://{login}@{rest}", "shop" * (engine == "postgresql"))


@dataclass
class Loads:
    """Commits of one table of a warehouse, whose files are staged in ``folder``."""

    warehouse: Warehouse
    folder: Path
    mode: PublishMode = PublishMode.APPEND
    merge: MergeSpec | None = None
    table: str = "orders"

    @property
    def destination(self) -> WarehouseDestination:
        spec = PublishingSpec(
            str(self.folder / "lake"), "orders", mode=self.mode, merge=self.merge,
            warehouse=WarehouseSpec(
                SecretUrl(self.warehouse.url), self.warehouse.schema, self.table
            ),
        )  # fmt: skip
        return WarehouseDestination(spec, LocalFilesystem())

    def intent(self, run_id: str, *tables: pa.Table, units: Sequence[str] = ()) -> Intent:
        """Stage a file for each table, of the unit of its place, and decide to load them."""
        destination, moves = self.destination, []
        for number, table in enumerate(tables):
            path = self.folder / f"{run_id}-{number}.parquet"
            pq.write_table(table, path)
            unit = units[number] if units else f"unit {number}"
            uri = destination.uri(f"/x/part-{run_id}-{number}.parquet")
            size = path.stat().st_size
            file = PublishedFile(uri, unit, table.num_rows, size, "0" * 64, run_id)
            moves.append(Move(str(path), file))
        redone = units or [f"unit {number}" for number in range(len(tables))]
        takes_missing = self.merge is not None and self.merge.deletes_missing
        missing = (destination.missing(),) if takes_missing else ()
        with destination.connected():
            live = destination.live()
            commit = Commit(
                run_id, "digest", "source", tuple(moves),
                live if self.mode is PublishMode.REPLACE else
                (*(file for file in live if file.signature in redone), *missing),
                "", 1_700_000_000_000, 1_700_000_000_000,
                RunWork(tuple(WorkUnitOutcome(unit, "{}", 0, 1, 1, 1) for unit in redone)),
            )  # fmt: skip
            destination.require_fit(commit)
            return Intent(commit, 1, "/lake", destination.next_sequence())

    def load(self, run_id: str, *tables: pa.Table, units: Sequence[str] = ()) -> None:
        """Publish tables as a run does."""
        self.destination.carry_out(self.intent(run_id, *tables, units=units))

    def rows(self, columns: str = "*", order: str = "1") -> list[tuple]:
        """Return the table's rows."""
        return self.warehouse.rows(
            f"SELECT {columns} FROM {self.warehouse.prefix}{self.table} ORDER BY {order}"
        )

    def runs(self) -> list[tuple]:
        """Return the numbers and runs of the commits that the database knows of."""
        name = f"{self.warehouse.prefix}{self.table}"
        return self.warehouse.rows(
            f"SELECT sequence, run_id FROM {self.warehouse.prefix}dil_commit "
            f"WHERE dataset = '{name}' ORDER BY 1"
        )


def made(warehouse: Warehouse, columns: str, *more: str) -> None:
    """Make the table of the loads as somebody else would."""
    if warehouse.engine == "duckdb":
        warehouse.execute("CREATE SCHEMA IF NOT EXISTS shop")
    warehouse.execute(f"CREATE TABLE {warehouse.prefix}orders ({columns})", *more)


def kept_copy(warehouse: Warehouse, request: pytest.FixtureRequest) -> Callable[[], None]:
    """Keep a copy of the database as it is now; return what puts it back."""
    name = urlsplit(warehouse.url).path[1:]
    if warehouse.engine == "postgresql":
        server, copy = request.getfixturevalue("postgresql_server"), f"{name}_copy"
        server.execute(f"CREATE DATABASE {copy} TEMPLATE {name}")
        request.addfinalizer(lambda: server.drop_database(copy))

        def put_back() -> None:
            server.drop_database(name)
            server.execute(f"CREATE DATABASE {name} TEMPLATE {copy}")

        return put_back
    if warehouse.engine == "mysql":
        return _kept_tables(warehouse, request.getfixturevalue("mysql_server"), name, request)
    return lambda: None  # the file lies in the job's folder


def _kept_tables(
    warehouse: Warehouse, server: mariadb.MariadbServer, name: str, request: pytest.FixtureRequest
) -> Callable[[], None]:
    copy = f"{name}_copy"
    server.add_database(copy)
    request.addfinalizer(lambda: server.drop_database(copy))
    tables, views = _objects(warehouse)
    texts = [warehouse.rows(f"SHOW CREATE VIEW `{view}`")[0][1] for view in views]
    for table in tables:
        warehouse.execute(
            f"CREATE TABLE {copy}.`{table}` LIKE `{table}`",
            f"INSERT INTO {copy}.`{table}` SELECT * FROM `{table}`",
        )

    def put_back() -> None:
        now, shown = _objects(warehouse)
        warehouse.execute(*(f"DROP VIEW `{view}`" for view in shown))
        warehouse.execute(*(f"DROP TABLE `{table}`" for table in now))
        for table in tables:
            warehouse.execute(
                f"CREATE TABLE `{table}` LIKE {copy}.`{table}`",
                f"INSERT INTO `{table}` SELECT * FROM {copy}.`{table}`",
            )
        warehouse.execute(*texts)

    return put_back


def _objects(warehouse: Warehouse) -> tuple[list[str], list[str]]:
    found = warehouse.rows("SHOW FULL TABLES")
    return (
        [name for name, kind in found if kind == "BASE TABLE"],
        [name for name, kind in found if kind == "VIEW"],
    )
