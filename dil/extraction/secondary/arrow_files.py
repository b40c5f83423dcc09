"""Rows of Parquet, ORC and CSV files; only the columns asked for are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from dil.extraction.arrow_input import arrow_stream
from dil.extraction.secondary.columns import Open, Rows, check_columns, json_row

_BATCH_ROWS = 8192
_CSV_BLOCK_BYTES = 1 << 20


def read_parquet(opened: Open, columns: tuple[str, ...]) -> Rows:
    """Yield the rows, one batch in memory at a time."""
    from pyarrow.parquet import ParquetFile

    with (
        arrow_stream(opened) as stream,
        ParquetFile(stream, coerce_int96_timestamp_unit="us") as file,
    ):
        schema = file.schema_arrow
        check_columns(columns, schema.names)
        batches = file.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns))
        yield from _rows(batches, schema, columns)


def read_orc(opened: Open, columns: tuple[str, ...]) -> Rows:
    """Yield the rows, one stripe in memory at a time."""
    from pyarrow.orc import ORCFile

    with arrow_stream(opened) as stream:
        file = ORCFile(stream)
        check_columns(columns, file.schema.names)
        # Without any column a stripe would tell no number of rows.
        read = list(columns or file.schema.names[:1])
        stripes = (file.read_stripe(number, columns=read) for number in range(file.nstripes))
        yield from _rows(stripes, file.schema, columns)


def read_csv(opened: Open, columns: tuple[str, ...]) -> Rows:
    """Yield the rows as text: an empty cell is null, ``""`` an empty text (rule U7)."""
    from pyarrow import csv

    with opened() as stream:
        if not stream.read(1):
            return
    names = _csv_header(opened)
    check_columns(columns, names)
    with arrow_stream(opened) as stream:
        reader = csv.open_csv(
            stream,
            csv.ReadOptions(block_size=_CSV_BLOCK_BYTES),
            csv.ParseOptions(newlines_in_values=True),
            csv.ConvertOptions(
                column_types={name: pa.string() for name in names},
                include_columns=list(columns or names[:1]),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        with reader:
            yield from _rows(reader, reader.schema, columns)


def _csv_header(opened: Open) -> list[str]:
    from pyarrow import csv

    with (
        arrow_stream(opened) as stream,
        csv.open_csv(
            stream,
            csv.ReadOptions(block_size=_CSV_BLOCK_BYTES),
            csv.ParseOptions(newlines_in_values=True),
        ) as reader,
    ):
        names: list[str] = reader.schema.names
    return names


def _rows(batches: Iterator[pa.RecordBatch], schema: pa.Schema, columns: Sequence[str]) -> Rows:
    maps = {name for name in columns if pa.types.is_map(schema.field(name).type)}
    for batch in batches:
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            part = batch.slice(start, _BATCH_ROWS)
            if not columns:
                yield from ({} for _ in range(part.num_rows))
                continue
            for row in part.to_pylist(maps_as_pydicts="strict"):
                yield json_row(row, columns, maps)
