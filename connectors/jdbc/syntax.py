"""The syntax of texts, names and comments in each kind of database; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from dil.databases.statements import quoted

# What SQLAlchemy makes of an Oracle name that was not quoted: ID is id.
_SMALL = re.compile(r"[a-z][a-z0-9_$#]*")


class Kind(StrEnum):
    """A kind of database; the value is the word behind ``jdbc:``."""

    POSTGRESQL = "postgresql"
    MYSQL = "mysql"
    MARIADB = "mariadb"
    SQLITE = "sqlite"
    DUCKDB = "duckdb"
    SQLSERVER = "sqlserver"
    ORACLE = "oracle"

    @property
    def is_mysql(self) -> bool:
        """Return whether it speaks MySQL's protocol."""
        return self in {Kind.MYSQL, Kind.MARIADB}

    @property
    def is_file(self) -> bool:
        """Return whether the database is a file of this machine."""
        return self in {Kind.SQLITE, Kind.DUCKDB}

    @property
    def adapts_texts(self) -> bool:
        """Return whether a bound text is compared as the type of the other side, even a number."""
        return self in {Kind.POSTGRESQL, Kind.DUCKDB}


@dataclass(frozen=True, slots=True)
class SqlSyntax:
    """How SQL is written there.

    ``backslashes`` says that a backslash escapes inside texts, ``double_quoted_texts`` that
    ``"..."`` is a text and no name. ``names`` maps what opens a quoted name to what closes it;
    ``quoted`` writes the first of them. ``dollars`` are PostgreSQL's dollar quotes, ``prefixed``
    the letters whose texts have escapes of their own (``E'..'``), ``refused`` those whose texts are
    not understood. ``hashes`` are comments that begin with ``#``; ``dashes_need_blank`` that ``--``
    begins one only before a blank. ``nested`` comments may hold comments. ``executable`` comments
    (``/*! */``) are SQL. ``tops`` says that TOP behind SELECT limits the rows, and that only
    whole statements have a WITH. ``capitals`` says that the driver gives names in small letters
    where the database has them in capitals.
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
        """Return a name in quotes, whatever characters it has."""
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
    """Return how SQL is written there; ``sql_mode`` is that of a MySQL session."""
    syntax = _SYNTAXES[kind]
    modes = sql_mode.upper().split(",")
    if "NO_BACKSLASH_ESCAPES" in modes:
        syntax = replace(syntax, backslashes=False)
    if "ANSI_QUOTES" in modes:
        names = (*syntax.names, ('"', '"'))
        syntax = replace(syntax, double_quoted_texts=False, names=names)
    return syntax


def kind_of(uri: str) -> Kind | None:
    """Return the kind of database; None where it is not known, encrypted, or a variable."""
    word = uri.split(":")[1].lower() if uri.count(":") > 1 else ""
    return Kind(word) if word in set(Kind) else None
