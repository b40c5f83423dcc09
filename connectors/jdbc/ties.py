"""Asks the database whether rows after a page share the key of the page's last row.

Only the database knows which keys equal that key: a collation may ignore case, accents, or blanks
at the end. The cursor would skip all rows with an equal key.
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
# No test runs against these databases. If they refuse the query, the page does not fail.
_UNTRIED = {Kind.SQLSERVER, Kind.ORACLE}


class TieWatch:
    """Checks at the edges of one walk's pages whether later rows share the key of the last row.

    If the statement groups rows, the database runs all of it for each check. So a first check, once
    for the transaction, asks whether any two rows share a key. Pages are checked only if some rows
    share a key.

    Args:
        connection: The connection that reads the pages.
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
        """Raise if other rows of the statement share the key of a page's last row.

        This method counts the rows with that key, after removing the statement's order and limit.
        It does not check a statement whose limit cannot be removed.

        Args:
            statement: The statement of the page.
            variables: The values of the page's request.
            last: The key of the last row, under the names that the database gives the columns.

        Raises:
            SourceContractError: other rows share the key.
            SourceError: the database refuses the query.
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
        ends: dict[str, JsonValue] = {}  # The parts of the key, as the next page binds them.
        for at, value in enumerate(last.values()):
            is_text = not isinstance(value, bool | int | float | Decimal)
            binds_text = is_text or self._kind.adapts_texts
            ends[f"dil.key.{at}"] = KeyText(as_text(value)) if binds_text else value
        sql = same_key(self._names(last), ends, whole)
        try:
            count = self._count(sql, {**variables, **ends})
        except RefusedError as error:
            if self._kind not in _UNTRIED:
                raise
            _LOG.warning(
                "it is unknown whether later rows share the key of the page's last row; such rows"
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
    """Return SQL that counts the rows of a query that have a given key.

    Args:
        names: The columns of the key.
        ends: The variable that holds the value of each of these columns.
        whole: The query.
    """
    same = " AND ".join(f"{name} = {{{{{end}}}}}" for name, end in zip(names, ends, strict=True))
    return f"SELECT count(*) AS n FROM (\n{whole}\n) q WHERE {same}"  # noqa: S608


def repeated_keys(names: Iterable[str], whole: str) -> str:
    """Return SQL that counts the keys that more than one row of a query has."""
    keys = ", ".join(names)
    return (
        f"SELECT count(*) AS n FROM (SELECT 1 AS one FROM (\n{whole}\n) q"  # noqa: S608
        f" GROUP BY {keys} HAVING count(*) > 1) repeated"
    )
