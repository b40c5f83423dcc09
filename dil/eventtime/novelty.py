"""Which rows of a reading are new: not among the rows that were published before; pure.

Rows are told apart by their key, or without one by all of their values, counted: of three equal
rows where two were published, one is new. Only so many rows are looked at at once, in portions by
a number that equal rows share, so memory does not grow with a work unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dil.eventtime.lateness import Histogram, histogram_of, merge

# The event time of a row, in tables of rows that are compared.
AT = "at"
# What is grouped at once; it takes a few times as much while that goes on.
PORTION_BYTES = 64 * 1024 * 1024

_KNOWN, _FRESH = "known", "fresh"
_ODD = -7046029254386353131  # the golden ratio, as 64 bits: neighbours go to different portions
_TEXT_BYTES = 8
# Columns that say in which portion a row is.
_MIXED = 4

Rows = Callable[[], Iterable[pa.Table]]


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells rows apart: ``columns`` of the dataset, a key or all of them.

    Of lists only the lengths count, of maps whether there is one. ``is_key`` says that a row with a
    known key is not new, whatever else is in it.
    """

    columns: pa.Schema
    is_key: bool

    def of(self, rows: pa.RecordBatch) -> pa.Table:
        """Return a table of plain columns ``c0``... that are equal where rows are."""
        arrays = [each for name in self.columns.names for each in _plain(rows.column(name))]
        return pa.table({f"c{number}": each for number, each in enumerate(arrays)})


def lateness_of_new(
    known: Rows, fresh: Rows, size: int, identity: Identity, largest_before: int
) -> Histogram:
    """Return how late the rows are that are new.

    Args:
        known: Yields what was published: tables of ``Identity.of``. May be called several times.
        fresh: Yields what was read, likewise, with the event times as the column ``AT``: epoch ms
            UTC, null for rows that do not count.
        size: How many bytes both yield together, about.
        identity: What tells rows apart.
        largest_before: The largest event time that was published before, epoch ms UTC.
    """
    bits = (max(0, size - 1) // PORTION_BYTES).bit_length()
    found = []
    for portion in range(1 << bits):
        table = _together(_portion(known, portion, bits), _portion(fresh, portion, bits))
        if table is not None:
            found.append(_late(table, identity, largest_before))
    return merge(found)


def _portion(rows: Rows, portion: int, bits: int) -> Iterator[pa.Table]:
    for table in rows():
        if not bits:
            yield table
            continue
        numbers = pa.repeat(pa.scalar(0, pa.int64()), table.num_rows)
        for name in _identifying(table)[:_MIXED]:
            column = table.column(name).combine_chunks()
            numbers = pc.multiply(pc.add(numbers, _number(column)), _ODD)
        # The high bits are the ones that are mixed.
        numbers = pc.bit_wise_and(pc.shift_right(numbers, 64 - 1 - bits), (1 << bits) - 1)
        yield table.filter(pc.equal(numbers, portion))


def _identifying(table: pa.Table) -> list[str]:
    return [name for name in table.column_names if name not in {AT, _KNOWN, _FRESH}]


def _together(known: Iterable[pa.Table], fresh: Iterable[pa.Table]) -> pa.Table | None:
    """Return both in one table with the columns ``known`` and ``fresh``; None without any new."""
    read = [each for each in fresh if each.num_rows]
    if not read:
        return None
    marked = [_marked(each, is_known=False) for each in read]
    for each in known:
        times = pa.nulls(each.num_rows, pa.int64())
        marked.append(_marked(each.append_column(AT, times), is_known=True))
    return pa.concat_tables(marked)


def _marked(table: pa.Table, *, is_known: bool) -> pa.Table:
    one, none = (pa.repeat(pa.scalar(n, pa.int64()), table.num_rows) for n in (1, 0))
    first, second = (one, none) if is_known else (none, one)
    return table.append_column(_KNOWN, first).append_column(_FRESH, second)


def _late(table: pa.Table, identity: Identity, largest_before: int) -> Histogram:
    groups = table.group_by(_identifying(table), use_threads=False).aggregate(
        [(_KNOWN, "sum"), (_FRESH, "sum"), (AT, "min")]
    )
    known, fresh = groups[f"{_KNOWN}_sum"], groups[f"{_FRESH}_sum"]
    if identity.is_key:
        new = pc.if_else(pc.equal(known, 0), fresh, 0)
    else:
        new = pc.max_element_wise(pc.subtract(fresh, known), 0)
    chosen = pc.and_(pc.greater(new, 0), groups[f"{AT}_min"].is_valid())
    times, counts = groups[f"{AT}_min"].filter(chosen), new.filter(chosen)
    found: Counter[int] = Counter()
    for count in pc.unique(counts).to_pylist():
        part = histogram_of(times.filter(pc.equal(counts, count)), largest_before)
        found.update({edge: rows * count for edge, rows in part.rows_by_edge.items()})
    return Histogram(dict(sorted(found.items())))


def _plain(column: pa.Array) -> Sequence[pa.Array]:
    """Return columns without members or items that are equal where a column is."""
    kind = column.type
    if pa.types.is_struct(kind):
        return [each for inner in column.flatten() for each in _plain(inner)]
    if pa.types.is_map(kind) or pa.types.is_fixed_size_list(kind):
        return [column.is_valid()]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [pc.list_value_length(column)]
    if pa.types.is_dictionary(kind):
        return _plain(column.dictionary_decode())
    return [column]


def _number(column: pa.Array) -> pa.Int64Array:
    """Return a number for each row that is equal for equal values, 0 for null."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        found = _counted(column)
    else:
        text = column.cast(pa.string()) if not pa.types.is_binary(kind) else column
        # The end of a text varies most; what is shorter is filled up.
        filled = pc.binary_join_element_wise(
            pa.scalar(b" " * _TEXT_BYTES, pa.binary()),
            text.cast(pa.binary()),
            pa.scalar(b"", pa.binary()),
        )
        ends = pc.binary_slice(filled, -_TEXT_BYTES)
        found = ends.cast(pa.binary(_TEXT_BYTES)).view(pa.int64())
    return found.fill_null(0)


def _counted(column: pa.Array) -> pa.Int64Array:
    kind = column.type
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return column.cast(pa.int32()).cast(pa.int64())
    return column.cast(pa.int64(), safe=False)
