"""Finds the new rows of a reading, which were not published before; pure.

The key distinguishes rows. If there is no key, all values distinguish rows, and equal rows are
counted: if two of three equal rows were published, one is new. If a reading replaces the published
rows, a row in place of one with the same event time is that row with other values, and not new:
otherwise a source whose rows change with each reading would make all rows that are read again look
late.

Rows are compared in portions, so that memory does not grow with a work unit. A number that is
calculated from a row chooses the row's portion, so equal rows are in the same portion. A row and
its other version may be in two portions, so of rows that changed, the numbers of each event time
are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from dil.eventtime.lateness import Histogram, histogram_of, merge

# The event time of a row, in tables of rows that are compared.
AT = "at"
# The bytes of rows that are grouped at once, which takes a few times as much memory.
PORTION_BYTES = 64 * 1024 * 1024

_KNOWN, _FRESH = "known", "fresh"
_TIME, _CAME, _WENT = "time", "came", "went"
_ODD = -7046029254386353131  # the golden ratio, as 64 bits: neighbours go to different portions
_TEXT_BYTES = 8
# Columns with the number of a row's portion.
_MIXED = 4
# The number of places at which rows may have been inserted, and of rows at each place.
_STEPS, _LOOK = 64, 64

Rows = Callable[[], Iterable[pa.Table]]


@dataclass(frozen=True, slots=True)
class Identity:
    """The columns that distinguish rows: ``columns`` of the dataset, a key or all of them.

    Of lists, only the lengths count; of maps, only whether they are null. ``is_key`` says that a
    row with a known key is not new, whatever its other values are. ``replaces_known`` says that the
    rows that are read replace the known rows, that there is no key, and that the first of the
    columns is the event time.
    """

    columns: pa.Schema
    is_key: bool
    replaces_known: bool = False

    def of(self, rows: pa.RecordBatch) -> pa.Table:
        """Return the rows as plain columns ``c0``...; there, equal rows have equal values."""
        arrays = [each for name in self.columns.names for each in _plain(rows.column(name))]
        return pa.table({f"c{number}": each for number, each in enumerate(arrays)})


def lateness_of_new(
    known: Rows, fresh: Rows, size: int, identity: Identity, largest_before: int
) -> Histogram:
    """Return the histogram of the lateness of new rows.

    Args:
        known: Yields the published rows as tables of ``Identity.of``. May be called several times.
        fresh: Yields the rows that were read, as the same tables with a column ``AT`` of event
            times: epoch ms UTC, null for rows that do not count.
        size: The approximate bytes of the known and the fresh rows together.
        identity: The columns that distinguish rows.
        largest_before: The largest event time that was published before, epoch ms UTC.
    """
    bits = (max(0, size - 1) // PORTION_BYTES).bit_length()
    found, changes = [], []
    for portion in range(1 << bits):
        read = _portion(fresh, portion, bits)
        if read is None and not identity.replaces_known:
            continue
        there = _portion(known, portion, bits)
        if not identity.replaces_known and read is not None:
            found.append(_late(there, read, identity, largest_before))
        elif read is not None or there is not None:
            changes.append(_changes(there, read))
    if changes:
        # As many rows of an event time are new as came in addition to those that went.
        times = _by_time(pa.concat_tables(changes))
        new = pc.subtract(times[_CAME], times[_WENT])
        found.append(_histogram(times[AT], new, largest_before))
    return merge(found)


def _portion(rows: Rows, portion: int, bits: int) -> pa.Table | None:
    """Return the rows of one portion; None if it has no rows."""
    found = []
    for table in rows():
        part = table
        if bits:
            numbers = pa.repeat(pa.scalar(0, pa.int64()), table.num_rows)
            for name in _identifying(table)[:_MIXED]:
                column = table.column(name).combine_chunks()
                numbers = pc.multiply(pc.add(numbers, _number(column)), _ODD)
            # The multiplication mixes the high bits.
            numbers = pc.bit_wise_and(pc.shift_right(numbers, 64 - 1 - bits), (1 << bits) - 1)
            part = table.filter(pc.equal(numbers, portion))
        if part.num_rows:
            found.append(part)
    return pa.concat_tables(found) if found else None


def _identifying(table: pa.Table) -> list[str]:
    return [name for name in table.column_names if name != AT]


def _late(
    known: pa.Table | None, fresh: pa.Table, identity: Identity, largest_before: int
) -> Histogram:
    if known is None:
        return histogram_of(fresh[AT], largest_before)
    columns = _identifying(fresh)
    rest, left = unpaired(known, fresh, columns)
    if not left.num_rows:
        return Histogram()
    # A key may occur several times, so it is looked for among all known keys.
    rest = known if identity.is_key else rest
    if left.num_rows < rest.num_rows // 2:
        rest = rest.filter(pc.is_in(rest[columns[0]], value_set=left[columns[0]]))
    if identity.is_key and len(columns) == 1:
        is_new = pc.invert(pc.is_in(left[columns[0]], value_set=rest[columns[0]]))
        return histogram_of(left[AT].filter(is_new), largest_before)
    groups = _counted(rest, left, columns)
    before, now = groups[f"{_KNOWN}_sum"], groups[f"{_FRESH}_sum"]
    new = pc.if_else(pc.equal(before, 0), now, 0) if identity.is_key else pc.subtract(now, before)
    return _histogram(groups[f"{AT}_min"], new, largest_before)


def _changes(known: pa.Table | None, fresh: pa.Table | None) -> pa.Table:
    """Return how many rows came and how many went, of each event time at which rows differ."""
    columns = _identifying(known if fresh is None else fresh)
    if known is not None and fresh is not None:
        known, fresh = unpaired(known, fresh, columns)
    groups = _counted(known, fresh, columns)
    more = pc.subtract(groups[f"{_FRESH}_sum"], groups[f"{_KNOWN}_sum"])
    came, went = (pc.max_element_wise(each, 0) for each in (more, pc.negate(more)))
    table = pa.table({_TIME: groups[columns[0]], AT: groups[f"{AT}_min"], _CAME: came, _WENT: went})
    return _by_time(table.filter(pc.not_equal(more, 0)))


def _by_time(changes: pa.Table) -> pa.Table:
    found = changes.group_by(_TIME, use_threads=False).aggregate(
        [(AT, "min"), (_CAME, "sum"), (_WENT, "sum")]
    )
    return found.select([_TIME, f"{AT}_min", f"{_CAME}_sum", f"{_WENT}_sum"]).rename_columns(
        changes.column_names
    )


def _counted(known: pa.Table | None, fresh: pa.Table | None, columns: Sequence[str]) -> pa.Table:
    """Return the distinct rows of both tables, with the numbers of equal rows on both sides."""
    marked = []
    if known is not None:
        timeless = known.append_column(AT, pa.nulls(known.num_rows, pa.int64()))
        marked.append(_marked(timeless, is_known=True))
    if fresh is not None:
        marked.append(_marked(fresh, is_known=False))
    return (
        pa.concat_tables(marked)
        .group_by(columns, use_threads=False)
        .aggregate([(_KNOWN, "sum"), (_FRESH, "sum"), (AT, "min")])
    )


def _histogram(at: pa.ChunkedArray, new: pa.ChunkedArray, largest_before: int) -> Histogram:
    """Return the lateness of new rows: ``new`` of each event time, none if that is negative."""
    chosen = pc.and_(pc.greater(new, 0), at.is_valid())
    times, counts = at.filter(chosen), new.filter(chosen)
    found: Counter[int] = Counter()
    for count in pc.unique(counts).to_pylist():
        part = histogram_of(times.filter(pc.equal(counts, count)), largest_before)
        found.update({edge: rows * count for edge, rows in part.rows_by_edge.items()})
    return Histogram(dict(sorted(found.items())))


def unpaired(known: pa.Table, fresh: pa.Table, columns: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """Return the rows of both tables without pairs of equal rows.

    Most rows of a second reading equal the rows of the first one, in the same order; such pairs are
    found without a look at each row. If rows come in another order, all of them are returned.
    """
    at_known = at_fresh = 0
    rest, left = [], []
    for _ in range(_STEPS):
        pairs = _equal_rows(known.slice(at_known), fresh.slice(at_fresh), columns)
        at_known, at_fresh = at_known + pairs, at_fresh + pairs
        added = _place(known.slice(at_known, 1), fresh.slice(at_fresh, _LOOK), columns)
        gone = (
            0 if added else _place(fresh.slice(at_fresh, 1), known.slice(at_known, _LOOK), columns)
        )
        if not (added or gone):
            break
        left.append(fresh.slice(at_fresh, added))
        rest.append(known.slice(at_known, gone))
        at_known, at_fresh = at_known + gone, at_fresh + added
    rest.append(known.slice(at_known))
    left.append(fresh.slice(at_fresh))
    return pa.concat_tables(rest), pa.concat_tables(left)


def _equal_rows(one: pa.Table, other: pa.Table, columns: Sequence[str]) -> int:
    """Return the number of equal rows at the beginning of two tables."""
    end, start, size = int(min(one.num_rows, other.num_rows)), 0, 256
    while start < end:
        size = min(size * 4, end - start)
        equal = _are_equal(one.slice(start, size), other.slice(start, size), columns)
        first = int(pc.index(equal, value=False).as_py())
        if first >= 0:
            return start + first
        start += size
    return end


def _place(row: pa.Table, rows: pa.Table, columns: Sequence[str]) -> int:
    """Return the index of the first of ``rows`` that equals ``row``; 0 if none does."""
    if not row.num_rows or not rows.num_rows:
        return 0
    one = row.take([0] * rows.num_rows)
    return max(0, int(pc.index(_are_equal(one, rows, columns), value=True).as_py()))


def _are_equal(one: pa.Table, other: pa.Table, columns: Sequence[str]) -> pa.ChunkedArray:
    """Return a mask of the rows that equal the row at the same place; nulls are equal."""
    found = []
    for name in columns:
        first, second = one[name], other[name]
        is_equal = pc.fill_null(pc.equal(first, second), fill_value=False)
        if first.null_count and second.null_count:
            is_equal = pc.or_(is_equal, pc.and_(first.is_null(), second.is_null()))
        found.append(is_equal)
    return reduce(pc.and_, found)


def _marked(table: pa.Table, *, is_known: bool) -> pa.Table:
    one, none = (pa.repeat(pa.scalar(n, pa.int64()), table.num_rows) for n in (1, 0))
    first, second = (one, none) if is_known else (none, one)
    return table.append_column(_KNOWN, first).append_column(_FRESH, second)


def _plain(column: pa.Array) -> Sequence[pa.Array]:
    """Return flat columns that are equal for two rows if the nested column is."""
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
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        found = column.cast(pa.int32()).cast(pa.int64())
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        found = column.cast(pa.int64(), safe=False)
    else:
        text = column.cast(pa.string()) if not pa.types.is_binary(kind) else column
        # The end of a text varies most; shorter texts are padded.
        filled = pc.binary_join_element_wise(
            pa.scalar(b" " * _TEXT_BYTES, pa.binary()),
            text.cast(pa.binary()),
            pa.scalar(b"", pa.binary()),
        )
        ends = pc.binary_slice(filled, -_TEXT_BYTES)
        found = ends.cast(pa.binary(_TEXT_BYTES)).view(pa.int64())
    return found.fill_null(0)
