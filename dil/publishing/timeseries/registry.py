"""The registry of timelabels, in the database of the tables (rule T21)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from dil.databases.statements import MARK
from dil.publishing.warehouse.dialect import Connection, Dialect, TableName
from dil.types.warehouse import TEXT

REGISTRY = "timelabel_registry"


class LabelState(StrEnum):
    """The state of a timelabel."""

    PENDING = "PENDING"
    LOADED = "LOADED"
    CLOSED = "CLOSED"
    REOPENED = "REOPENED"
    SKIPPED = "SKIPPED"
    DROPPED = "DROPPED"


_WITH_ROWS = frozenset({LabelState.LOADED, LabelState.CLOSED, LabelState.REOPENED})


@dataclass(frozen=True, slots=True)
class LabelEntry:
    """One timelabel; times are epoch ms UTC, the window is [start_ms, end_ms).

    ``loaded_at`` is None if the label was not loaded yet, or was reopened to be loaded again.
    ``object`` is the name of the table that holds the label's rows, empty if there is none;
    ``columns`` are the types of this table in the database's words, by column name. ``attempt``
    counts the label's loads, ``seq`` is the number of the commit that changed the label last.
    """

    label: str
    start_ms: int
    end_ms: int
    state: LabelState = LabelState.PENDING
    rows: int = 0
    object: str = ""
    attempt: int = 0
    seq: int = 0
    loaded_at: int | None = None
    closed_at: int | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_live(self) -> bool:
        """Return whether the view reads the label's rows."""
        return self.state in _WITH_ROWS and bool(self.object)

    @property
    def waits(self) -> bool:
        """Return whether an operator wants the label loaded again, and no run has done so."""
        return self.state is LabelState.REOPENED and self.loaded_at is None

    @property
    def keeps_rows(self) -> bool:
        """Return whether the rows of the last load count, even if the label has none."""
        return self.state in _WITH_ROWS and not self.waits

    def is_over(self, before: int) -> bool:
        """Return whether the label ended before an instant, epoch ms UTC: its retention is over.

        For a label that was reopened, retention begins when it was loaded again.
        """
        if self.waits:
            return False
        is_reopened = self.state is LabelState.REOPENED
        return max(self.end_ms, (self.loaded_at or 0) if is_reopened else 0) < before


_NUMBERS = ("start_ms", "end_ms", "rows", "attempt", "seq", "loaded_at", "closed_at")
_TEXTS = ("state", "object", "columns")


@dataclass(frozen=True, slots=True)
class Registry:
    """The entries of one table in the registry."""

    dialect: Dialect
    base: TableName

    def make(self, connection: Connection) -> None:
        """Create the registry; it may be repeated."""
        if self.is_there(connection):
            return
        quote, words = self.dialect.quote, self.dialect.type_words
        self.dialect.make_schema(connection, self.base.schema)
        keys = ("dataset_id", "table_name", "timelabel")
        parts = [f"{quote(name)} {words(TEXT, is_key=True)} NOT NULL" for name in keys]
        parts += [f"{quote(name)} {words(pa.int64(), is_key=False)}" for name in _NUMBERS]
        parts += [f"{quote(name)} {words(TEXT, is_key=False)}" for name in _TEXTS]
        parts.append(f"PRIMARY KEY ({', '.join(map(quote, keys))})")
        connection.change(f"CREATE TABLE IF NOT EXISTS {self._full} ({', '.join(parts)})")

    def is_there(self, connection: Connection) -> bool:
        """Return whether the registry exists."""
        return self.dialect.table(connection, self._name) is not None

    def entries(self, connection: Connection) -> dict[str, LabelEntry]:
        """Return the entries by label, in order of time."""
        names = ", ".join(map(self.dialect.quote, ("timelabel", *_NUMBERS, *_TEXTS)))
        found = connection.rows(
            f"SELECT {names} FROM {self._full} WHERE {self._is_own} "
            f"ORDER BY {self.dialect.quote('timelabel')}",
            self._dataset,
            self.base.name,
        )
        return {str(row[0]): _entry(row) for row in found}

    def put(self, connection: Connection, entry: LabelEntry) -> None:
        """Write a label's entry; readers always see either the old or the new entry."""
        quote = self.dialect.quote
        keys = {"dataset_id": MARK, "table_name": MARK, "timelabel": MARK}
        key = (self._dataset, self.base.name, entry.label)
        connection.change(self.dialect.insert_once(self._name, keys), *key)
        numbers = (
            f"{quote(name)} = {'NULL' if (value := getattr(entry, name)) is None else int(value)}"
            for name in _NUMBERS
        )
        texts = (f"{quote(name)} = {MARK}" for name in _TEXTS)
        connection.change(
            f"UPDATE {self._full} SET {', '.join((*numbers, *texts))} "
            f"WHERE {self._is_own} AND {quote('timelabel')} = {MARK}",
            str(entry.state),
            entry.object,
            json.dumps(dict(entry.columns)),
            *key,
        )

    @property
    def _dataset(self) -> str:
        return f"{self.base.schema}.{self.base.name}".lstrip(".")

    @property
    def _name(self) -> TableName:
        return TableName(self.base.schema, REGISTRY)

    @property
    def _full(self) -> str:
        return self.dialect.full(self._name)

    @property
    def _is_own(self) -> str:
        quote = self.dialect.quote
        return f"{quote('dataset_id')} = {MARK} AND {quote('table_name')} = {MARK}"


def _entry(row: tuple[object, ...]) -> LabelEntry:
    label, start, end, rows, attempt, seq, loaded, closed, state, name, columns = row
    return LabelEntry(
        label=str(label),
        start_ms=_number(start),
        end_ms=_number(end),
        state=LabelState(str(state or LabelState.PENDING)),
        rows=_number(rows),
        object=str(name or ""),
        attempt=_number(attempt),
        seq=_number(seq),
        loaded_at=None if loaded is None else _number(loaded),
        closed_at=None if closed is None else _number(closed),
        columns=json.loads(str(columns or "{}")),
    )


def _number(value: object) -> int:
    return int(str(value or 0))
