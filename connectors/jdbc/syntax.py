"""The syntax of texts, names and comments for each kind of database; does no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from dil.databases.statements import quoted

# SQLAlchemy's form of an unquoted Oracle name: ID becomes id.
_SMALL = re.compile(r"[a-z][a-z0-9_$#]*")


class Kind(StrEnum):
    """A kind of database; the value is the word after ``jdbc:``."""

    POSTGRESQL = "postgresql"
    MYSQL = "mysql"
    MARIADB = "mariadb"
    SQLITE = "sqlite"
    DUCKDB = "duckdb"
    SQLSERVER = "sqlserver"
    ORACLE = "oracle"

    @property
    def is_mysql(self) -> bool:
        """Return whether the database speaks MySQL's protocol."""
        return self in {Kind.MYSQL, Kind.MARIADB}

    @property
    def is_file(self) -> bool:
        """Return whether the database is a file of this machine."""
        return self in {Kind.SQLITE, Kind.DUCKDB}

    @property
    def adapts_texts(self) -> bool:
        """Return whether a bound text takes the type of the value compared with it."""
        return self in {Kind.POSTGRESQL, Kind.DUCKDB}


@dataclass(frozen=True, slots=True)
class SqlSyntax:
    """The SQL syntax of one kind of database.

    If ``backslashes`` is true, a backslash escapes inside texts; if ``double_quoted_texts`` is
    true, ``"..."`` is a text and no name. ``names`` maps the opening mark of a quoted name to its
    closing mark; ``quoted`` uses the first pair. If ``dollars`` is true, there are PostgreSQL's
    dollar quotes. A letter of ``prefixed`` before a text means that backslashes escape in it
    (``E'..'``). A letter of ``refused`` before a text means that DIL does not understand the text.
    If ``hashes`` is true, ``#`` begins a comment; if ``dashes_need_blank`` is true, ``--`` begins a
    comment only before a blank. If ``nested`` is true, comments may hold comments; if
    ``executable`` is true, ``/*! */`` holds SQL. If ``tops`` is true, TOP behind SELECT limits the
    rows, and a subquery cannot begin with WITH. If ``capitals`` is true, the database has unquoted
    names in capitals, and the driver returns them in small letters.
    """

    backslashes: bool = False
    double_quoted_texts: bool = False
    names: tuple[tuple[str, str], ...] = (('"', '"'),)
    dollars: bool = False
    prefixed: str = ""
    refused: str = ""
    hashes: bool = False
    dashes_need_blank: bool = False
    nested: bool = False
    executable: bool = False
    tops: bool = False
    capitals: bool = False

    def quoted(self, name: str) -> str:
        """Return a name in quotes, whatever its characters are."""
        if self.capitals and _SMALL.fullmatch(name):
            name = name.upper()
        return quoted(name, *self.names[0])


_MYSQL = SqlSyntax(
    backslashes=True,
    double_quoted_texts=True,
    names=(("`", "`"),),
    hashes=True,
    dashes_need_blank=True,
    executable=True,
)
_SYNTAXES = {
    Kind.POSTGRESQL: SqlSyntax(dollars=True, prefixed="eE", nested=True),
    Kind.MYSQL: _MYSQL,
    Kind.MARIADB: _MYSQL,
    Kind.SQLITE: SqlSyntax(names=(('"', '"'), ("`", "`"), ("[", "]"))),
    Kind.DUCKDB: SqlSyntax(dollars=True, prefixed="eE", nested=True),
    Kind.SQLSERVER: SqlSyntax(names=(("[", "]"), ('"', '"')), nested=True, tops=True),
    Kind.ORACLE: SqlSyntax(refused="qQ", capitals=True),
}


def syntax_of(kind: Kind, *, sql_mode: str = "") -> SqlSyntax:
    """Return the SQL syntax of a kind of database; ``sql_mode`` is the mode of a MySQL session."""
    syntax = _SYNTAXES[kind]
    modes = sql_mode.upper().split(",")
    if "NO_BACKSLASH_ESCAPES" in modes:
        syntax = replace(syntax, backslashes=False)
    if "ANSI_QUOTES" in modes:
        names = (*syntax.names, ('"', '"'))
        syntax = replace(syntax, double_quoted_texts=False, names=names)
    return syntax


def kind_of(uri: str) -> Kind | None:
    """Return the kind of database in an address; None if the address shows no known kind."""
    word = uri.split(":")[1].lower() if uri.count(":") > 1 else ""
    return Kind(word) if word in set(Kind) else None
