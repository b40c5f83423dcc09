"""Chooses, by the first rows, the columns of a Parquet file that get a dictionary.

A dictionary of values that hardly repeat costs more time than the rest of a column's writing, and
makes the file larger.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

_SAMPLE = 16_384
# Columns whose values repeat this often on average get a dictionary.
_REPEATS = 2


def dictionary_columns(table: pa.Table, row_group_rows: int) -> list[str]:
    """Return the paths of the flat columns, as Parquet names them, whose values repeat.

    Args:
        table: The first rows of the file.
        row_group_rows: The largest number of rows that share a dictionary.
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
        # In a slice, ``keys`` and ``items`` also hold values of rows outside of the slice; these
        # values serve the sample as well.
        yield from _leaves(f"{path}.key_value.key", values.keys[:_SAMPLE])
        yield from _leaves(f"{path}.key_value.value", values.items[:_SAMPLE])
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(f"{path}.list.element", pc.list_flatten(values))
    else:
        yield path, values


def _repeats(values: pa.Array, row_group_rows: int) -> bool:
    """Return whether a row group holds each value several times, judged by the sample.

    ``again`` of ``size`` drawn values had occurred before. With ``n`` equally frequent values, this
    number would be about ``size * size / (2 * n)``.
    """
    size = len(values) - values.null_count
    try:
        again = size - pc.count_distinct(values, mode="only_valid").as_py()
    except pa.ArrowNotImplementedError:
        return False  # Arrow counts neither nulls nor values of some types that no source has.
    if len(values) < _SAMPLE:
        return bool(again * _REPEATS >= size)
    return bool(again and size * size / (2 * again) * _REPEATS <= row_group_rows)
