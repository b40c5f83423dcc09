"""Asks the database for rows behind the edge of a page that share the key of its last row.

Only the database knows which keys it holds to be equal: a collation may ignore case, accents, or
blanks at the end. The cursor would pass over all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from decimal import Decimal

from connectors.jdbc.cursor import KeyText, not_unique
from connectors.jdbc.engine import SourceConnection
from connectors.jdbc.failures import RefusedError
from connectors.jdbc.statement import Statement, names_in
from connectors.jdbc.syntax import Kind
from dil.model.json import JsonObject, JsonValue, as_text

_LOG = logging.getLogger(__name__)
# No test runs against them, and what they do not take is no reason to fail.
_UNTRIED = {Kind.SQLSERVER, Kind.ORACLE}


class TieWatch:
    """Asks at the edges of one walk's pages whether rows behind share the key of the last one.

    A statement that groups is run as a whole for each such question. There it is asked once
    whether any two rows share a key, which holds for the transaction; only where some do, each
    page is asked for.

    Args:
        connection: Where the pages are read.
        kind: The kind of database.
        cursors: The parameters that lead from page to page.
    """

    def __init__(self, connection: SourceConnection, kind: Kind, cursors: Iterable[str]) -> None:
        self._connection = connection
        self._kind = kind
        self._cursors = frozenset(cursors)
        self._asked: dict[str, JsonValue] | None = None
        self._is_unique = False

    def refuse(
        self, statement: Statement, variables: Mapping[str, JsonValue], last: JsonObject
    ) -> None:
        """Refuse a page whose last row has a key that other rows of the statement have too.

        One count of the rows with that key, of the statement without its order and limit.
        Statements whose limit cannot be taken away are not asked for.

        Args:
            statement: The statement of the page.
            variables: What the page was asked with.
            last: The key of the last row, by the names of columns that the database knows.

        Raises:
            SourceContractError: there are such rows.
            SourceError: the database refuses.
        """
        whole = statement.unlimited
        if whole is None:
            return
        if statement.groups and self._kind not in _UNTRIED:
            others = {
                name: variables.get(name)
                for name in names_in(whole)
                if name.partition(".")[0] not in self._cursors
            }
            if others != self._asked:
                self._asked = others
                self._is_unique = (
                    self._count(repeated_keys(self._names(last), whole), variables) == 0
                )
            if self._is_unique:
                return
        ends = {f"dil.key.{at}": _end(value, self._kind) for at, value in enumerate(last.values())}
        sql = same_key(self._names(last), ends, whole)
        try:
            count = self._count(sql, {**variables, **ends})
        except RefusedError as error:
            if self._kind not in _UNTRIED:
                raise
            _LOG.warning(
                "it is unknown whether rows behind the page have the key of its last one, which"
                " would not be read: %s",
                error.message,
            )
            return
        if count > 1:
            raise not_unique(last, "to the database, the last row of a page and another one have")

    def _names(self, last: JsonObject) -> list[str]:
        return [f"q.{self._connection.syntax.quoted(name)}" for name in last]

    def _count(self, sql: str, variables: Mapping[str, JsonValue]) -> int:
        found = self._connection.run(Statement(sql, self._connection.syntax), variables)
        return sum(int(row["n"]) for batch in found for row in batch.to_pylist())


def same_key(names: Iterable[str], ends: Iterable[str], whole: str) -> str:
    """Return SQL that counts the rows of a query whose columns equal some variables."""
    same = " AND ".join(f"{name} = {{{{{end}}}}}" for name, end in zip(names, ends, strict=True))
    return f"SELECT count(*) AS n FROM (\n{whole}\n) q WHERE {same}"  # noqa: S608


def repeated_keys(names: Iterable[str], whole: str) -> str:
    """Return SQL that counts the keys which more than one row of a query has."""
    keys = ", ".join(names)
    return (
        f"SELECT count(*) AS n FROM (SELECT 1 AS one FROM (\n{whole}\n) q"  # noqa: S608
        f" GROUP BY {keys} HAVING count(*) > 1) repeated"
    )


def _end(value: JsonValue, kind: Kind) -> JsonValue:
    """Return a part of a key in the form in which the next page binds it."""
    is_text = not isinstance(value, bool | int | float | Decimal)
    return KeyText(as_text(value)) if is_text or kind.adapts_texts else value
