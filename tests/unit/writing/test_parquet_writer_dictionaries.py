"""Which columns of a Parquet file get a dictionary."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dil.model.job import OutputFormat, WritingSpec
from dil.writing.parquet_writer import ParquetFileWriter, dictionary_columns

GROUP = 65_536


def test_values_that_repeat_get_one_at_any_depth():
    table = pa.table(
        {
            "few": [1, 1, 2, 2],
            "unique": [1, 2, 3, 4],
            "record": [{"few": "x", "unique": [1, 2]}, None, {"few": "x", "unique": [3]}, None],
            "map": pa.array(
                [[("k", 1)], [("k", 2)], None, [("k", 3)]], pa.map_(pa.string(), pa.int64())
            ),
            "records": [[{"few": 1.5}], [{"few": 1.5}], [], None],
            "nothing": pa.nulls(4),
        }
    )
    assert dictionary_columns(table, GROUP) == [
        "few",
        "record.few",
        "map.key_value.key",
        "records.list.element.few",
    ]


@pytest.mark.parametrize(
    ("distinct", "has_one"), [(2, True), (1_000, True), (GROUP // 4, True), (GROUP, False)]
)
def test_what_repeats_in_a_row_group_is_told_from_the_first_rows(distinct, has_one):
    chance = random.Random(7)
    rows = [chance.randrange(distinct) for _ in range(GROUP)]
    assert dictionary_columns(pa.table({"n": rows}), GROUP) == (["n"] if has_one else [])


def test_the_file_has_dictionaries_for_these_columns_alone():
    table = pa.table({"few": ["a", "b"] * 50_000, "unique": [f"{n:x}" for n in range(100_000)]})
    sink = io.BytesIO()
    writer = ParquetFileWriter(sink, table.schema, WritingSpec(format=OutputFormat.PARQUET))
    for batch in table.to_batches(max_chunksize=GROUP):
        writer.write(batch)
    writer.close()
    assert pq.read_table(io.BytesIO(sink.getvalue())) == table
    metadata = pq.read_metadata(io.BytesIO(sink.getvalue()))
    for group in range(metadata.num_row_groups):
        few, unique = (metadata.row_group(group).column(place) for place in (0, 1))
        assert few.has_dictionary_page
        assert not unique.has_dictionary_page


@pytest.mark.parametrize(("rows", "has_one"), [(63, False), (64, True)])
def test_a_file_of_few_rows_is_written_without_a_look_at_them(rows, has_one):
    sink = io.BytesIO()
    table = pa.table({"few": ["a"] * rows})
    writer = ParquetFileWriter(sink, table.schema, WritingSpec(format=OutputFormat.PARQUET))
    writer.write(table.to_batches()[0])
    writer.close()
    metadata = pq.read_metadata(io.BytesIO(sink.getvalue()))
    assert metadata.row_group(0).column(0).has_dictionary_page is has_one


def test_a_file_without_rows_is_whole():
    schema = pa.schema([pa.field("a", pa.list_(pa.int64()))])
    sink = io.BytesIO()
    ParquetFileWriter(sink, schema, WritingSpec(format=OutputFormat.PARQUET)).close()
    assert pq.read_table(io.BytesIO(sink.getvalue())).num_rows == 0
