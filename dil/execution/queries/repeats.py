"""Finds rows that repeat a published row or an earlier row of the same query; knows no Spark.

Whether a row is left out depends only on the rows before it, so the result does not depend on how
the rows were cut into runs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import QueryError
from dil.model.derived import DEDUPE_COLUMN, DEDUPE_KEYS, DedupeSpec, TimeSpan, quoted
from dil.reshaping.dataset_reading import Statistics
from dil.types.hive import flat_word

# The place of a row among the rows of a query; published rows have places before all of them.
PLACE, TIME = "__dil_place", "__dil_time"
PUBLISHED = -1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def require_columns(schema: pa.Schema, spec: DedupeSpec) -> None:
    """Refuse a result that lacks a key or time column, or whose keys cannot be compared.

    Raises:
        QueryError: a column is missing, or its values are nested.
    """
    named = [*((name, DEDUPE_KEYS) for name in spec.keys), (spec.column, DEDUPE_COLUMN)]
    for name, key in named:
        if name not in schema.names:
            raise QueryError(
                f"the query's result has no column {name}, which {key} names",
                f"Name a column of the result: {', '.join(schema.names)}.",
            )
    for name in spec.keys:
        kind = schema.field(name).type
        if pa.types.is_nested(kind):
            raise QueryError(
                f"{name} is {kind}, and {DEDUPE_KEYS} needs single values",
                "Name a part of it in the query, as a column of its own.",
            )


def refuse_other_kinds(rows: pa.Schema, published: pa.Schema, spec: DedupeSpec) -> None:
    """Refuse keys that a comparison would convert, such as "007" to the number 7.

    Raises:
        QueryError: a key is a text, or a fraction, in only one of the two schemas.
    """
    for name in spec.keys:
        new, known = rows.field(name).type, published.field(name).type
        if _kind(new) != _kind(known):
            wanted = flat_word(known) or str(known)
            raise QueryError(
                f"{DEDUPE_KEYS} names {name}, which is {flat_word(new) or new} in the query's"
                f" result and {wanted} in the published rows: these types cannot be compared",
                f"Let the query give it the published type: CAST({quoted(name)} AS {wanted})."
                " Or give the job another job.name and table.",
            )


def _kind(found: pa.DataType) -> str:
    if pa.types.is_string(found) or pa.types.is_large_string(found):
        return "text"
    return "fraction" if pa.types.is_floating(found) else "other"


@dataclass(frozen=True, slots=True)
class NearSpan:
    """Decides whether a Parquet row group may have times of ``column`` in ``span``; pickles."""

    column: str
    span: TimeSpan

    def __call__(self, statistics: Statistics) -> bool:
        """Return whether a row of the group may be wanted."""
        found = statistics(self.column)
        if found is None:
            return True
        least, most = _micros(found[0]), _micros(found[1])
        if least is None or most is None:
            return True
        return most >= self.span.first_ms * 1000 and least <= self.span.last_ms * 1000


def _micros(value: object) -> int | None:
    """Return a time as microseconds since 1970 in UTC, None for a value that is no time."""
    match value:
        case datetime():
            aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value
            return (aware - _EPOCH) // timedelta(microseconds=1)
        case date():
            return _micros(datetime.combine(value, time()))
        case int():
            return value * 1000
        case _:
            return None


@dataclass(slots=True)
class Repeats:
    """Finds repeats among rows that are sorted by key, and by place among rows of equal key.

    Batches have the columns of the keys, then ``TIME``, then ``PLACE``. Times are microseconds.
    """

    within: int
    _last: list[pa.Array] = field(default_factory=list)
    _known: list[int] = field(default_factory=list)

    def places(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Array]:
        """Yield the places of the rows that are left out."""
        for batch in batches:
            if not batch.num_rows:
                continue
            keys = batch.columns[:-2]
            times = batch.column(batch.num_columns - 2).to_pylist()
            places = batch.column(batch.num_columns - 1).to_pylist()
            begins = _changes(keys, self._last)
            found = []
            for begin, at, place in zip(begins, times, places, strict=True):
                if begin:
                    self._known = []
                if place != PUBLISHED and self._is_near(at):
                    found.append(place)
                else:
                    insort(self._known, at)
            self._last = [column.slice(batch.num_rows - 1) for column in keys]
            yield pa.array(found, pa.int64())

    def _is_near(self, at: int) -> bool:
        """Return whether a published row is near enough in time."""
        place = bisect_left(self._known, at - self.within)
        return place < len(self._known) and self._known[place] <= at + self.within


def _changes(keys: Sequence[pa.Array], last: Sequence[pa.Array]) -> list[bool]:
    """Return for each row whether its key differs from the key of the row before.

    ``last`` is the row before the first one, empty if there is none.
    """
    before = last or [column.slice(0, 1) for column in keys]
    rows = len(keys[0])
    changed = pa.array([False] * rows, pa.bool_())
    for column, previous in zip(keys, before, strict=True):
        shifted = pa.concat_arrays([previous, column.slice(0, rows - 1)])
        differs = pc.not_equal(column, shifted)
        if pa.types.is_floating(column.type):  # as keys of Spark, NaN is equal to itself
            differs = pc.and_not(differs, pc.and_(pc.is_nan(column), pc.is_nan(shifted)))
        changed = pc.or_(changed, differs)
    return list(changed.to_pylist())
