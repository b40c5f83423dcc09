"""Cuts a key column into half-open ranges: the queries that find them, and that read one of them.

Ranges have no gap and no overlap; nulls get their own range. The first range has no lower end, and
the last range has no upper end. So rows that arrive during reading, and keys outside the bounds
that planning found, are in exactly one range.

The bounds come from the rows at planning time. Between ``quantile`` bounds there are equal numbers
of rows; finding them takes one pass over the column. ``range`` bounds need only the least and the
greatest key of the column, and an index gives these.

A range is a unit of the job: ``{"low": ..., "high": ...}``, without the end that is open, or
``{"null": true}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

from connectors.jdbc.cursor import as_texts, key_part
from connectors.jdbc.engine import SourceConnection
from connectors.jdbc.statement import Statement
from connectors.jdbc.syntax import SqlSyntax
from dil.errors import ConfigError, SourceContractError
from dil.model.json import JsonObject, JsonValue

Key = int | float | str


def ranges_of(
    connection: SourceConnection, sql: str, column: str, count: int, *, by_quantile: bool
) -> list[JsonObject]:
    """Return the ranges that divide the rows of a query.

    Args:
        connection: The connection that runs the query.
        sql: A query that has the column, without variables.
        column: The key column.
        count: The number of ranges.
        by_quantile: Whether each range holds about the same number of rows.

    Raises:
        SourceContractError: the column cannot be cut into ranges.
        SourceError: the database refuses the query.
    """
    name = _name(connection.syntax, column)
    source = f"(\n{sql}\n) q"
    if by_quantile:
        bounds = _quantiles(connection, source, name, count)
        _check_order(connection, source, column, bounds)
        return between(bounds)
    sql = f"SELECT min({name}) AS least, max({name}) AS most FROM {source}"  # noqa: S608
    facts = _rows(connection, sql)[0]
    least, most = _key(facts["least"]), _key(facts["most"])
    if least is None:
        return between(())
    if not isinstance(least, int) or not isinstance(most, int):
        raise no_even_ranges(column)
    return even_ranges(least, most, count)


def no_even_ranges(column: str) -> SourceContractError:
    """Return the error for a column whose keys are no whole numbers."""
    return SourceContractError(
        f'the column "{column}" holds no whole numbers, so its keys have no even ranges',
        "Set ms.jdbc.partition.by=quantile.",
    )


def narrowed(syntax: SqlSyntax, sql: str, column: str, unit: JsonObject) -> str:
    """Return a query for one range: from ``{{range.low}}`` to before ``{{range.high}}``, or nulls.

    Args:
        syntax: The SQL syntax of the database.
        sql: The query of the job.
        column: The key column.
        unit: The range.
    """
    name = _name(syntax, column)
    if unit.get("null"):
        where = f"{name} IS NULL"
    else:
        low = f"{name} >= {{{{range.low}}}}" if "low" in unit else ""
        high = f"{name} < {{{{range.high}}}}" if "high" in unit else ""
        where = " AND ".join(part for part in (low, high) if part) or f"{name} IS NOT NULL"
    return f"SELECT * FROM (\n{sql}\n) q WHERE {where}"  # noqa: S608


def refuse_unknown(connection: SourceConnection, sql: str, column: str) -> None:
    """Raise ConfigError if a query lacks the column, after the database refused to cut by it.

    Args:
        connection: A new connection.
        sql: The query, without variables.
        column: The name in ``ms.jdbc.partition.column``.

    Raises:
        ConfigError: the query has no such column.
        SourceError: the database refuses the query itself.
    """
    # The result is one row of nulls, whatever rows the query has, and the query need not run.
    asked = f"SELECT q.* FROM (SELECT 1 AS one) o LEFT JOIN (\n{sql}\n) q ON 1 = 0"  # noqa: S608
    names = list(_rows(connection, asked)[0])
    if column in names:
        return
    by_lower = {name.lower(): name for name in names}
    near = get_close_matches(column.lower(), by_lower, n=1)
    raise ConfigError.single(
        "ms.jdbc.partition.column",
        f'names the column "{column}", which the result of ms.jdbc.statement lacks',
        (f'Did you mean "{by_lower[near[0]]}"? ' if near else "")
        + f"Name one of its columns: {', '.join(names)}.",
    )


def _name(syntax: SqlSyntax, column: str) -> str:
    """Return the column as a qualified name: SQLite takes an unknown quoted name for a text."""
    return f"q.{syntax.quoted(column)}"


def _quantiles(connection: SourceConnection, source: str, name: str, count: int) -> list[Key]:
    """Return the first keys of all parts but the first part; parts have about as many rows.

    A key that fills more than one part is returned at most once. The first row of a part is found
    by its order, because databases sort types for which they have no ``min``, such as uuid.
    """
    sql = (
        "SELECT k FROM (SELECT k, n, lag(n) OVER (ORDER BY n, k) AS earlier FROM"  # noqa: S608
        f" (SELECT {name} AS k, ntile({count}) OVER (ORDER BY {name}) AS n"
        f" FROM {source} WHERE {name} IS NOT NULL) parts) firsts"
        " WHERE earlier IS NULL OR earlier <> n ORDER BY n"
    )
    keys = [_key(row["k"]) for row in _rows(connection, sql)]
    return [*dict.fromkeys(key for key in keys if key is not None)][1:]


def _check_order(connection: SourceConnection, source: str, column: str, bounds: list[Key]) -> None:
    """Raise if the database sorts keys in another order than it compares them, as for an enum.

    Raises:
        SourceContractError: a row would be in two ranges, or in none.
    """
    name = _name(connection.syntax, column)
    sql = f"SELECT count(*) AS n FROM {source} WHERE {name} = {{{{low}}}} AND {name} < {{{{high}}}}"  # noqa: S608
    statement = Statement(sql, connection.syntax)
    for low, high in pairwise(bounds):
        ends: dict[str, JsonValue] = {"low": key_part(low), "high": key_part(high)}
        found = [row for batch in connection.run(statement, ends) for row in batch.to_pylist()]
        if not found or not found[0]["n"]:
            raise SourceContractError(
                f'the keys of "{column}" are sorted otherwise than they are compared: rows would'
                " be in two ranges or in none",
                "Cast the column to text in ms.jdbc.statement, or name another column.",
            )


def _key(value: Any) -> Key | None:  # a value of any column
    """Return a key as JSON holds it: a number, or the text of any other value."""
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    return value if value is None or isinstance(value, int | float) else str(value)


def _rows(connection: SourceConnection, sql: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in connection.run(Statement(sql, connection.syntax), {}):
        try:
            rows += batch.to_pylist()
        except OverflowError:  # a time after the year 9999, the last of Python's calendar
            rows += as_texts(batch).to_pylist()
    return rows


def even_ranges(least: int, most: int, count: int) -> list[JsonObject]:
    """Return ranges of equal width for the whole keys from ``least`` to ``most``, and the nulls.

    If there are fewer keys than ``count``, there are fewer ranges.
    """
    width = most - least + 1
    number = max(1, min(count, width))
    return between([least + width * at // number for at in range(1, number)])


def between(bounds: Sequence[Key]) -> list[JsonObject]:
    """Return the ranges between bounds, and the range of the nulls; equal bounds count once.

    ``bounds`` are keys in the order in which the database sorts them.
    """
    ranges: list[JsonObject] = []
    for low, high in pairwise([None, *dict.fromkeys(bounds), None]):
        ends = {"low": low, "high": high}
        ranges.append({name: end for name, end in ends.items() if end is not None})
    return [*ranges, {"null": True}]
