"""SQLAlchemy URLs of the databases that rows are loaded into.

``dialect[+driver]://user:password@host:port/database?option=value``, and for databases in a file
``dialect:///path`` (SQLAlchemy 2.0 manual, "Engine Configuration": Database URLs). The driver's
name has no meaning here. No error of this module shows the URL, because it may hold a password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote, unquote, urlencode

from dil.model.database_address import DatabaseAddress, DatabaseUrlError, Server
from dil.text.database_url import read_database_url

FORMS = (
    "postgresql://host:5432/database, mysql://host:3306/database, duckdb:///path/file.duckdb or "
    "sqlite:///path/file.db"
)
_SCHEME = re.compile(
    r"(?P<jdbc>jdbc:)?(?P<name>[A-Za-z]+)(?:\+[A-Za-z0-9_]+)?:(?P<rest>.*)", re.DOTALL
)
_IN_MEMORY = {"", ":memory:"}


class Engine(StrEnum):
    """A kind of database, with its name in URLs; MariaDB is used as MySQL."""

    POSTGRESQL = "postgresql"
    MYSQL = "mysql"
    DUCKDB = "duckdb"
    SQLITE = "sqlite"

    @property
    def has_schemas(self) -> bool:
        """Return whether a database holds schemas; in MySQL a schema is a database."""
        return self in {Engine.POSTGRESQL, Engine.DUCKDB}

    @property
    def default_schema(self) -> str:
        """Return the schema that is used if none is named."""
        return {Engine.POSTGRESQL: "public", Engine.DUCKDB: "main"}.get(self, "")


@dataclass(frozen=True, slots=True)
class WarehouseAddress:
    """A database on a server, or in the file ``path``; prints without user and password."""

    engine: Engine
    server: DatabaseAddress | None = None
    path: str = ""

    def __str__(self) -> str:
        return f"{self.engine}:///{quote(self.path)}" if self.server is None else str(self.server)

    def url(self) -> str:
        """Return the address as a URL, with user and password."""
        if self.server is None:
            return str(self)
        server = self.server
        hosts = str(server).partition("://")[2].partition("/")[0]
        password = f":{quote(server.password.reveal(), safe='')}" if server.password else ""
        login = f"{quote(server.user, safe='')}{password}@" if server.user or password else ""
        options = f"?{urlencode(server.options)}" if server.options else ""
        return f"{self.engine}://{login}{hosts}/{quote(server.database, safe='')}{options}"


def read_warehouse_url(text: str) -> WarehouseAddress:
    """Return the database that a URL names; the path of a file is not changed.

    Raises:
        DatabaseUrlError: the text is no URL of a known database, or an option cannot be kept.
    """
    match = _SCHEME.fullmatch(text.strip())
    if match is None:
        raise DatabaseUrlError("is no URL of a database", f"Write {FORMS}.")
    name = match["name"].lower()
    if name in {Engine.DUCKDB, Engine.SQLITE}:
        return WarehouseAddress(Engine(name), path=_path(match["rest"]))
    if name not in {"postgresql", "postgres", "mysql", "mariadb"}:
        raise DatabaseUrlError(
            f"begins with {match['jdbc'] or ''}{match['name']}:, which is no known database",
            f"Write {FORMS}.",
        )
    # SQLAlchemy's charset=utf8mb4 for MySQL is left out, because it is always used.
    head, mark, query = match["rest"].partition("?")
    kept = [each for each in query.split("&") if not each.lower().startswith("charset=")]
    rest = f"{head}{mark}{'&'.join(kept)}" if any(kept) else head
    found = read_database_url(f"{match['jdbc'] or ''}{name}:{rest}")
    kind = Engine.POSTGRESQL if found.address.server is Server.POSTGRESQL else Engine.MYSQL
    return WarehouseAddress(kind, found.address)


def _path(rest: str) -> str:
    """Return the path of ``///path``; a fourth slash begins an absolute path."""
    body, _, query = rest.partition("?")
    path = unquote(body.removeprefix("///") if body.startswith("///") else "")
    if query:
        raise DatabaseUrlError("has options, and a file has none", "Leave out `?` and the rest.")
    if not body.startswith("///") and body not in {"//", ""}:
        raise DatabaseUrlError("names a host, and the database is a file", f"Write {FORMS}.")
    if path in _IN_MEMORY:
        raise DatabaseUrlError(
            "names a database in memory, which ends with the run", "Name a file: sqlite:///path."
        )
    return path
