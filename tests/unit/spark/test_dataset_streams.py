"""A dataset as a frame and as a stream, without Spark, at a moment and after changes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dil.execution.spark_types import spark_schema
from dil.spark.dataset_rows import DatasetRows
from dil.spark.failing import DilQueryError
from dil.spark.options import SourceOptions
from tests.derived import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def rows_of(lake: Lake, **options: str) -> DatasetRows:
    return DatasetRows(SourceOptions.of({"dataset": str(lake.orders), **options}))


def frame_of(lake: Lake, **options: str) -> Any:
    rows = rows_of(lake, **options)
    return rows.reader(spark_schema(rows.columns()), is_inferred=True)


def stream_of(lake: Lake) -> Any:
    rows = rows_of(lake)
    return rows.stream(spark_schema(rows.columns()), is_inferred=True)


def ids_of(stream: Any, partitions: Any) -> list[int]:
    return [
        row["id"] for each in partitions for batch in stream.read(each) for row in batch.to_pylist()
    ]


def test_a_micro_batch_that_a_checkpoint_began_is_read_again_after_later_runs(lake: Lake) -> None:
    lake.feed(*range(3))
    stream = stream_of(lake)
    start, end = stream.initialOffset(), stream.latestOffset()
    lake.feed(*range(3, 6))
    assert ids_of(stream, stream.partitions(start, end)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("taken", "advice"), [(0, "a new checkpoint folder, and replace"), (1, "startingOffset=5")]
)
def test_a_micro_batch_whose_files_were_put_together_says_where_a_new_checkpoint_begins(
    lake: Lake, taken: int, advice: str
) -> None:
    lake.feed(*range(3))
    stream = stream_of(lake)
    offsets = [stream.initialOffset()]
    for first in (3, 6, 9):
        lake.feed(*range(first, first + 3))
        offsets.append(stream.latestOffset())
    lake.compact(lake.orders)

    with pytest.raises(DilQueryError, match="DIL-STATE") as caught:
        stream.partitions(offsets[taken], offsets[-1])

    assert advice in str(caught.value)
    assert "a new folder" in str(caught.value)  # Spark's file sink would skip the new batches


def test_a_stream_that_ends_by_itself_leaves_what_is_published_meanwhile(lake: Lake) -> None:
    lake.feed(*range(3))
    stream = stream_of(lake)
    stream.prepareForTriggerAvailableNow()
    end = stream.latestOffset()
    lake.feed(*range(3, 6))
    assert stream.latestOffset() == end
    assert ids_of(stream, stream.partitions(stream.initialOffset(), end)) == [0, 1, 2]


def test_a_stream_that_is_ahead_of_the_state_does_not_go_on(lake: Lake) -> None:
    lake.feed(*range(3))
    stream = stream_of(lake)
    end = stream.latestOffset()
    with pytest.raises(DilQueryError, match="DIL-STATE"):
        stream.latestOffset({**end, "block": end["block"] + 5})


def test_a_stream_begins_after_whole_blocks_alone(lake: Lake) -> None:
    lake.feed(*range(3))
    lake.feed(*range(3, 6))
    schema = spark_schema(rows_of(lake).columns())
    stream: Any = rows_of(lake, startingOffset="1").stream(schema, is_inferred=True)
    with pytest.raises(DilQueryError, match="use the last offset of a block"):
        stream.initialOffset()


def test_a_frame_has_the_rows_of_the_moment_when_its_columns_were_asked(lake: Lake) -> None:
    lake.feed(*range(3))
    rows = rows_of(lake)
    schema = spark_schema(rows.columns())
    lake.feed(*range(3, 6))
    reader: Any = rows.reader(schema, is_inferred=True)
    assert ids_of(reader, reader.partitions()) == [0, 1, 2]


def test_a_frame_has_the_rows_up_to_the_block_and_the_offset_that_are_asked_for(
    lake: Lake,
) -> None:
    def ids(**options: str) -> list[int]:
        reader = frame_of(lake, **options)
        return ids_of(reader, reader.partitions())

    lake.feed(*range(3))
    block = str(stream_of(lake).latestOffset()["block"])
    lake.feed(*range(3, 6))

    assert ids(startingOffset="-1") == [0, 1, 2, 3, 4, 5]
    assert ids(asOf=block, endingOffset="5") == [0, 1, 2]
    assert ids(asOf=block, endingOffset="1") == [0, 1]


def test_a_frame_of_a_dataset_that_was_started_over_is_refused(lake: Lake) -> None:
    lake.feed(*range(3))
    reader = frame_of(lake)
    for folder in ("lake", "state"):
        shutil.rmtree(lake.folder / folder)
    lake.feed(*range(3, 6))
    with pytest.raises(DilQueryError, match="DIL-STATE"):
        reader.partitions()


def test_some_columns_of_csv_files_have_their_own_values(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.orders.write_text(lake.orders.read_text().replace("=PARQUET", "=CSV"))
    lake.feed(*range(3))
    reader: Any = rows_of(lake).reader(
        spark_schema(pa.schema([("amount", pa.int64())])), is_inferred=False
    )
    found = [batch for each in reader.partitions() for batch in reader.read(each)]
    assert pa.Table.from_batches(found).to_pydict() == {"amount": [0, 10, 20]}
