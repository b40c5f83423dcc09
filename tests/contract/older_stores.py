"""State stores that format 1 left (tests/golden/state/format-1), put where a test can open them."""

from __future__ import annotations

import json
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.state_servers import mysql_place, postgresql_place
from tests.contract.state_stores import (
    DAY,
    NOW,
    Clock,
    Place,
    folder_place,
)
from tests.servers.mariadb import MariadbServer
from tests.servers.postgresql import PostgresqlServer

GOLDEN = Path(__file__).parents[1] / "golden/state/format-1"
KINDS = ("sqlite", "filelog", "postgresql", "mysql")
LATER = NOW + 10 * DAY


@dataclass
class OlderStore:
    """A store of format 1. ``rows`` reads a table as another program does, ordered."""

    kind: str
    place: Place
    rows: Callable[[str], list[tuple]]

    @property
    def files(self) -> list[Path]:
        """The files of a store in a folder."""
        folder = Path(self.place.spec.directory)
        return sorted(path for path in folder.rglob("*") if path.is_file())

    @property
    def format(self) -> int:
        """The format that a program finds that only knows where format 1 told it."""
        if self.kind == "filelog":
            entries = [path for path in self.files if path.match("orders-*/journal/*.json")]
            return json.loads(entries[-1].read_bytes())["format"]
        ((number,),) = self.rows("state_format")
        return number


@contextmanager
def older_store(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[OlderStore]:
    """Put the store of one kind in place; the clock is ten days later."""
    name = f"t{uuid.uuid4().hex[:12]}"
    if kind == "postgresql":
        server = request.getfixturevalue("postgresql_server")
        with postgresql_place(server, name) as place:
            yield _on_postgresql(server, name, _later(place))
    elif kind == "mysql":
        server = request.getfixturevalue("mysql_server")
        with mysql_place(server, name) as place:
            yield _on_mysql(server, name, _later(place))
    else:
        yield _in_folder(kind, _later(folder_place(kind, folder)), folder / "state")


def _later(place: Place) -> Place:
    return Place(place.spec, Clock(LATER), place.traces)


def _in_folder(kind: str, place: Place, state: Path) -> OlderStore:
    if kind == "filelog":
        shutil.copytree(GOLDEN / "filelog", state)
        return OlderStore(kind, place, lambda table: [])
    state.mkdir(parents=True)
    with closing(sqlite3.connect(state / "state.db")) as connection:
        connection.executescript((GOLDEN / "sqlite.sql").read_text(encoding="utf-8"))

    def rows(table: str) -> list[tuple]:
        file = "state.format-1.db" if table.endswith("_format_1") else "state.db"
        with closing(sqlite3.connect(state / file)) as connection:
            query = f"SELECT * FROM {table.removesuffix('_format_1')}"
            return sorted(connection.execute(query).fetchall())

    return OlderStore(kind, place, rows)


def _on_postgresql(server: PostgresqlServer, name: str, place: Place) -> OlderStore:
    text = (GOLDEN / "postgresql.sql").read_text(encoding="utf-8")
    server.execute(text.replace("old_state.", f"{name}."))
    return OlderStore(
        "postgresql", place, lambda table: sorted(server.execute(f"SELECT * FROM {name}.{table}"))
    )


def _on_mysql(server: MariadbServer, name: str, place: Place) -> OlderStore:
    for statement in (GOLDEN / "mysql.sql").read_text(encoding="utf-8").split(";\n"):
        if statement.strip():
            server.execute(statement.replace(MariadbServer.collation, server.collation), name)
    return OlderStore(
        "mysql", place, lambda table: sorted(server.execute(f"SELECT * FROM {table}", name))
    )
