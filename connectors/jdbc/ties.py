"""Rows behind the edge of a page that share the key of its last row; the database is asked.

Only the database knows which keys it holds to be equal: a collation may ignore case, accents, or
blanks at the end. The cursor would pass over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from connectors.jdbc.cursor import KeyText, not_unique
from connectors.jdbc.dialects import Kind
from connectors.jdbc.engine import Connection
from connectors.jdbc.statement import Statement
from dil.model.json import JsonObject, JsonValue, as_text


def refuse_ties(
    connection: Connection,
    kind: Kind,
    statement: Statement,
    variables: Mapping[str, JsonValue],
    last: JsonObject,
) -> None:
    """Refuse a page whose last row has a key that other rows of the statement have too.

    One count of the rows with that key, of the statement without its order and limit. Statements
    whose limit cannot be taken away, and databases that no test runs against, are not asked.

    Args:
        connection: Where the page was read.
        kind: The kind of database.
        statement: The statement of the page.
        variables: What the page was asked with.
        last: The key of the last row, by the names of columns that the database knows.

    Raises:
        SourceContractError: there are such rows.
        SourceError: the database refuses.
    """
    whole = statement.unlimited
    if whole is None or kind in {Kind.SQLSERVER, Kind.ORACLE}:
        return
    ends = {f"dil.key.{at}": _end(value, kind) for at, value in enumerate(last.values())}
    same = " AND ".join(
        f"{connection.dialect.quoted(name)} = {{{{{end}}}}}"
        for name, end in zip(last, ends, strict=True)
    )
    sql = f"SELECT count(*) AS n FROM (\n{whole}\n) q WHERE {same}"  # noqa: S608
    found = connection.run(Statement(sql, connection.dialect), {**variables, **ends})
    if sum(row["n"] for batch in found for row in batch.to_pylist()) > 1:
        raise not_unique(last, "to the database, the last row of a page and another one have")


def _end(value: JsonValue, kind: Kind) -> JsonValue:
    """Return a part of a key as the next page would bind it."""
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return value if is_number and not kind.adapts_texts else KeyText(as_text(value))
