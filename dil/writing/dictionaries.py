"""Which columns of a Parquet file are worth a dictionary, judged by their first rows.

A dictionary of values that hardly repeat costs more time than all the rest of a column's writing,
and makes the file larger.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

_SAMPLE = 16_384
# Values that repeat at least so often on average are kept in a dictionary.
_REPEATS = 2


def dictionary_columns(table: pa.Table, row_group_rows: int) -> list[str]:
    """Return the paths of the flat columns, as Parquet names them, that repeat their values.

    Args:
        table: The first rows of the file.
        row_group_rows: How many rows share a dictionary at most.
    """
    sample = table.slice(0, _SAMPLE).combine_chunks()
    return [
        path
        for name in sample.column_names
        for path, values in _leaves(name, _whole(sample.column(name)))
        if _repeats(values, row_group_rows)
    ]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    kind = values.type
    if pa.types.is_struct(kind):
        for place in range(kind.num_fields):
            yield from _leaves(f"{path}.{kind.field(place).name}", pc.struct_field(values, [place]))
    elif pa.types.is_map(kind):
        # Not cut to the slice; neighbours of the sample do as well.
        yield from _leaves(f"{path}.key_value.key", values.keys[:_SAMPLE])
        yield from _leaves(f"{path}.key_value.value", values.items[:_SAMPLE])
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(f"{path}.list.element", pc.list_flatten(values))
    else:
        yield path, values


def _repeats(values: pa.Array, row_group_rows: int) -> bool:
    """Return whether a row group holds each value several times, as far as the sample shows.

    Of ``size`` drawn values ``again`` had come before; of ``n`` equally frequent ones
    ``size * size / (2 * n)`` would have.
    """
    size = len(values) - values.null_count
    try:
        again = size - pc.count_distinct(values, mode="only_valid").as_py()
    except pa.ArrowNotImplementedError:
        return False  # the type null, and some that no source brings
    if len(values) < _SAMPLE:
        return bool(again * _REPEATS >= size)
    return bool(again and size * size / (2 * again) * _REPEATS <= row_group_rows)
