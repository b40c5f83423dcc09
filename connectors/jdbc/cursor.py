"""Pages by key: the key of a page's last row is the cursor of the next page.

``ms.session.key.field`` names a column of the result, or several separated by commas. The cursor of
one column is its value. The cursor of several columns is a JSON array; a statement names its parts
as ``{{cursor.column}}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from dil.errors import ConfigError, SourceContractError
from dil.model.json import JsonObject, JsonValue

if TYPE_CHECKING:
    import pyarrow as pa

_KEY = "ms.session.key.field"
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")


class KeyText(str):
    """A part of a key that is a text, and stays a text even if it consists of digits."""

    __slots__ = ()


def key_part(value: JsonValue) -> JsonValue:
    """Return a part of a key as it is bound: a text as ``KeyText``, any other value unchanged."""
    return KeyText(value) if isinstance(value, str) else value


class KeyWatch:
    """Checks the keys of the last rows of a page, so that no row is lost between two pages.

    A null key leads to no next page. Rows that share the key of the last row may lie on both sides
    of the page's edge; the rows behind the edge would be skipped. ``before`` is the key of the last
    row of the previous page; a page that begins with this key repeats that row.
    """

    def __init__(
        self, columns: tuple[str, ...], page_size: int | None, before: JsonObject | None = None
    ) -> None:
        self._columns = columns
        self._page_size = page_size
        self._before = before
        self._last: list[pa.RecordBatch] = []
        self._rows = 0

    def see(self, batch: pa.RecordBatch) -> None:
        """Record the keys of the next batch of the page.

        Raises:
            SourceContractError: the result lacks a key column, or begins with the last row of the
                previous page.
        """
        if not self._columns or not batch.num_rows:
            return
        for column in self._columns:
            if column not in batch.schema.names:
                raise SourceContractError(
                    f'the result has no column "{column}", which {_KEY} names',
                    f"Name one of its columns: {', '.join(batch.schema.names)}.",
                )
        keys = as_texts(batch.select(list(self._columns)))
        if not self._rows and keys.slice(0, 1).to_pylist() == [self._before]:
            raise SourceContractError(
                "a page begins with the row that the page before ended with, by its"
                f" {', '.join(self._columns)}: the statement does not go on behind the cursor",
                "Compare with > in ms.jdbc.statement, and with a key that the database compares as"
                " it sorts it.",
            )
        self._rows += batch.num_rows
        self._last = [*self._last[-1:], keys.slice(max(0, batch.num_rows - 2))]

    @property
    def kind(self) -> type | None:
        """Return the type of a key of one column, such as bool or int; None if there was no row."""
        import pyarrow as pa

        if not self._last:
            return None
        found = self._last[-1].schema.types[0]
        if pa.types.is_boolean(found):
            return bool
        if pa.types.is_floating(found):
            return float
        if pa.types.is_decimal(found):
            return Decimal
        return int if pa.types.is_integer(found) else str

    @property
    def last(self) -> JsonObject | None:
        """Return the key of the last row, by column name; None if there was no row."""
        if not self._last:
            return None
        found: JsonObject = self._last[-1].slice(self._last[-1].num_rows - 1).to_pylist()[0]
        return found

    @property
    def leads_on(self) -> bool:
        """Return whether more rows may follow the page: it has rows and is full."""
        return bool(self._rows) and (self._page_size is None or self._rows >= self._page_size)

    def check(self) -> None:
        """Refuse a page whose last key cannot be the cursor of the next page.

        Raises:
            SourceContractError: the last key is null, or equals the key of the row before.
        """
        if not self.leads_on:
            return
        rows = [row for batch in self._last for row in batch.to_pylist()][-2:]
        names = ", ".join(self._columns)
        if any(value is None for value in rows[-1].values()):
            raise SourceContractError(
                f"the key of the last row of a page, {names}, is null: it cannot lead to the next"
                " page",
                "Exclude such rows in ms.jdbc.statement, or give them a value with coalesce.",
            )
        if len(rows) > 1 and rows[0] == rows[1]:
            raise not_unique(self._columns, "the last two rows of a page have")


def not_unique(columns: Iterable[str], who: str) -> SourceContractError:
    """Return the error for a page's last key that other rows share; ``who`` begins its message."""
    names = ", ".join(columns)
    return SourceContractError(
        f"{who} the same {names}: others with that key may lie behind the edge of the page, and"
        " would never be read",
        f'Add a unique column to the key: {{"name": "{names}, id"}} in {_KEY}.',
    )


def key_columns(name: str) -> tuple[str, ...]:
    """Return the columns that the name of a session key lists."""
    return tuple(part.strip() for part in name.split(",") if part.strip())


def with_keys(
    variables: Mapping[str, JsonValue],
    parameters: Iterable[str],
    columns: tuple[str, ...],
    *,
    kind: type | None,
) -> dict[str, JsonValue]:
    """Return the variables, with cursors converted to the type of the key.

    Args:
        variables: The values of one request.
        parameters: The names of the parameters of type session.
        columns: The columns of the key.
        kind: The type of a key of one column, see ``KeyWatch``; None if it is not known yet.

    Raises:
        ConfigError: the key has several columns, and a cursor is no JSON array with a value for
            each.
    """
    known = dict(variables)
    for parameter in parameters:
        text = variables.get(parameter)
        if not isinstance(text, str) or not columns:
            continue
        if len(columns) > 1:
            known.update(_by_column(parameter, text, columns))
        elif kind is str or (kind is None and not looks_like_number(text)):
            known[parameter] = KeyText(text)
        elif kind is bool:
            known[parameter] = text.lower() == "true"
        elif kind is not None:
            known[parameter] = kind(text)
    return known


def looks_like_number(text: JsonValue) -> bool:
    """Return whether a cursor may be a number as well as a text."""
    return isinstance(text, str) and bool(_NUMBER.fullmatch(text))


def may_be_no_text(text: JsonValue) -> bool:
    """Return whether a cursor may be a number or a boolean as well as a text."""
    return looks_like_number(text) or text in ("true", "false")


def as_texts(keys: pa.RecordBatch) -> pa.RecordBatch:
    """Return the keys; times become texts, because Python's calendar ends with the year 9999."""
    import pyarrow as pa

    columns = [
        each.cast(pa.string()) if pa.types.is_temporal(each.type) else each for each in keys.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=keys.schema.names)


def _by_column(parameter: str, text: str, columns: tuple[str, ...]) -> dict[str, JsonValue]:
    try:
        values = json.loads(text, parse_float=Decimal)
    except ValueError:
        values = None
    if not isinstance(values, list) or len(values) != len(columns):
        raise ConfigError.single(
            _KEY,
            f"has {len(columns)} columns, and its cursor is no JSON array of as many values",
            'Write an array, for example "initValue": "[\\"1970-01-01\\", 0]".',
        )
    return {
        f"{parameter}.{name}": key_part(value) for name, value in zip(columns, values, strict=True)
    }
