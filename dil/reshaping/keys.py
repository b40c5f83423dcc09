"""Keys and delta fields of rows as tables; values are compared exactly, by their types.

The columns of such tables are ``k0``... for the key and ``d0``... for the delta fields. Nulls are
the smallest delta values; not-a-number counts as null. Fractions in a key are kept as integers,
because a join compares bits, and a comparison finds that not-a-number differs from itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import isnan

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConversionError
from dil.model.destination import MergeSpec
from dil.types.widening import conform

DELETED_TYPE = pa.timestamp("us", tz="UTC")
KEYS = "extract.primary.key.fields"


@dataclass(frozen=True, slots=True)
class KeyReader:
    """Finds keys and delta fields in rows, in the types of the dataset."""

    spec: MergeSpec
    target: pa.Schema

    @property
    def keys(self) -> list[str]:
        """Return the names of the key columns in key tables."""
        return [f"k{number}" for number in range(len(self.spec.keys))]

    @property
    def deltas(self) -> list[str]:
        """Return the names of the delta columns in key tables."""
        return [f"d{number}" for number in range(len(self.spec.delta_fields))]

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of key tables."""
        types = [self.target.field(name).type for name in self.spec.keys]
        keys = [pa.int64() if pa.types.is_floating(each) else each for each in types]
        deltas = [self.target.field(name).type for name in self.spec.delta_fields]
        return pa.schema(list(zip([*self.keys, *self.deltas], [*keys, *deltas], strict=True)))

    @property
    def columns(self) -> list[str]:
        """Return the columns of rows that a merge reads."""
        return list(dict.fromkeys([*self.spec.keys, *self.spec.delta_fields, *self._op]))

    @property
    def _op(self) -> tuple[str, ...]:
        """Return the column that marks deletes; a source may have it in deleted rows only."""
        return (self.spec.op_field,) if self.spec.op_field in self.target.names else ()

    def here(self, schema: pa.Schema) -> list[str]:
        """Return the columns of a file that a merge reads."""
        return [name for name in self.columns if name in schema.names]

    def has_keys(self, schema: pa.Schema) -> bool:
        """Return whether a file has all columns of the key."""
        return all(name in schema.names for name in self.spec.keys)

    def check(self) -> None:
        """Raise if the rows lack columns for merging.

        Raises:
            ConversionError: a column is missing, or holds records, lists or maps.
        """
        for prop, names in (
            (KEYS, self.spec.keys),
            ("extract.delta.fields", self.spec.delta_fields),
            ("ms.merge.op.field", self._op),
        ):
            for name in names:
                at = self.target.get_field_index(name)
                if at < 0:
                    raise ConversionError(
                        f'{prop} names "{name}", which is no column of the rows: they have '
                        f"{', '.join(self.target.names)}",
                        f"Correct {prop}.",
                    )
                if pa.types.is_nested(self.target.field(at).type):
                    raise ConversionError(
                        f'{prop} names "{name}", a column of {self.target.field(at).type}: rows '
                        "can be compared by plain values only",
                        f"Name another column in {prop}, or take a member out with"
                        " ms.derived.fields.",
                    )

    def of(self, batch: pa.RecordBatch) -> pa.Table:
        """Return the key table of rows; columns that they lack are null."""
        fields = [*self.spec.keys, *self.spec.delta_fields]
        wanted = pa.schema([self.target.field(name) for name in dict.fromkeys(fields)])
        here = [name for name in wanted.names if name in batch.schema.names]
        if here:
            part = batch.select(here)
        else:
            # A batch without columns does not keep its number of rows.
            filler = pa.schema([pa.field("", pa.null())])
            part = pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows)], schema=filler)
        rows = conform(part, wanted)
        arrays = {
            **{
                k: identified(rows.column(n))
                for k, n in zip(self.keys, self.spec.keys, strict=True)
            },
            **{
                d: _comparable(rows.column(n))
                for d, n in zip(self.deltas, self.spec.delta_fields, strict=True)
            },
        }
        return pa.table(arrays)

    def sorted_rows(self, table: pa.Table, *more: str) -> pa.Table:
        """Return a key table ordered by key, delta fields and further columns."""
        order = [(name, "ascending") for name in self.keys]
        for name in self.deltas:
            # Arrow would put nulls last; because of the ``has_`` column they come first.
            table = table.append_column(f"has_{name}", table[name].is_valid())
            order += [(f"has_{name}", "ascending"), (name, "ascending")]
        order += [(name, "ascending") for name in more]
        chosen = table.take(pc.sort_indices(table, sort_keys=order))
        return chosen.drop_columns([f"has_{name}" for name in self.deltas])

    def is_last(self, ordered: pa.Table) -> pa.Array:
        """Return for each row of an ordered key table whether it is the last row of its key."""
        last = pa.repeat(pa.scalar(value=True), min(ordered.num_rows, 1))
        if ordered.num_rows < 2:  # noqa: PLR2004 - a row has to have a neighbour
            return last
        columns = [flat(ordered[name]) for name in self.keys]
        changes = [pc.not_equal(each[:-1], each[1:]) for each in columns]
        return pa.concat_arrays([reduce(pc.or_, changes), last])

    def groups(self, ordered: pa.Table, *more: str) -> pa.Array:
        """Return numbers that are equal for equal keys, delta fields and further columns.

        Rows with equal values have to be neighbours in an ordered key table.
        """
        # Codes compare nulls as equal, whatever the type.
        columns = [
            flat(ordered[name]).dictionary_encode(null_encoding="encode").indices
            for name in (*self.keys, *self.deltas, *more)
        ]
        changes = reduce(pc.or_, (pc.not_equal(each[:-1], each[1:]) for each in columns))
        first = pa.array([0] * min(ordered.num_rows, 1), pa.int64())
        return pc.cumulative_sum(pa.concat_arrays([first, changes.cast(pa.int64())]))

    def newer(self, pairs: pa.Table, prefix: str) -> pa.ChunkedArray:
        """Return for each pair whether its ``<prefix>d0``... are newer than its ``d0``..."""
        is_newer = pa.repeat(pa.scalar(value=False), pairs.num_rows)
        is_tie = pa.repeat(pa.scalar(value=True), pairs.num_rows)
        for name in self.deltas:
            one, other = flat(pairs[prefix + name]), flat(pairs[name])
            alone = pc.and_(one.is_valid(), other.is_null())
            is_more = pc.or_(alone, pc.fill_null(pc.greater(one, other), fill_value=False))
            both_null = pc.and_(one.is_null(), other.is_null())
            is_same = pc.or_(both_null, pc.fill_null(pc.equal(one, other), fill_value=False))
            is_newer = pc.or_(is_newer, pc.and_(is_tie, is_more))
            is_tie = pc.and_(is_tie, is_same)
        return is_newer

    def refuse_nulls(self, table: pa.Table, first_row: int) -> None:
        """Raise if a key is null; ``first_row`` is the number of the first row, from 0.

        Raises:
            ConversionError: a key is null; the message names the column and the row.
        """
        for name, column in zip(self.spec.keys, self.keys, strict=True):
            if table[column].null_count:
                row = first_row + pc.index(table[column].is_null(), value=True).as_py() + 1
                raise ConversionError(
                    f'column "{name}" is null in row {row}: rows are merged by it ({KEYS})',
                    "Correct the source, or put such rows aside: ms.output.schema with "
                    f'"isNullable":false for {name}, and ms.schema.contract=discard_row.',
                )


def bucket_of(table: pa.Table, keys: Sequence[str], bounds: pa.Table) -> pa.Array:
    """Return the number of each row's bucket: the number of bounds that its key reaches."""
    number = pa.repeat(pa.scalar(0, pa.int32()), table.num_rows)
    for bound in bounds.to_batches():
        for row in range(bound.num_rows):
            is_after = pa.repeat(pa.scalar(value=True), table.num_rows)
            for name in reversed(keys):
                value = bound.column(name)[row]
                column = flat(table[name])
                is_equal = pc.and_(pc.equal(column, value), is_after)
                is_after = pc.or_(pc.greater(column, value), is_equal)
            number = pc.add(number, pc.fill_null(is_after, fill_value=False).cast(pa.int32()))
    return number


def row_numbers(start: int, rows: int) -> pa.Array:
    """Return ``start``, ``start`` + 1, ... as int64."""
    size = 1 << max(rows - 1, 1).bit_length()
    return pc.add(_counting(size).slice(0, rows), pa.scalar(start, pa.int64()))


def is_among(start: int, rows: int, numbers: pa.Array) -> pa.Array:
    """Return for each of ``rows`` rows, numbered from ``start``, whether it is in ``numbers``."""
    first = _before(numbers, start)
    part = numbers.slice(first, _before(numbers, start + rows) - first)
    if not len(part):
        return pa.repeat(pa.scalar(value=False), rows)
    return pc.is_in(row_numbers(start, rows), value_set=part)


def merged_row_numbers(tables: Iterable[pa.Array]) -> pa.Array:
    """Return the row numbers of several arrays in ascending order, each once."""
    found = pa.concat_arrays([pa.array([], pa.int64()), *map(flat, tables)])
    return found.take(pc.sort_indices(found)) if len(found) else found


def places_of(
    limits: pa.Array, ordered: pa.Array, first: pa.Array, last: pa.Array, *, is_after: bool
) -> pa.Array:
    """Return for each limit the index of the first value in ``ordered`` that reaches the limit.

    The search for each limit is between its ``first`` and its ``last`` (int64); between them
    ``ordered`` must be ascending. If ``is_after`` is true, the first value beyond the limit is
    searched. For a null limit the index is its ``first``.
    """
    # A binary search for all limits at once is a hundred times as fast as one search for each.
    is_before = pc.less_equal if is_after else pc.less
    for _ in range(len(ordered).bit_length()):
        is_open = pc.less(first, last)
        middle = pc.shift_right(pc.add(first, last), 1)
        found = ordered.take(pc.if_else(is_open, middle, 0))
        goes_up = pc.and_(is_open, pc.fill_null(is_before(found, limits), fill_value=False))
        last = pc.if_else(pc.and_(is_open, pc.invert(goes_up)), middle, last)
        first = pc.if_else(goes_up, pc.add(middle, 1), first)
    return first


def _before(numbers: pa.Array, limit: int) -> int:
    """Return how many of some ascending numbers are below a limit."""
    low, high = 0, len(numbers)
    while low < high:
        middle = (low + high) // 2
        if numbers[middle].as_py() < limit:
            low = middle + 1
        else:
            high = middle
    return low


@lru_cache(maxsize=4)
def _counting(size: int) -> pa.Array:
    return pa.array(range(size), pa.int64())


def identified(column: pa.Array) -> pa.Array:
    """Return values whose bits are equal if the values of a key are equal.

    -0.0 becomes 0.0, and all forms of not-a-number become one.
    """
    if not pa.types.is_floating(column.type):
        return column
    numbers = pc.add(column.cast(pa.float64()), 0.0)
    return pc.if_else(pc.is_nan(numbers), float("nan"), numbers).view(pa.int64())


def _comparable(column: pa.Array) -> pa.Array:
    if not pa.types.is_floating(column.type):
        return column
    # Adding 0.0 makes -0.0 to 0.0, which are equal but have other bits.
    numbers = pc.add(column, pa.scalar(0.0, column.type))
    return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), numbers)


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def equal_values(one: pa.Array, other: pa.Array) -> pa.Array:
    """Return a mask, without nulls, of the values that equal the value at the same place.

    A null equals a null, and not-a-number equals itself, at any depth.
    """
    if pa.types.is_null(one.type):
        return pa.repeat(pa.scalar(value=True), len(one))
    if pa.types.is_nested(one.type):  # Arrow does not compare nested values
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return pa.array([a == b or _are_equal(a, b) for a, b in pairs], pa.bool_())
    are_equal = pc.fill_null(pc.equal(one, other), fill_value=False)
    if pa.types.is_floating(one.type):
        are_nan = pc.and_(pc.is_nan(one), pc.is_nan(other))
        are_equal = pc.or_(are_equal, pc.fill_null(are_nan, fill_value=False))
    return pc.or_(are_equal, pc.and_(one.is_null(), other.is_null()))


def _are_equal(one: object, other: object) -> bool:
    """Return whether two values of one nested type are equal; for Python, no NaN equals another."""
    match one, other:
        case dict(), dict():
            return all(_are_equal(value, other[name]) for name, value in one.items())
        case list() | tuple(), list() | tuple():
            return len(one) == len(other) and all(map(_are_equal, one, other))
        case float(), float() if isnan(one):
            return isnan(other)
        case _:
            return one == other
